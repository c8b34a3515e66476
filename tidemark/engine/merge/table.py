"""How an upsert table comes to be and follows its append table's columns."""

import json

from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.columns.shape import Shape
from tidemark.domain.columns.types import TYPE_RULES, TYPE_RULES_PROPERTY, Struct
from tidemark.domain.config.contract import SchemaChanges
from tidemark.domain.config.upsert import (
    MERGE_PROPERTIES,
    UpsertTable,
    identifier_fields,
    upsert_columns,
    upsert_faults,
)
from tidemark.domain.errors import Stopped
from tidemark.domain.plan.comments import comment_changes, wanted_comments
from tidemark.domain.plan.contract_record import RECORD, record_text
from tidemark.domain.plan.schema_plan import Change, SchemaPlan, WriterColumns, plan_schema
from tidemark.domain.plan.table_plan import with_layout
from tidemark.domain.plan.table_properties import BASE, asked_for
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import OWNED, UPSERT_OF, TableState
from tidemark.engine.ingest.readable_head import with_readable_head
from tidemark.engine.merge.pair import Pair
from tidemark.engine.schema.by_hand import reviewed
from tidemark.engine.schema.evolve import apply_changes, storable
from tidemark.engine.table.create import create, set_identifiers
from tidemark.engine.table.first_load import base_properties

KEYS = "tidemark.keys"
ORDER = "tidemark.order-by"
DELETES = "tidemark.deletes"
_LAYOUT = frozenset({"partition_spec", "sort_order", "format_version"})
"""What may wait for a person, or be impossible, while merges go on."""
_NAME_ANOTHER = "name another upsert.table"
_MADE_ANEW = (
    "Name another `upsert.table`, or drop this one and accept its first load: append rows make it anew."
)


def prepare(lake: Lake, current: UpsertTable, state: TableState, append: Struct, run_id: str) -> TableState:
    """The table as it must be to hold rows with the columns `append`: made, checked, grown.

    Raises:
        Stopped: `misconfigured`, `table_incompatible`, or `schema_review` when a key would have to be widened.
    """
    contract = current.contract
    faults = upsert_faults(current, append)
    columns = columns_for(current, state, append)
    if not state.exists:
        faults += layout_faults(columns, contract.partitioning, contract.sort_by)
    if faults:
        raise Stopped("misconfigured", contract.table, "; ".join(faults))
    if not state.exists:
        create(lake, contract, columns, _properties(current), _identifiers(current, columns))
        return lake.state(contract.table)
    if why := made_otherwise(current, state):
        step = _NAME_ANOTHER if state.ledger else _anew(contract.table)
        raise Stopped("table_incompatible", contract.table, why, next_step=step)
    if keys := _unset_identifiers(current, columns, state.shape):
        set_identifiers(lake, contract.table, keys)
        state = lake.state(contract.table)
    plan = plan_follow(current, state, columns)
    waits = [c for c in plan.of("review", "impossible") if c.kind not in _LAYOUT]
    if clashing := [c for c in waits if c.kind == "incompatible"]:
        listed = "; ".join(
            f"{'.'.join(c.path)}: {c.old}, there {c.new}" if c.new else c.reason for c in clashing
        )
        why = f"{listed} in {current.append.table}. {_MADE_ANEW}"
        raise Stopped("table_incompatible", contract.table, why, next_step=_anew(contract.table))
    if waits:
        listed = "; ".join(f"{'.'.join(c.path)}: {c.old} -> {c.new} ({c.reason})" for c in waits)
        raise Stopped("schema_review", contract.table, f"Plan {plan.id} waits. {listed}", plan=plan.id)
    if apply_changes(lake, contract, state, plan, run_id=run_id):
        state = lake.state(contract.table)
    return with_readable_head(lake, contract, state, run_id)


def _identifiers(current: UpsertTable, columns: Struct) -> tuple[str, ...]:
    """The identifier fields: all keys, or none where one cannot be required."""
    keys = identifier_fields(current, columns)
    return keys if len(keys) == len(current.keys) else ()


def _unset_identifiers(current: UpsertTable, columns: Struct, shape: Shape) -> tuple[str, ...]:
    """Those of a table that was made to have them, as its required keys say, and has none: its making was cut off."""
    keys = () if shape.identifiers else _identifiers(current, columns)
    return keys if all((key,) in shape.required for key in keys) else ()


def lacking_columns(pair: Pair) -> Stopped | None:
    """The stop state where somebody has taken columns away from the append table by hand: they would become NULL."""
    if not pair.lost:
        return None
    table, append = pair.current.contract.table, pair.current.append.table
    listed = "; ".join(
        f"{'.'.join(path)}, renamed to {'.'.join(now)}" if now else f"{'.'.join(path)}, dropped"
        for path, now in pair.lost.items()
    )
    return Stopped(
        "schema_review",
        table,
        f"{append} no longer has columns of this table, by somebody's hand: {listed}. Merged as it is they would "
        "become NULL in the rows that are there.",
        next_step=f"rename them back in {append}, or rename or drop them in {table} too",
    )


def columns_for(current: UpsertTable, state: TableState, append: Struct) -> Struct:
    """The columns that the table has, or is made with, for the append table's.

    Its format may be an older one: by the contract, or until someone has approved to raise it.
    """
    version = state.shape.format_version if state.exists else current.contract.format_version
    return storable(version, upsert_columns(current, append))


def plan_follow(current: UpsertTable, state: TableState, wanted: Struct) -> SchemaPlan:
    """What the table lacks for the append table's columns, and for what its contract says of its layout and properties.

    Columns that were let into the append table are let in here, keys apart; their comments are the append table's.
    """
    contract, columns = current.contract, state.columns or Struct(())
    follows = SchemaChanges(add_column="apply", widen_type="apply", incompatible="review")
    writer = WriterColumns(0, 1, wanted, table=current.append.table)
    names = Shape(partition_names=state.shape.partition_names)
    plan = reviewed(plan_schema(contract.table, columns, [writer], follows, shape=names), state)
    guarded = (_guarded(change, current) for change in plan.changes)
    described = comment_changes(columns, wanted_comments([writer], {}))
    followed = SchemaPlan(plan.table, (*guarded, *described))
    return with_layout(followed, contract, columns, state.shape, {**BASE, **MERGE_PROPERTIES})


def _guarded(change: Change, current: UpsertTable) -> Change:
    if change.path not in current.keys or change.kind == "incompatible":
        return change
    why = "a key identifies rows that are there already"
    return Change(change.kind, change.path, change.old, change.new, "review", why, change.schema_id)


def _properties(current: UpsertTable) -> dict[str, str | None]:
    contract = current.contract
    return {
        **base_properties(contract),
        **MERGE_PROPERTIES,
        OWNED: current.append.topic,
        UPSERT_OF: current.append.table,
        **_identity(current),
        TYPE_RULES_PROPERTY: str(TYPE_RULES),
        RECORD: record_text(contract),
        **asked_for(contract),
    }


def _identity(current: UpsertTable) -> dict[str, str]:
    """What may not change under a table that has rows."""
    return {
        KEYS: json.dumps(list(current.upsert.keys)),
        ORDER: json.dumps(list(current.upsert.order_by)),
        DELETES: current.upsert.deletes,
    }


def _anew(table: str) -> str:
    return f"{_NAME_ANOTHER}, or drop this one and then: tidemark accept {table} --first-load --reason …"


def made_otherwise(current: UpsertTable, state: TableState) -> str:
    """Why the table cannot be merged into: an append table, or made for other keys, order or deletes. Empty if not."""
    if state.ledger is not None:
        return f"It is an append table, which holds topic {state.ledger.topic}. Name another `upsert.table`."
    wanted = {UPSERT_OF: current.append.table, **_identity(current)}
    other = {
        key: state.properties.get(key) for key, value in wanted.items() if state.properties.get(key) != value
    }
    if not other:
        return ""
    return (
        f"It was made with {other}, the contract says { ({key: wanted[key] for key in other}) }. {_MADE_ANEW}"
    )
