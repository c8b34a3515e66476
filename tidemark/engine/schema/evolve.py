"""Schema evolution of one table: plan, apply what the contract allows in one commit, park the rest.

Called by ingest before a batch that needs it, and by the scheduled `schema/…` asset; both do exactly this.
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.columns.layout import resolve
from tidemark.domain.columns.names import Path
from tidemark.domain.columns.partitioning import quoted_parts
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct, as_text, holds_variant, table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Overtaken, Refused
from tidemark.domain.formats.debezium import CDC, without
from tidemark.domain.ledger.guard import another_topic, stopped_by
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.meanings import known, meanings_after
from tidemark.domain.plan.schema_plan import (
    Change,
    SchemaPlan,
    Verdict,
    WriterColumns,
    judged_removals,
    plan_schema,
    removals,
    unapproved,
)
from tidemark.domain.plan.table_plan import properties_after, with_table
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.decoding import NO_ID
from tidemark.engine.schema.alter import Notes, alter
from tidemark.engine.schema.by_hand import reviewed
from tidemark.engine.schema.history import Entry, begun, history, history_properties, noted, unfinished
from tidemark.engine.schema.writer import Writer
from tidemark.engine.schema.writers import VARIANT_FORMAT, TopicSchemas, read_schemas
from tidemark.engine.table.takeover import renaming

SETTLED_IDS = "tidemark.schema.settled"
REMOVED = "tidemark.schema.removed"
LOOKS = 3
"""Times that a table is looked at while others change it in the same moment."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who lets a parked plan through, and why. `by`: the authenticated name, or else the declared one."""

    plan: str
    by: str
    reason: str
    declared: str | None = None
    authenticated: str | None = None


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
    upsert, columns, settled = upsert_table_of(contract), value_columns(state), settled_ids(state)
    writers = writer_columns(state, schemas, upsert.order if upsert else ())
    plan = plan_schema(
        contract.table,
        columns,
        writers,
        contract.schema_changes,
        removed=_removed(state, writers),
        settled=settled,
        shape=state.shape,
        upsert=upsert,
    )
    clashing = {c.schema_id for c in plan.changes if c.kind == "incompatible"} | settled
    sound = [w for w in writers if w.id not in clashing]
    kept = ("value.types",) if schemas.types_kept else ()
    return with_table(reviewed(plan, state), contract, columns, state.shape, sound, kept)


def refused_ids(contract: Contract, state: TableState, schemas: TopicSchemas) -> frozenset[int]:
    """Schema ids whose records go to quarantine: settled by an approval, or by the contract's `quarantine`."""
    return barred_ids(contract, state, schemas) | removing_ids(contract, state, schemas, "quarantine")


def barred_ids(contract: Contract, state: TableState, schemas: TopicSchemas) -> frozenset[int]:
    """Schema ids settled by an approval, and those that want what the contract sends to quarantine, whatever else."""
    if schemas.plain is not None:
        return frozenset()
    columns, barred = value_columns(state), set(settled_ids(state))
    apart = barred.union(schemas.covered(columns))
    for writer in (each for each in writer_columns(state, schemas) if each.id not in apart):
        alone = plan_schema(contract.table, columns, [writer], contract.schema_changes, shape=state.shape)
        if any(c.kind != "remove_column" for c in alone.of("quarantine")):
            barred.add(writer.id)
    return frozenset(barred)


def removing_ids(
    contract: Contract, state: TableState, schemas: TopicSchemas, *verdicts: Verdict
) -> frozenset[int]:
    """Schema ids that dropped a column which the contract, or the partition spec, does not let go."""
    if schemas.plain is not None:
        return frozenset()
    columns, policy = value_columns(state), contract.schema_changes
    pinned, upsert = state.shape.partition_sources, upsert_table_of(contract)
    decisive = (*upsert.keys, *upsert.order) if upsert else ()
    needed = [path for path in (*pinned, *decisive) if path[0] != KAFKA_COLUMN.name]
    if policy.remove_column == "apply" and all(
        resolve(w.columns, quoted_parts(path)) and not is_untold(w, path)
        for w in schemas.writers
        for path in needed
    ):
        return frozenset()  # the usual case, before every batch
    settled, writers = settled_ids(state), writer_columns(state, schemas, upsert.order if upsert else ())
    unsettled = tuple(w for w in writers if w.id not in settled)
    gone = removals(columns, unsettled, policy, state.shape.partition_names)
    found = unapproved(gone, _removed(state, writers), pinned)
    judged = {change.path: change.verdict for change in judged_removals(found, policy, pinned, upsert)}
    return frozenset(each.writer.id for each in found if judged.get(each.path) in verdicts)


def unsupported_ids(contract: Contract, state: TableState, schemas: TopicSchemas) -> frozenset[int]:
    """Schema ids of writers that no approval lets in."""
    impossible = plan_evolution(contract, state, schemas).of("impossible")
    without_columns = frozenset(c.schema_id for c in impossible if c.kind == "incompatible")
    return without_columns | removing_ids(contract, state, schemas, "impossible")


def evolve(
    lake: Lake,
    contract: Contract,
    state: TableState,
    schemas: TopicSchemas,
    *,
    run_id: str | None,
    approval: Approval | None = None,
) -> Evolution:
    """Plan, apply what may be applied, and write it into the table's history; without a run nothing is applied.

    Raises:
        Refused: the approval names another plan than the one that waits now.
        Stopped: the table was loaded from another topic than the one whose schemas these are.
        Overtaken: someone else changed the table's schema in the same moment.
    """
    plan = plan_evolution(contract, state, schemas)
    if approval and approval.plan != plan.id:
        raise Refused(
            f"plan {approval.plan} of {contract.table} is not what waits: {plan.id or 'nothing'} is",
            next_step=f"tidemark plan {contract.table}",
            table=contract.table,
        )
    if finding := another_topic(state.ledger, contract.topic):
        raise stopped_by(contract, finding)
    if run_id is None:
        return Evolution(plan, ())
    return Evolution(plan, apply_changes(lake, contract, state, plan, run_id=run_id, approval=approval))


def evolve_now(lake: Lake, contract: Contract, run_id: str | None) -> Evolution | None:
    """Apply what the contract allows, outside of an ingest; None for a table that is not there yet.

    Without a run that would apply it, this is a look and changes nothing.

    Raises:
        Stopped: it would change a table that was loaded from another topic.
        Outage: catalog, registry, Kafka or Spark do not answer.
        Overtaken: someone else changed the table in the same moment; look again.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        for turn in range(LOOKS):
            state = lake.state(contract.table, ledger=False)
            if not state.exists:
                moved = renaming(lake, contract)
                return Evolution(moved, ()) if moved else None
            if state.ledger is None:
                return None
            try:
                with translated(contract.table):
                    return evolve(lake, contract, state, read_schemas(lake, contract, state), run_id=run_id)
            except Overtaken:
                if turn == LOOKS - 1:
                    raise
        return None


def apply_changes(
    lake: Lake,
    contract: Contract,
    state: TableState,
    plan: SchemaPlan,
    *,
    run_id: str,
    approval: Approval | None = None,
) -> tuple[Change, ...]:
    """Apply what may be applied of a plan that was made for `state`, and write it into the table's history.

    Raises:
        Overtaken: someone else changed the table's schema in the same moment.
    """
    done = plan.of("apply", "review") if approval else plan.of("apply")
    if done:
        entry = _entry(plan, done, run_id, approval)
        left = [change for change in plan.changes if change not in done]
        alter(lake, contract, state, done, _notes(contract, state, done, entry, left))
    else:
        finish(lake, contract, state, plan)
    return done


def begin_rename(lake: Lake, contract: Contract, plan: SchemaPlan, approval: Approval, run_id: str) -> None:
    """Note at the table that is about to be renamed; `finish` puts it into the history under the new name."""
    [change] = plan.changes
    former = contract.model_copy(update={"table": str(change.old)})
    entry = _entry(plan, plan.changes, run_id, approval)
    notes = Notes(lambda _: {}, lambda metadata: begun(metadata.properties, entry))
    alter(lake, former, lake.state(former.table, ledger=False), (), notes)


def finish(lake: Lake, contract: Contract, state: TableState, plan: SchemaPlan | None = None) -> TableState:
    """Put into the history what has begun, apart from what `plan` still wants; the table after that."""
    if not unfinished(state, plan.changes if plan else ()):
        return state
    alter(lake, contract, state, (), _notes(contract, state, (), None, plan.changes if plan else ()))
    return lake.state(contract.table, ledger=False)


def value_columns(state: TableState) -> Struct:
    """The table's columns without `_kafka`, with what their values mean."""
    present = known(state.columns or Struct(()), state.properties)
    return Struct(tuple(f for f in present.fields if f.name != KAFKA_COLUMN.name))


def state_after(state: TableState, changes: Sequence[Change]) -> TableState:
    """The table as these changes of its columns would make it."""
    columns = table_columns(applied(value_columns(state), changes))
    return replace(
        state, columns=columns, properties={**state.properties, **meanings_after(state.properties, changes)}
    )


def _removed(state: TableState, writers: Collection[WriterColumns]) -> dict[str, int]:
    """Columns whose removal has been approved, and up to which version; all, where its schema is not there."""
    versions = {writer.id: writer.version for writer in writers}
    approved = _approved_removals(state.properties)
    return {path: versions.get(schema_id, sys.maxsize) for path, schema_id in approved.items()}


def _approved_removals(there: Mapping[str, str]) -> dict[str, int]:
    """Path -> the newest schema that lacked the column; of an earlier Tidemark, which noted paths alone, none."""
    found = json.loads(there.get(REMOVED, "{}"))
    return found if isinstance(found, dict) else dict.fromkeys(found, NO_ID)


def settled_ids(state: TableState) -> frozenset[int]:
    """Schema ids that an approval has sent to quarantine; the contract's own columns cannot be among them."""
    return frozenset(noted(state.properties, SETTLED_IDS)) - {NO_ID}


def is_untold(writer: Writer, path: Path) -> bool:
    """Whether a column is a part of `_cdc` that the writer has, as all of Debezium's have, and never fills."""
    return path[0] == CDC.name and path[-1] in writer.untold


def writer_columns(
    state: TableState, schemas: TopicSchemas, order: Collection[Path] = ()
) -> list[WriterColumns]:
    """The writers as the planner needs them, those without columns too.

    Whoever fills no column of `order` does not send it; where one schema alone is read, nobody knows who did before.
    While the upgrade to format 3 waits for its approval, what would be a VARIANT is text: the table knows none yet.
    """
    if schemas.plain is not None:
        return [WriterColumns(NO_ID, 1, storable(state.shape.format_version, schemas.plain))]
    version, alone = state.shape.format_version, schemas.framing == "bare"
    known = [
        WriterColumns(
            w.id,
            w.version,
            storable(version, w.columns),
            alone=alone,
            deleted=w.id in schemas.deleted,
            sent=without(storable(version, w.columns), left) if left and not alone else None,
        )
        for w in schemas.writers
        for left in [[path[-1] for path in order if is_untold(w, path)]]
    ]
    return [*known, *(WriterColumns(i, 0, Struct(()), why) for i, why in schemas.unsupported.items())]


def storable(format_version: int, columns: Struct) -> Struct:
    """The columns as a table of this format has them: JSON text where it knows no VARIANT."""
    if format_version >= VARIANT_FORMAT or not holds_variant(columns):
        return columns
    return cast("Struct", as_text(columns))


def _entry(
    plan: SchemaPlan, done: Sequence[Change], run_id: str, approval: Approval | None
) -> dict[str, Any]:
    return {
        "plan": plan.id,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "by": approval.by if approval else "contract",
        "declared": approval.declared if approval else None,
        "authenticated": approval.authenticated if approval else None,
        "reason": approval.reason if approval else "",
        "run_id": run_id,
        "schema_ids": sorted({c.schema_id for c in done} - {NO_ID}),
        "changes": [c.as_json() for c in done],
    }


def _notes(
    contract: Contract,
    state: TableState,
    done: Sequence[Change],
    entry: Entry | None,
    left: Collection[Change],
) -> Notes:
    """The properties that go with the changes: history, what was decided, what the contract asks for."""

    def after(metadata: TableMetadata) -> dict[str, str | None]:
        there = metadata.properties
        notes = properties_after(contract, done, left, there) if done else {}
        settled = {c.schema_id for c in done if c.kind == "incompatible"}
        if settled:
            notes[SETTLED_IDS] = json.dumps(sorted(settled.union(noted(there, SETTLED_IDS))))
        removed = {".".join(c.path): c.upto for c in done if c.kind == "remove_column"}
        if removed:
            notes[REMOVED] = json.dumps({**_approved_removals(there), **removed}, sort_keys=True)
        notes |= meanings_after(there, done)
        return {**notes, **history_properties(contract.table, metadata, entry, left, history(state))}

    def before(there: Mapping[str, str]) -> dict[str, str | None]:
        return {**begun(there, entry), **meanings_after(there, done)} if entry else {}

    return Notes(before, after)
