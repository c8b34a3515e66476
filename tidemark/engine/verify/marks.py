"""One byte of marks per offset: what Kafka holds there and where it went. Pure functions of numpy arrays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemark.domain.ledger.fate import Batch
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import OffsetRange, cut, joined
from tidemark.engine.access.conditions import sql_within

RECORD, TOMBSTONE, ROW, QUARANTINED, TWICE, OLD = 1, 2, 4, 8, 16, 32
# OLD: retention may have deleted the row of this record
_IN_KAFKA, _PLACED = RECORD | TOMBSTONE, ROW | QUARANTINED

FEW = 20
"""Partitions that a filter tells apart."""
NEAR = 1_000
"""Offsets between old records that are taken for old too: markers of transactions lie there, and runs stay few."""

Marks = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Runs = list[tuple[int, int]]


def windows(ranges: Mapping[int, OffsetRange], limit: int) -> Iterator[dict[int, OffsetRange]]:
    """`ranges` in portions of at most `limit` offsets in all, of all partitions at once: a file has rows of many."""
    left = dict(ranges)
    while window := cut(left, limit):
        yield window
        left |= {p: OffsetRange(each.end, left[p].end) for p, each in window.items()}


def inside(window: Mapping[int, OffsetRange], of: str = "", *, exact: bool = False) -> str:
    """A filter on `of`partition and `of`offset that lets files be skipped by their statistics.

    Beyond `FEW` partitions it is a coarse one, for PyIceberg compares each row of a file with all of it; an `exact` one
    is for Spark alone, which looks a partition up: a chain of hundreds of conditions would take it minutes.
    """
    if len(window) > FEW:
        first, last = min(r.start for r in window.values()), max(r.end for r in window.values())
        coarse = f"{of}offset >= {first} AND {of}offset < {last}"
        if not exact:
            return coarse
        start = _by_partition({p: r.start for p, r in window.items()}, of)
        end = _by_partition({p: r.end for p, r in window.items()}, of)
        return f"{coarse} AND {of}offset >= {start} AND {of}offset < {end}"
    return sql_within(window, of)


def _by_partition(bounds: Mapping[int, int], of: str) -> str:
    """SQL of Spark: the bound of a row's partition, NULL where it has none."""
    each = (str(bounds.get(p, "NULL")) for p in range(max(bounds) + 1))
    return f"get(array({', '.join(each)}), {of}partition)"


def beyond(following: Mapping[int, int], of: str = "", *, exact: bool = False) -> str:
    """A filter as of `inside` for what lies at or after `following`, also in partitions that have none."""
    last = max(following)
    start = {p: following.get(p, 0) for p in range(last + 1)}
    later = f"{of}partition > {last}"
    if last >= FEW:
        coarse = f"{of}offset >= {min(start.values())} OR {later}"
        return f"({coarse}) AND ({of}offset >= {_by_partition(start, of)} OR {later})" if exact else coarse
    parts = (f"({of}partition = {p} AND {of}offset >= {o})" for p, o in start.items())
    return " OR ".join([*parts, later])


def mark(marks: Marks, first: int, offsets: Offsets, bit: int) -> None:
    """Set `bit` at `offsets`; those that were in a place already, or come twice here, are marked TWICE."""
    at = np.sort(offsets) - first
    if bit & _PLACED:
        again = at[1:][at[1:] == at[:-1]]
        marks[again] |= TWICE
        marks[at[marks[at] & _PLACED != 0]] |= TWICE
    marks[at] |= bit


def runs(flags: npt.NDArray[Any], first: int) -> Runs:
    """Where flags are set, as half-open runs of offsets; flag 0 stands for offset `first`."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags != 0, [False])).astype(np.int8)))
    return [(first + int(a), first + int(b)) for a, b in edges.reshape(-1, 2)]


def split(found: Runs, borders: Sequence[int]) -> list[Runs]:
    """The runs (in order) before the first of the sorted `borders`, and those from each of them on."""
    parts: list[Runs] = [[] for _ in range(len(borders) + 1)]
    at = 0
    for start, end in found:
        a = start
        while at < len(borders) and borders[at] < end:
            if a < borders[at]:
                parts[at].append((a, borders[at]))
                a = borders[at]
            at += 1
        parts[at].append((a, end))
    return parts


def _explained(found: Runs, counted: Sequence[tuple[int, int]], most: int) -> tuple[list[int], Runs]:
    """How many offsets of `found` are explained before the first batch and in each; and the runs that are not.

    `counted`: the first offset of each batch, and how many it explains; `most`: what all of them do.
    """
    parts = split(found, [start for start, _ in counted])
    sizes = [sum(b - a for a, b in part) for part in parts]
    limits = [limit for _, limit in counted]
    before = most - sum(map(min, sizes[1:], limits))
    if before < 0:  # a replay has made rows of some
        return [0] * len(parts), found
    explained = [size if size <= limit else 0 for size, limit in zip(sizes, [before, *limits], strict=True)]
    return explained, [run for part, n in zip(parts, explained, strict=True) if not n for run in part]


@dataclass(slots=True)
class Count:
    """One partition, offsets [start, end); runs are half-open.

    `unknown`: rows where a read_committed consumer gets no record: compacted away since, or never committed.
    `unplaced`: tombstones that are no rows. `beyond`: rows at or after `end`, which the ledger does not cover.
    `aged`: records that retention explains, those between with them where they are `NEAR`. `doubtful`: of the skipped
    those that may be lost, for their batch counts others that are gone, or nothing tells of it any more.
    """

    partition: int
    start: int
    end: int
    kafka_records: int = 0
    rows: int = 0
    quarantined: int = 0
    tombstones: int = 0
    skipped: int = 0
    gaps: Runs = field(default_factory=list)
    duplicates: Runs = field(default_factory=list)
    unknown: Runs = field(default_factory=list)
    unplaced: Runs = field(default_factory=list)
    beyond: int = 0
    aged: Runs = field(default_factory=list)
    doubtful: int = 0

    def add(self, marks: Marks, first: int) -> None:
        """Count a stretch that begins at offset `first`; what Kafka no longer has can only show duplicates."""
        self.duplicates += runs(marks & TWICE, first)
        marks, first = marks[max(0, self.start - first) :], max(first, self.start)
        placed = marks & _PLACED != 0
        # gone on purpose: as Kafka's own retention
        aged = (marks & OLD != 0) & ~placed
        self._note_aged(runs(aged & (marks & TOMBSTONE == 0), first))
        marks = np.where(aged, np.uint8(0), marks)
        recorded, tombstone = marks & _IN_KAFKA != 0, marks & TOMBSTONE != 0
        lost = recorded & ~tombstone & ~placed
        self.kafka_records += int(recorded.sum())
        self.rows += int((marks & ROW != 0).sum())
        self.quarantined += int((marks & QUARANTINED != 0).sum())
        self.tombstones += int((tombstone & ~placed).sum())
        self.unplaced += runs(tombstone & ~placed, first)
        self.gaps += runs(lost, first)
        self.unknown += runs(placed & ~recorded, first)

    def _note_aged(self, found: Runs) -> None:
        for a, b in found:
            if self.aged and a - self.aged[-1][1] <= NEAR:
                self.aged[-1] = self.aged[-1][0], b
            else:
                self.aged.append((a, b))

    @property
    def unsettled(self) -> OffsetRange | None:
        """The offsets within which records and tombstones have no place; None where there are none."""
        ends = [*self.gaps[:1], *self.gaps[-1:], *self.unplaced[:1], *self.unplaced[-1:]]
        return OffsetRange(min(a for a, _ in ends), max(b for _, b in ends)) if ends else None

    def settle(
        self, batches: Sequence[Batch], totals: Counts, begun: int, *, compacted: bool | None = False
    ) -> None:
        """Records in no place are skips as far as their batch has counted so many; one more, and all of it are gaps.

        The same for tombstones, which are rows where an upsert table is fed: what is a gap is counted as nothing else.
        Of what lies before the `batches` (in order) nothing is known but `totals`, of the epoch since offset `begun`.
        """
        skips, lost = _explained(self.gaps, [(b.start, b.counts.skipped) for b in batches], totals.skipped)
        nulls = [(b.start, b.counts.tombstones) for b in batches]
        tombstones, more = _explained(self.unplaced, nulls, totals.tombstones)
        self.skipped, self.tombstones = sum(skips), sum(tombstones)
        self.gaps = [(each.start, each.end) for each in joined([OffsetRange(*run) for run in (*lost, *more)])]
        if compacted is not False or self.start > begun or self.aged:
            exact = [False, *(compacted is False and self._is_all_there(each) for each in batches)]
            self.doubtful = sum(n for n, sure in zip(skips, exact, strict=True) if not sure)

    def _is_all_there(self, batch: Batch) -> bool:
        """Whether each record of a batch, of a topic that is not compacted, was looked at, and counted just once."""
        aged = any(a < batch.end and b > batch.start for a, b in self.aged)
        return batch.once and batch.start >= self.start and not aged

    def as_json(self, *, compacted: bool | None = False) -> dict[str, Any]:
        """The stable shape of `reconcile --json`; of a `compacted` topic no row is told for having no record."""
        return {
            "partition": self.partition,
            "from": self.start,
            "to": self.end,
            "kafka_records": self.kafka_records,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "tombstones": self.tombstones,
            "skipped": self.skipped,
            "gaps": [list(run) for run in self.gaps],
            "duplicates": [list(run) for run in self.duplicates],
            "never_committed": [] if compacted else [list(run) for run in self.unknown],
            "beyond": self.beyond,
        }
