"""The plan of one batch, from table, topic and registry.

`make_plan` first lets `ready.py` make or alter the table, and notes where it is loaded from; nothing else here changes
anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import uuid4

from tidemark import __version__
from tidemark.domain.columns.layout import layout_faults, resolve
from tidemark.domain.columns.partitioning import quoted_parts
from tidemark.domain.columns.types import Struct, table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.formats import debezium, json_columns, protobuf_columns
from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.formats.json_columns import JsonDocuments
from tidemark.domain.ledger.evidence import Evidence
from tidemark.domain.ledger.guard import Topic, another_cluster, examine, stopped_by
from tidemark.domain.ledger.ledger import Entry, Ledger, batch_id, branch_name
from tidemark.domain.ledger.offsets import Offsets, Ranges, cut, cut_before, waiting
from tidemark.domain.ledger.quality_results import Rules, row_rules, staged_rules
from tidemark.domain.plan.schema_plan import SchemaPlan
from tidemark.domain.times import moment
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.decoding import NO_ID, Decoding, KeyDecoding, WriterSchema
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.held import accepted_batch
from tidemark.engine.ingest.ready import make_ready, require_bare_values_covered
from tidemark.engine.schema.evolve import is_untold, refused_ids, removing_ids, value_columns
from tidemark.engine.schema.keys import key_decoding, required_columns
from tidemark.engine.schema.writer import Writer
from tidemark.engine.schema.writers import TopicSchemas, has_variants, read_schemas
from tidemark.engine.table.absent import lost, replaced
from tidemark.engine.table.branch import Attempt
from tidemark.engine.table.first_load import keep_origin

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
    run_id: str
    refused: frozenset[int] = frozenset()
    """Schema ids whose records the contract or an approval sends to the quarantine."""
    key: KeyDecoding | None = None
    parked: frozenset[int] = frozenset()
    """Schema ids whose records wait: they dropped a column that goes with an approval alone, or never."""
    seen: frozenset[int] | None = None
    """Schema ids that records are known to carry; None: any that the table covers may come."""
    act: str | None = None
    """What its receipt says of the person who asked for it."""
    from_quarantine: bool = False
    """Its records come from the quarantine; those that break a rule, even a blocking one, stay there."""

    @property
    def attempt(self) -> Attempt:
        """The branch of this attempt alone."""
        return Attempt(self.contract.table, branch_name(self.batch_id, self.attempt_id), self.state.head)

    @property
    def columns(self) -> Struct:
        """The value columns of the table, in its order."""
        return value_columns(self.state)

    @property
    def event_time(self) -> str | None:
        """The contract's `event_time`, while the table has such a column."""
        named = self.contract.event_time
        return named if named and not layout_faults(table_columns(self.columns), (), (), named) else None

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

    def entry(self, evidence: Evidence) -> Entry:
        """Who writes the receipt of this batch, and what the pass saw; not what its groups tell."""
        return Entry(
            batch_id=self.batch_id,
            attempt=self.attempt_id,
            run_id=self.run_id,
            contract=self.contract.digest,
            tidemark=__version__,
            schema_ids=evidence.schema_ids,
            max_timestamp=moment(evidence.max_timestamp),
            watermark=moment(evidence.watermark, per_second=1_000_000),
            event_time=self.event_time,
            others=evidence.schema_ids & frozenset(self.schemas.skips.ids),
            topic_id=self.topic.topic_id,
        )

    def why_held(self, waits: SchemaPlan | None, schema_id: int) -> str:
        """Why records of a schema wait for what the table's plan `waits` for, for a person; None: a first load."""
        changes = waits.changes if waits else ()
        never = [
            c
            for c in changes
            if (c.verdict, c.kind, c.schema_id) == ("impossible", "incompatible", schema_id)
        ]
        if never:
            return "; ".join(c.reason for c in never)
        writer = next((w for w in self.schemas.writers if w.id == schema_id), None)
        gone = [
            c
            for c in changes
            if c.kind == "remove_column"
            and schema_id in self.parked
            and (
                writer is None
                or is_untold(writer, c.path)
                or resolve(writer.columns, quoted_parts(c.path)) is None
            )
        ]
        removed = [f"{'.'.join(c.path)}: {c.reason}" for c in gone]
        return self.schemas.why_uncovered(self.columns, schema_id) or "; ".join(removed)

    def _value_decoding(self) -> Decoding:
        if self.schemas.plain is not None:
            return self._plain_decoding()
        covered = self.covered
        newest = next(reversed(covered.values()), None)
        left_out = self._left_out(covered)
        return Decoding(
            format=self.schemas.format,
            columns=self.columns,
            epoch=self.ledger.epoch,
            writers={i: self._as_stored(w.schema) for i, w in covered.items() if i not in left_out},
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
        return self._left_out(self.covered)

    def _left_out(self, covered: Mapping[int, Writer]) -> frozenset[int]:
        if self.seen is None or len(covered) <= MANY_VERSIONS:
            return frozenset()
        newest = list(covered)[-MANY_VERSIONS // 2 :]
        return frozenset(covered) - self.seen - frozenset(newest)

    @property
    def covered(self) -> dict[int, Writer]:
        """The writers whose records become rows, by id."""
        apart = self.refused | self.parked
        return {i: w for i, w in self.schemas.covered(self.columns).items() if i not in apart}

    def _as_stored(self, schema: WriterSchema) -> WriterSchema:
        """The schema as the table has its columns: what was text before format 3 stays text."""
        if not has_variants(self.contract, self.state):
            return schema
        if isinstance(schema, AvroSchema):
            return debezium.with_texts(schema, self.columns, self.contract.value.envelope)
        if isinstance(schema, JsonDocuments):
            return json_columns.with_texts(schema, self.columns)
        return protobuf_columns.with_texts(schema, self.columns)

    def _plain_decoding(self) -> Decoding:
        epoch, documents = self.ledger.epoch, self.schemas.documents
        if documents is not None:
            return Decoding("json", self.columns, epoch, {NO_ID: self._as_stored(documents)}, framing="bare")
        return Decoding("string" if self.contract.value.format == "string" else "raw", self.columns, epoch)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan respects beside table and topic.

    loaded_before  if missing it is not made again, and another table in its place is not loaded
    uuid           of the very table that is meant, for none that was made in its place
    goal           bounds the offsets from above
    ceiling        does so for partitions whose further records the table does not cover
    seen           schema ids that an earlier pass came upon
    """

    loaded_before: bool = False
    goal: Offsets | None = None
    ceiling: Offsets = field(default_factory=dict)
    seen: frozenset[int] = frozenset()
    uuid: str | None = None

    def with_found(self, ceiling: Offsets, seen: frozenset[int]) -> Self:
        """These limits, with what a pass has come upon."""
        return replace(self, ceiling={**self.ceiling, **ceiling}, seen=self.seen | seen)


def make_plan(lake: Lake, contract: Contract, run_id: str, limits: Limits) -> Plan | None:
    """Make the table ready, then plan the next batch; None when nothing waits or the table is paused.

    Raises:
        Stopped: any stop state that table and topic show.
        Outage: a service does not answer.
        Overtaken: another run made the table in the same moment.
    """
    state = _as_meant(lake, contract, limits)
    if state is None:
        return None
    topic = lake.topic(contract)
    seen = limits.seen.union(state.ledger.others if state.ledger else ())
    schemas = read_schemas(lake, contract, state, seen)
    if finding := another_cluster(state.ledger, topic.cluster_id):  # before its schemas change the table
        raise stopped_by(contract, finding)
    before, made = state.ledger, make_ready(lake, contract, state, topic, schemas, run_id)
    if made is None:
        return None
    state, ledger = made
    if ledger != before:  # it may have read further since than the topic reached
        topic = lake.topic(contract)
    topic, ranges = _cut(contract, state, ledger, topic, limits)
    keep_origin(lake, contract, topic, state)
    pause_point("planned")
    if not ranges:
        return None
    if schemas.framing == "bare":
        require_bare_values_covered(contract, state, schemas)
    return Plan(
        contract=contract,
        topic=topic,
        state=state,
        ledger=ledger,
        schemas=schemas,
        ranges=ranges,
        batch_id=batch_id(contract.table, ledger.epoch, ranges),
        attempt_id=uuid4().hex[:8],
        run_id=run_id,
        key=key_decoding(lake, contract, value_columns(state)),
        refused=refused_ids(contract, state, schemas),
        parked=removing_ids(contract, state, schemas, "review", "impossible"),
        seen=limits.seen.union(ledger.schema_ids),
    )


def _as_meant(lake: Lake, contract: Contract, limits: Limits) -> TableState | None:
    """The table as it is now; None while it is paused.

    Raises:
        Stopped: it is lost, is another one than was loaded, or was dropped meanwhile.
    """
    state = lake.state(contract.table)
    if state.paused:
        return None
    if limits.loaded_before and not state.exists:
        raise lost(lake, contract)
    if limits.loaded_before and state.ledger is None:
        raise replaced(contract, state)
    if limits.uuid not in {None, state.uuid}:
        raise Stopped("table_missing", contract.table, "It was dropped meanwhile.", topic=contract.topic)
    return state


def _cut(
    contract: Contract, state: TableState, ledger: Ledger, topic: Topic, limits: Limits
) -> tuple[Topic, Ranges]:
    """The topic as far as the batch is about it, and what the batch reads. Raises as `require_same_topic`."""
    topic = _below(topic, ledger, limits.goal)
    require_same_topic(contract, ledger, topic)
    end = dict(topic.end)
    for bound in (limits.goal, _accepted_ends(state)):
        if bound is not None:
            end = {p: min(o, bound.get(p, 0)) for p, o in end.items()}
    return topic, cut(cut_before(waiting(ledger.next, end), limits.ceiling), contract.ingest.max_records)


def require_same_topic(contract: Contract, ledger: Ledger, topic: Topic, when: str = "") -> None:
    """Raises Stopped when the topic is not the one that the ledger is about, or has lost what waits."""
    if finding := examine(ledger, topic):
        raise stopped_by(contract, finding, when)


def require_topic_unchanged(lake: Lake, plan: Plan) -> None:
    """Raises Stopped when the topic is no longer the one that was read.

    A log start that has moved on meanwhile is no reason: Spark fails when it misses a record, and these were read.
    """
    now = lake.topic(plan.contract, before=plan.topic)
    then = replace(now, log_start={**now.log_start, **plan.topic.log_start})
    require_same_topic(plan.contract, plan.ledger, then, "It changed while the batch was staged. ")


def _below(topic: Topic, ledger: Ledger, goal: Offsets | None) -> Topic:
    """The topic as far as records below `goal` are still to be read: a log start that moves elsewhere loses none."""
    if goal is None:
        return topic
    at = {p: ledger.next.get(p, 0) for p in topic.log_start}
    first = {p: o if at[p] < goal.get(p, 0) else min(o, at[p]) for p, o in topic.log_start.items()}
    return replace(topic, log_start=first)


def _accepted_ends(state: TableState) -> Offsets | None:
    accepted = accepted_batch(state)
    return None if accepted is None else {p: each.end for p, each in accepted.items()}
