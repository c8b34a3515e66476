"""Kafka's committed records against rows and quarantine, offset by offset, without trusting the ledger's counts.

The ledger only says which offsets are published, [start, next) of the current epoch. What does not fit into one byte
per offset and `MARKS` bytes is compared in windows, so memory is bounded whatever the topic holds.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table as IcebergTable

from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken
from tidemark.domain.ledger.fate import batches_within
from tidemark.domain.ledger.guard import Topic, examine, stopped_by
from tidemark.domain.ledger.ledger import NOTHING, Gap, Ledger
from tidemark.domain.ledger.offsets import OffsetRange, Ranges
from tidemark.domain.maintenance.retention import expired_before
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ledgers_of_epoch
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import TableState, load
from tidemark.engine.look.headroom import compacted
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.counted_quarantine import NEEDED, OPEN, as_settled
from tidemark.engine.table.settle import pending
from tidemark.engine.verify.committed import read_committed
from tidemark.engine.verify.kafka_rows import kafka_rows, needs_spark
from tidemark.engine.verify.marks import (
    OLD,
    QUARANTINED,
    RECORD,
    ROW,
    TOMBSTONE,
    Count,
    Marks,
    beyond,
    inside,
    mark,
    windows,
)

MOMENTS = 6
MARKS = 64_000_000
"""Offsets that are compared at once; one byte each."""
MARKS_BY_SPARK = MARKS // 16
"""The same where the client holds the places of all rows of them, 16 bytes each."""

OnProgress = Callable[[int, int], None]
"""Called with (offsets read, offsets in all)."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was compared. `beyond`: rows that the ledger does not cover, which must not be there."""

    table: str
    epoch: int
    start: Mapping[int, int]
    counts: tuple[Count, ...]
    accepted: tuple[Gap, ...]
    beyond: int
    compacted: bool | None
    """None when nobody could tell: then it explains nothing."""
    seconds: float
    reading: float

    @property
    def records(self) -> int:
        """Kafka records that were counted."""
        return sum(each.kafka_records for each in self.counts)

    @property
    def never_committed(self) -> bool:
        """Rows stand where Kafka holds no committed record, and no compaction explains it."""
        return not self.compacted and any(each.unknown for each in self.counts)

    @property
    def sound(self) -> bool:
        """Nothing lost, nothing twice, nothing that was never committed."""
        faults = any(each.gaps or each.duplicates for each in self.counts)
        return not (faults or self.beyond or self.never_committed)


def reconcile(
    lake: Lake,
    contract: Contract,
    on_progress: OnProgress = lambda _done, _all: None,
    newest: int | None = None,
) -> Reconciliation:
    """Compare the current epoch of a table with its topic: the `newest` offsets, as many of each partition, or all.

    Raises:
        Refused: the table was never loaded.
        Stopped: the topic is no longer the one that was read; there is nothing to compare with.
        Overtaken: someone rewrote the table and expired what was being read.
        Outage: Kafka, the catalog or the store does not answer.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        began = time.perf_counter()
        state, quarantine = _together(lake, contract)
        topic = lake.topic(contract)  # after the table, which is never further than the topic
        ledger = _comparable(lake, contract, state, topic)
        newest = newest and max(1, newest // max(1, len(ledger.next)))
        counts, expired = _counts(ledger, topic, newest), expired_before(state.properties)
        table = load(lake.catalog, contract.table)
        work = _Comparison(
            lake, contract, state.head, ledger, counts, on_progress, table, quarantine, expired
        )
        covered = {
            p: OffsetRange(min(max(ledger.start.get(p, 0), o - (newest or o)), o), o)
            for p, o in ledger.next.items()
        }
        try:
            for window in windows(covered, work.most):
                work.compare(window)
            work.count_beyond()
        except FileNotFoundError as error:
            now = lake.state(contract.table).head
            if now != state.head:  # rewritten, and what it was made of expired
                raise Overtaken(contract.table, state.head, now) from error
            raise
        of_topic = compacted(lake.platform.kafka[contract.cluster], contract.topic)
        work.settle(compacted=of_topic)
        return Reconciliation(
            table=contract.table,
            epoch=ledger.epoch,
            start={p: each.start for p, each in covered.items()},
            counts=tuple(work.counts.values()),
            accepted=tuple(gap for gap in ledger.gaps if gap.epoch == ledger.epoch),
            beyond=sum(each.beyond for each in work.counts.values()),
            compacted=of_topic,
            seconds=time.perf_counter() - began,
            reading=work.reading,
        )


def _together(lake: Lake, contract: Contract) -> tuple[TableState, IcebergTable | None]:
    """Table and quarantine of one moment: what replays and rollbacks change about both is in both or in neither."""
    for _ in range(MOMENTS):
        state = lake.state(contract.table)
        quarantine = load(lake.catalog, contract.quarantine_table)
        after = lake.state(contract.table)
        if _revision(state) == _revision(after):
            return state, quarantine
    raise Overtaken(contract.table, state.head or 0, after.head)


def _revision(state: TableState) -> tuple[int, int]:
    return (state.ledger.epoch, state.ledger.revision) if state.ledger else (-1, -1)


def _comparable(lake: Lake, contract: Contract, state: TableState, topic: Topic) -> Ledger:
    if state.ledger is None:
        raise unloaded(lake, contract.table)
    finding = examine(state.ledger, topic)
    if finding and finding.state != "offsets_expired":
        raise stopped_by(contract, finding)
    return state.ledger


def _counts(ledger: Ledger, topic: Topic, newest: int | None) -> dict[int, Count]:
    """Each partition from where Kafka still has records of the epoch, or from so many offsets before the end."""
    first = {
        p: max(ledger.start.get(p, 0), topic.log_start[p], o - (newest or o)) for p, o in ledger.next.items()
    }
    return {p: Count(p, min(o, first[p]), o) for p, o in sorted(ledger.next.items())}


@dataclass(slots=True)
class _Comparison:
    lake: Lake
    contract: Contract
    head: int | None
    ledger: Ledger
    counts: dict[int, Count]
    on_progress: OnProgress
    table: IcebergTable | None = None
    quarantine: IcebergTable | None = None
    expired_before: datetime | None = None
    done: int = 0
    reading: float = 0.0

    @property
    def by_spark(self) -> bool:
        return self.table is not None and needs_spark(self.table)

    @property
    def most(self) -> int:
        """Offsets of a window."""
        return MARKS_BY_SPARK if self.by_spark else MARKS

    def compare(self, window: Ranges) -> None:
        marks = {p: np.zeros(len(each), dtype=np.uint8) for p, each in window.items()}
        self._mark_records(window, marks)
        self._mark_rows(window, marks)
        self._mark_quarantine(window, marks)
        for p, each in window.items():
            self.counts[p].add(marks[p], each.start)

    def _mark_records(self, window: Ranges, marks: Mapping[int, Marks]) -> None:
        began, whole = time.perf_counter(), sum(each.end - each.start for each in self.counts.values())
        first = {p: max(each.start, min(each.end, self.counts[p].start)) for p, each in window.items()}
        ranges = {p: OffsetRange(first[p], each.end) for p, each in window.items()}
        for read in read_committed(
            self.lake.platform.kafka[self.contract.cluster], self.contract.topic, ranges, self.expired_before
        ):
            p, start = read.partition, window[read.partition].start
            mark(marks[p], start, read.values, RECORD)
            mark(marks[p], start, read.tombstones, TOMBSTONE)
            mark(marks[p], start, read.old, OLD)
            self.done += read.upto - first[p]
            first[p] = read.upto
            self.on_progress(self.done, whole)
        self.reading += time.perf_counter() - began

    def _mark_rows(self, window: Ranges, marks: Mapping[int, Marks]) -> None:
        for places in self._rows(inside(window, _KAFKA, exact=self.by_spark)):
            self._mark(places, window, marks, ROW)

    def _mark_quarantine(self, window: Ranges, marks: Mapping[int, Marks]) -> None:
        table = self.quarantine
        if table is None or table.metadata.current_snapshot_id is None:
            return
        scan = table.scan(row_filter=inside(window), selected_fields=NEEDED)
        asked = pending(self.ledger, table)
        for batch in scan.to_arrow_batch_reader():
            rows = as_settled(batch, self.ledger, asked)
            waiting = rows.filter(rows[OPEN]).combine_chunks()
            for part in waiting.to_batches():
                self._mark(_places(part.columns, part.schema.names), window, marks, QUARANTINED)

    def count_beyond(self) -> None:
        """Rows of this epoch at or after `next`: a later run would write them again."""
        if not self.ledger.next:
            return
        for place in self._rows(beyond(self.ledger.next, _KAFKA, exact=self.by_spark)):
            for p in np.unique(place.partition).tolist():
                following = self.ledger.next.get(p, 0)
                found = int(((place.partition == p) & (place.offset >= following)).sum())
                if found:
                    self.counts.setdefault(p, Count(p, following, following)).beyond += found

    def settle(self, *, compacted: bool | None) -> None:
        """Explain records without a place by what their batches have counted, or the whole epoch, if those expired."""
        ranges = {p: found for p, each in self.counts.items() if (found := each.unsettled)}
        epoch, table = self.ledger.epoch, self.contract.table
        ledgers = ledgers_of_epoch(self.table.metadata, self.head, epoch, table) if self.table else ()
        batches = batches_within(ledgers, ranges)
        for p in ranges:
            totals, begun = self.ledger.totals.get(p, NOTHING), self.ledger.start.get(p, 0)
            self.counts[p].settle(batches[p], totals, begun, compacted=compacted)

    def _rows(self, row_filter: str) -> Iterator["_Places"]:
        """The places of the epoch's rows, a batch at a time, at the snapshot that the ledger was read from."""
        if self.table is None or self.head is None:
            return
        ours = f"{_KAFKA}epoch = {self.ledger.epoch} AND ({row_filter})"
        for kafka in kafka_rows(self.lake, self.contract.table, self.table, ours, _PLACE, self.head):
            yield _places(kafka.flatten(), [field.name for field in kafka.type])

    def _mark(self, places: "_Places", window: Ranges, marks: Mapping[int, Marks], bit: int) -> None:
        offset = places.offset
        for p, each in window.items():
            here = (places.epoch == self.ledger.epoch) & (places.partition == p)
            mark(marks[p], each.start, offset[here & (offset >= each.start) & (offset < each.end)], bit)


class _Places(NamedTuple):
    partition: Any
    offset: Any
    epoch: Any


_PLACE = _Places._fields
_KAFKA = f"{KAFKA_COLUMN.name}."


def _places(columns: Sequence["pa.Array[Any]"], names: Sequence[str]) -> _Places:
    by_name = dict(zip(names, columns, strict=True))
    return _Places(*(by_name[name].to_numpy(zero_copy_only=False).astype(np.int64) for name in _PLACE))
