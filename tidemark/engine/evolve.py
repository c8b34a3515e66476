"""Schema evolution of one table: plan, apply what the contract allows in one commit, park the rest.

Called by ingest before a batch that needs it, and by the scheduled `schema/…` asset; both do exactly this. The history
is kept with the table, newest last.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField, StructType
from pyiceberg.types import ListType as IcebergList
from pyiceberg.types import MapType as IcebergMap

from tidemark.domain.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.schema_plan import Change, SchemaPlan, WriterColumns, plan_schema
from tidemark.domain.spark_types import quoted_name, quoted_text, spark_ddl
from tidemark.domain.types import KAFKA_COLUMN, ColumnType, ListType, MapType, Primitive, Struct
from tidemark.engine.decode import NO_ID
from tidemark.engine.lake import Lake
from tidemark.engine.publish import can_compare_and_set
from tidemark.engine.schemas import TopicSchemas
from tidemark.engine.table_state import TableState, load
from tidemark.engine.tables import set_properties

HISTORY = "tidemark.schema.history"
SETTLED = "tidemark.schema.settled"
REMOVED = "tidemark.schema.removed"
KEPT = 50
"""Entries of the history that stay in the table property."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who lets a parked plan through, and why."""

    plan: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evolution:
    """What one look at a table came to."""

    plan: SchemaPlan
    done: tuple[Change, ...]

    @property
    def parked(self) -> tuple[Change, ...]:
        """What waits for a person."""
        return tuple(c for c in self.plan.of("review", "impossible") if c not in self.done)


def plan_evolution(contract: Contract, state: TableState, schemas: TopicSchemas) -> SchemaPlan:
    """What the table lacks for the registered writers, judged by the contract. Pure reading."""
    return plan_schema(
        contract.table,
        value_columns(state),
        _writers(schemas),
        contract.schema_changes,
        removed=frozenset(json.loads(state.properties.get(REMOVED, "[]"))),
        settled=settled_ids(state),
    )


def refused_ids(contract: Contract, state: TableState, schemas: TopicSchemas) -> frozenset[int]:
    """Schema ids whose records go to quarantine: settled by an approval, or by the contract's `quarantine`."""
    refused = set(settled_ids(state))
    for writer in _writers(schemas):
        alone = plan_schema(contract.table, value_columns(state), [writer], contract.schema_changes)
        needed = [c for c in alone.changes if c.kind != "remove_column"]
        if needed and all(c.verdict == "quarantine" for c in needed):
            refused.add(writer.id)
    return frozenset(refused)


def evolve(
    lake: Lake,
    contract: Contract,
    state: TableState,
    schemas: TopicSchemas,
    *,
    run_id: str,
    approval: Approval | None = None,
) -> Evolution:
    """Plan, apply what may be applied, and write it into the table's history.

    Raises:
        Refused: the approval names another plan than the one that waits now.
        Overtaken: someone else changed the table's schema in the same moment.
    """
    plan = plan_evolution(contract, state, schemas)
    if approval and approval.plan != plan.id:
        raise Refused(
            f"plan {approval.plan} of {contract.table} is not what waits: {plan.id or 'nothing'} is",
            next_step=f"tidemark plan {contract.table}",
            table=contract.table,
        )
    done = plan.of("apply", "review") if approval else plan.of("apply")
    if done:
        _apply(lake, contract, state, done, _entry(plan, done, run_id, approval))
    return Evolution(plan, done)


def apply_changes(
    lake: Lake, contract: Contract, state: TableState, plan: SchemaPlan, *, run_id: str
) -> tuple[Change, ...]:
    """Apply what may be applied of a plan that was made elsewhere, and write it into the table's history."""
    done = plan.of("apply")
    if done:
        _apply(lake, contract, state, done, _entry(plan, done, run_id, None))
    return done


def value_columns(state: TableState) -> Struct:
    """The table's columns without `_kafka`."""
    present = state.columns or Struct(())
    return Struct(tuple(f for f in present.fields if f.name != KAFKA_COLUMN.name))


def settled_ids(state: TableState) -> frozenset[int]:
    """Schema ids that an approval has sent to quarantine."""
    return frozenset(json.loads(state.properties.get(SETTLED, "[]")))


def history(state: TableState) -> list[dict[str, Any]]:
    """What was changed, by whom and why, oldest first."""
    return list(json.loads(state.properties.get(HISTORY, "[]")))


def _writers(schemas: TopicSchemas) -> list[WriterColumns]:
    if schemas.plain is not None:
        return [WriterColumns(NO_ID, 1, schemas.plain)]
    known = [WriterColumns(w.id, w.version, w.columns) for w in schemas.writers]
    return [*known, *(WriterColumns(i, 0, Struct(()), why) for i, why in schemas.unsupported.items())]


def _entry(
    plan: SchemaPlan, done: Sequence[Change], run_id: str, approval: Approval | None
) -> dict[str, Any]:
    return {
        "plan": plan.id,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "by": approval.by if approval else "contract",
        "reason": approval.reason if approval else "",
        "run_id": run_id,
        "schema_ids": sorted({c.schema_id for c in done}),
        "changes": [c.as_json() for c in done],
    }


def _apply(
    lake: Lake, contract: Contract, state: TableState, done: Sequence[Change], entry: dict[str, Any]
) -> None:
    notes = {HISTORY: json.dumps([*history(state), entry][-KEPT:])}
    settled = {c.schema_id for c in done if c.kind == "incompatible"}
    if settled:
        notes[SETTLED] = json.dumps(sorted(settled | settled_ids(state)))
    removed = {".".join(c.path) for c in done if c.kind == "remove_column"}
    if removed:
        notes[REMOVED] = json.dumps(sorted(removed | set(json.loads(state.properties.get(REMOVED, "[]")))))
    columns = [c for c in done if c.kind in {"add_column", "widen_type"}]
    table = load(lake.catalog, contract.table)
    if table is not None and can_compare_and_set(lake, table.metadata):
        _commit(table, columns, notes)
    else:
        _alter(lake, contract.table, columns, notes)


def _commit(table: Table, columns: Sequence[Change], notes: dict[str, str]) -> None:
    """Columns and history in one commit."""
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            for change in columns:
                new = _iceberg(change.new, count(1))
                if change.kind == "add_column":
                    update.add_column(change.path, new, doc=change.doc or None)
                else:
                    update.update_column(change.path, field_type=new)
        transaction.set_properties(notes)


def _alter(lake: Lake, table: str, columns: Sequence[Change], notes: dict[str, str]) -> None:
    """The same in Spark SQL, for tables that PyIceberg cannot write."""
    spark, identifier = lake.spark(), lake.identifier(table)
    added = [c for c in columns if c.kind == "add_column" and c.new]
    if added:
        listed = ", ".join(
            f"{quoted_name(*c.path)} {spark_ddl(c.new)}" + (f" COMMENT {quoted_text(c.doc)}" if c.doc else "")
            for c in added
            if c.new
        )
        spark.sql(f"ALTER TABLE {identifier} ADD COLUMNS ({listed})")
    for change in columns:
        if change.kind == "widen_type" and change.new:
            spark.sql(
                f"ALTER TABLE {identifier} ALTER COLUMN {quoted_name(*change.path)} TYPE {spark_ddl(change.new)}"
            )
    set_properties(lake, table, dict(notes))


def _iceberg(kind: ColumnType | None, ids: "count[int]") -> IcebergType:
    """Our type as PyIceberg's; the ids are only placeholders, the table gives its own."""
    match kind:
        case Struct(fields):
            return StructType(
                *(NestedField(next(ids), f.name, _iceberg(f.type, ids), False, f.doc or None) for f in fields)
            )
        case ListType(element):
            return IcebergList(next(ids), _iceberg(element, ids), element_required=False)
        case MapType(key, value):
            return IcebergMap(
                next(ids), _iceberg(key, ids), next(ids), _iceberg(value, ids), value_required=False
            )
        case Primitive(name):
            return IcebergType.model_validate(name)
    raise ValueError(f"no column type: {kind}")
