"""The plan of one batch: read from the truth (table, topic, registry) and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from tidemark.domain.columns.coverage import Difference, covers
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import SchemaUnsupported, Stopped
from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.ledger.guard import Topic, examine
from tidemark.domain.ledger.ledger import Ledger, batch_id, branch_name
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, Ranges, cut, cut_before, total, waiting
from tidemark.domain.ledger.quality_results import Rules, row_rules, staged_rules
from tidemark.domain.states import State
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.records import NO_ID, Decoding, KeyDecoding
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.held import accepted_batch
from tidemark.engine.ingest.quality_plan import check_rules
from tidemark.engine.schema.evolve import evolve, plan_evolution, refused_ids, removing_ids, value_columns
from tidemark.engine.schema.history import unfinished
from tidemark.engine.schema.keys import key_decoding, required_columns
from tidemark.engine.schema.subjects import subject_of
from tidemark.engine.schema.writer import Writer
from tidemark.engine.schema.writers import TopicSchemas, read_schemas
from tidemark.engine.table.branch import Attempt
from tidemark.engine.table.create import prepare, table_columns
from tidemark.engine.table.settle import settle
from tidemark.engine.table.takeover import renaming, require_free_folder

MANY_VERSIONS = 16
"""Of a subject; up to so many are looked for in every batch."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One batch of one table: what is read, on top of which snapshot, into which columns."""

    contract: Contract
    topic: Topic
    state: TableState
    ledger: Ledger
    schemas: TopicSchemas
    ranges: Ranges
    batch_id: str
    attempt_id: str
    refused: frozenset[int] = frozenset()
    key: KeyDecoding | None = None
    parked: frozenset[int] = frozenset()
    seen: frozenset[int] | None = None
    """Schema ids that records are known to carry; None: any that the table covers may come."""
    act: str | None = None
    """What its receipt says of the person who asked for it."""
    from_quarantine: bool = False
    """Its records lie in the quarantine, and those that break a rule stay there, one that blocks a batch too."""

    @property
    def attempt(self) -> Attempt:
        """The branch of this attempt alone."""
        return Attempt(self.contract.table, branch_name(self.batch_id, self.attempt_id), self.state.head)

    @property
    def columns(self) -> Struct:
        """The value columns of the table, in its order."""
        return value_columns(self.state)

    @property
    def accepted(self) -> bool:
        """Someone has accepted this very batch as it is (`accept --quarantine-batch`): it was cut to that."""
        return accepted_batch(self.state) is not None and all(
            each.start >= self.ledger.next.get(p, 0) for p, each in self.ranges.items()
        )

    @property
    def row_rules(self) -> Rules | None:
        """The contract's rules that are judged while decoding."""
        lenient = self.accepted or self.from_quarantine
        return row_rules(self.contract, table_columns(self.columns), accepted=lenient)

    @property
    def staged_rules(self) -> Rules | None:
        """The contract's rules that are judged on the stage."""
        columns, of_rows = table_columns(self.columns), not self.from_quarantine
        return staged_rules(self.contract, columns, accepted=self.accepted, of_rows=of_rows)

    def decoding(self) -> Decoding:
        """How records become rows: every writer schema that the table holds exactly, in one pass.

        Not those that the contract refuses or has parked, whatever the table could hold of them.
        """
        return replace(
            self._value_decoding(),
            envelope=self.contract.value.envelope,
            upserts=self.contract.upsert is not None,
            key=self.key,
            required=required_columns(self.contract, self.columns),
            rules=self.row_rules,
        )

    def _value_decoding(self) -> Decoding:
        if self.schemas.plain is not None:
            return self._plain_decoding()
        covered = self._covered()
        newest = max(covered.values(), key=lambda w: w.version, default=None)
        left_out = self._left_out(covered)
        return Decoding(
            format=self.schemas.format,
            columns=self.columns,
            epoch=self.ledger.epoch,
            writers={i: writer.schema for i, writer in covered.items() if i not in left_out},
            reader=newest.schema if newest and isinstance(newest.schema, AvroSchema) else None,
            uncovered=self.schemas.ids - frozenset(covered) - self.refused,
            skipped=self.schemas.bookkeeping | frozenset(self.schemas.skips.ids),
            unrouted=self.schemas.skips.unrouted,
            indexes=self.schemas.skips.indexes,
            framing=self.schemas.framing,
        )

    @property
    def left_out(self) -> frozenset[int]:
        """Schemas that the table covers and the batch is not prepared for: their records come out as unknown.

        Each version costs every batch, so of many only the newest and those seen are looked for. The others' records
        are met once, and the batch is planned again with them.
        """
        return self._left_out(self._covered())

    def _left_out(self, covered: Mapping[int, Writer]) -> frozenset[int]:
        if self.seen is None or len(covered) <= MANY_VERSIONS:
            return frozenset()
        newest = sorted(covered, key=lambda i: covered[i].version)[-MANY_VERSIONS // 2 :]
        return frozenset(covered) - self.seen - frozenset(newest)

    def _covered(self) -> dict[int, Writer]:
        apart = self.refused | self.parked
        return {i: w for i, w in self.schemas.covered(self.columns).items() if i not in apart}

    def _plain_decoding(self) -> Decoding:
        epoch, documents = self.ledger.epoch, self.schemas.documents
        if documents is not None:
            return Decoding("json", self.columns, epoch, {NO_ID: documents}, framing="bare")
        return Decoding("string" if self.contract.value.format == "string" else "raw", self.columns, epoch)


def make_plan(
    lake: Lake,
    contract: Contract,
    run_id: str,
    *,
    known: bool = False,
    goal: Offsets | None = None,
    ceiling: Offsets | None = None,
    seen: frozenset[int] = frozenset(),
) -> Plan | None:
    """The next batch of a table, or None when nothing waits or the table is paused.

    A table that is not there yet is made first, unless it is `known` to have been loaded before. `goal` bounds the
    offsets from above, `ceiling` does so for partitions whose further records the table does not cover; `seen` are
    schema ids that an earlier pass came upon.

    Raises:
        Stopped: any stop state that table and topic show.
        Outage: a service does not answer.
        Overtaken: another run made the table in the same moment.
    """
    state = lake.state(contract.table)
    if state.paused:
        return None
    if known and not state.exists:
        raise Stopped("table_missing", contract.table, "Earlier runs have loaded it.", topic=contract.topic)
    topic = lake.topic(contract)
    schemas = read_schemas(lake, contract, seen.union(state.ledger.others if state.ledger else ()))
    ready = _ready(lake, contract, state, topic, schemas, run_id)
    if ready is None:
        return None
    state, ledger = ready
    require_same_topic(contract, ledger, topic)
    ranges = _batch(ledger, topic, contract.ingest.max_records, [goal, _accepted_ends(state)], ceiling)
    pause_point("planned")
    if not ranges:
        return None
    if schemas.framing == "bare":
        require_covered(contract, state, schemas)
    return Plan(
        contract=contract,
        topic=topic,
        state=state,
        ledger=ledger,
        schemas=schemas,
        ranges=ranges,
        batch_id=batch_id(contract.table, ledger.epoch, ranges),
        attempt_id=uuid4().hex[:8],
        key=key_decoding(lake, contract, value_columns(state)),
        refused=refused_ids(contract, state, schemas),
        parked=removing_ids(contract, state, schemas, "review", "impossible"),
        seen=seen.union(ledger.schema_ids),
    )


def _ready(
    lake: Lake, contract: Contract, state: TableState, topic: Topic, schemas: TopicSchemas, run_id: str
) -> tuple[TableState, Ledger] | None:
    """The table as a batch needs it: made, rid of what earlier runs left, changed; None while nothing can be made."""
    fresh = state.ledger is None
    if fresh or not state.owned:  # a run that took a table over may have died before the table said so
        if not _prepared(lake, contract, topic, schemas, run_id):
            return None
        state = lake.state(contract.table)
    ledger = state.ledger
    if ledger is None:
        raise Stopped("ledger_missing", contract.table, "Its first receipt vanished again.")
    settle(lake, contract, ledger)
    state = evolved(lake, contract, state, schemas, run_id, fresh=fresh)
    check_rules(lake, contract, table_columns(value_columns(state)))
    return state, ledger


def require_same_topic(contract: Contract, ledger: Ledger, topic: Topic, when: str = "") -> None:
    """Raises Stopped when the topic is not the one that the ledger is about, or has lost what waits."""
    finding = examine(ledger, topic)
    if finding:
        raise Stopped(
            finding.state,
            contract.table,
            f"{when}{finding.detail}",
            topic=contract.topic,
            cluster=contract.cluster,
            **finding.fields,
        )


def evolved(
    lake: Lake,
    contract: Contract,
    state: TableState,
    schemas: TopicSchemas,
    run_id: str,
    *,
    fresh: bool = False,
) -> TableState:
    """The table after the changes that the contract applies; `fresh`: its first receipt was written just now.

    Edits of the contract are looked for once: the receipts of a table say by which contract it was last written. A
    run that still has the contract of yesterday lets the table be.

    Raises:
        Stopped: columns that the contract declares wait for an approval, or cannot be had.
        Overtaken: someone else changed the table's schema in the same moment.
    """
    if schemas.plain is not None:
        state = _with_declared(lake, contract, state, schemas, run_id)
    edited = state.ledger is not None and state.ledger.contract != contract.digest
    lacking = schemas.ids - frozenset(schemas.covered(value_columns(state)))
    if not (edited or fresh or lacking or unfinished(state)):
        return state
    pause_point("evolving")
    if evolve(lake, contract, state, schemas, run_id=run_id).done:
        return lake.state(contract.table)
    return state


def require_covered(contract: Contract, state: TableState, schemas: TopicSchemas) -> None:
    """Values without a schema id are all read with one schema: while the table does not hold it, none can be read.

    Raises:
        Stopped: `schema_review` when a plan waits, `schema_unsupported` when no plan can help, `misconfigured` when
            the contract or an approval has sent the schema's records to quarantine.
    """
    columns = value_columns(state)
    lacking = sorted(schemas.ids - frozenset(schemas.covered(columns)))
    if not lacking:
        return
    waiting_plan = plan_evolution(contract, state, schemas)
    why = "; ".join(f"schema id {i}: {schemas.why_uncovered(columns, i)}" for i in lacking)
    stop: State = "schema_unsupported" if waiting_plan.verdict == "impossible" else "schema_review"
    refused = refused_ids(contract, state, schemas)
    raise Stopped(
        "misconfigured" if refused else stop,
        contract.table,
        f"Values carry no schema id, and the table does not hold {subject_of(contract)}. {why}. "
        + ("Pin a version that it holds." if refused else f"Plan {waiting_plan.id} waits."),
        plan=waiting_plan.id,
        topic=contract.topic,
        schema_ids=lacking,
    )


def _with_declared(
    lake: Lake, contract: Contract, state: TableState, schemas: TopicSchemas, run_id: str
) -> TableState:
    """The table after the columns of the contract have changed.

    Raises:
        Stopped: `schema_review` when the change waits for an approval, `table_incompatible` when none can help.
    """
    if not _lacking(contract, state, schemas) and contract.schema_changes.remove_column == "apply":
        return state
    evolution = evolve(lake, contract, state, schemas, run_id=run_id)
    state = lake.state(contract.table) if evolution.done else state
    missing = _lacking(contract, state, schemas)
    gone = [".".join(c.path) for c in evolution.parked if c.kind == "remove_column"]
    if gone:
        raise Stopped(
            "schema_review",
            contract.table,
            f"Plan {evolution.plan.id} waits. The contract no longer declares {', '.join(gone)}",
            plan=evolution.plan.id,
            topic=contract.topic,
        )
    if not missing:
        return state
    hopeless = any(d.kind == "incompatible" for d in missing)
    raise Stopped(
        "table_incompatible" if hopeless else "schema_review",
        contract.table,
        ("" if hopeless else f"Plan {evolution.plan.id} waits. ")
        + "The contract declares what the table does not hold: "
        + "; ".join(f"{d.dotted}: {d.kind} (table {d.found}, contract {d.wanted})" for d in missing)
        + (f". {made_anew(state)}" if hopeless and made_anew(state) else ""),
        plan=evolution.plan.id,
        topic=contract.topic,
    )


def made_anew(state: TableState) -> str:
    """The way out of a table that a wrong contract has made, and no row was ever written to; empty for any other."""
    if state.rows or (state.ledger and any(each.written for each in state.ledger.totals.values())):
        return ""
    return (
        f"It has no rows: drop it, then tidemark accept {state.table} --first-load --reason … makes it anew"
    )


def _lacking(contract: Contract, state: TableState, schemas: TopicSchemas) -> tuple[Difference, ...]:
    """What the table lacks to hold the declared columns."""
    try:
        return covers(value_columns(state), schemas.plain or Struct(()))
    except SchemaUnsupported as error:
        raise Stopped("table_incompatible", contract.table, str(error), topic=contract.topic) from error


def _prepared(lake: Lake, contract: Contract, topic: Topic, schemas: TopicSchemas, run_id: str) -> bool:
    wanted = schemas.wanted()
    if wanted is not None:
        _first_of_its_name(lake, contract)
        check_rules(lake, contract, table_columns(wanted))
        key_decoding(lake, contract, wanted)
        prepare(lake, contract, topic, wanted, run_id)
        return True
    if schemas.unsupported:
        newest = max(schemas.unsupported)
        raise Stopped("schema_unsupported", contract.table, schemas.unsupported[newest], topic=contract.topic)
    if total(waiting(topic.log_start, topic.end)):
        raise Stopped(
            "misconfigured",
            contract.table,
            f"topic {contract.topic} holds records, but the schema registry does not know subject "
            f"{subject_of(contract)}. If the values are not in the registry, say so with `value: {{format: raw}}`.",
        )
    return False


def _first_of_its_name(lake: Lake, contract: Contract) -> None:
    """Nothing is loaded anew that was only renamed, nor into a folder that another table's files are in.

    Raises:
        Stopped: `schema_review` with the plan that renames, `misconfigured` when the name's folder is in use.
    """
    if lake.state(contract.table, ledger=False).exists:
        return
    moved = renaming(lake, contract)
    if moved is not None:
        why = "; ".join(change.reason for change in moved.changes)
        raise Stopped("schema_review", contract.table, f"Plan {moved.id} waits. {why}", plan=moved.id)
    require_free_folder(lake, contract.table)


def _accepted_ends(state: TableState) -> Offsets | None:
    accepted = accepted_batch(state)
    return None if accepted is None else {p: each.end for p, each in accepted.items()}


def _batch(
    ledger: Ledger, topic: Topic, limit: int, bounds: Sequence[Offsets | None], ceiling: Offsets | None
) -> dict[int, OffsetRange]:
    end = dict(topic.end)
    for bound in (each for each in bounds if each is not None):
        end = {p: min(o, bound.get(p, 0)) for p, o in end.items()}
    return cut(cut_before(waiting(ledger.next, end), ceiling or {}), limit)
