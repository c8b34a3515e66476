"""What one pass over a batch saw, and the audit's identity: read = written + quarantined + tombstones + skipped.

Counts observed during the pass are evidence, not proof: a repeated task may count twice. The proof of `written` is
the staged snapshot's own count (docs/guide.md, The way of a record).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidemark.domain.formats.debezium import TRUNCATE
from tidemark.domain.formats.routes import UNROUTED
from tidemark.domain.ledger.ledger import Counts, add_up
from tidemark.domain.ledger.offsets import OffsetRange, Ranges
from tidemark.domain.ledger.quality_results import RuleResult

Fate = Literal["written", "quarantined", "tombstone", "skipped", "uncovered"]
FLOOD_FLOOR = 10
"""A flood takes at least so many records: one bad record in a small batch is bad data, not misconfiguration."""
UNREADABLE = frozenset(
    {"no_magic_byte", "undecodable", "wrong_message_type", "invalid_against_schema", "type_mismatch"}
)
"""Causes of a record that is not what the contract says the topic holds."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Observed in the pass: records per partition, and how many of all were not written.

    `tombstones`, `skipped` (truncates left out) and `unrouted` are counted per partition only where a topic has
    several record types.
    `max_timestamp` is in Unix milliseconds; records dated more than an hour ahead are left out and counted in
    `ahead`. `watermark` is the newest event time in Unix microseconds, `late` the rows before the last watermark.
    `rules`: what the rules that are judged while decoding came to.
    """

    read: Mapping[int, int]
    unwritten: int = 0
    schema_ids: frozenset[int] = frozenset()
    max_timestamp: int | None = None
    ahead: int = 0
    watermark: int | None = None
    late: int = 0
    rules: Mapping[str, RuleResult] = field(default_factory=dict)
    tombstones: Mapping[int, int] | None = None
    skipped: Mapping[int, int] | None = None
    unrouted: Mapping[int, int] | None = None

    @property
    def clean(self) -> bool:
        """Every record was written; no second look is needed."""
        return self.unwritten == 0


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one partition that share fate, cause and schema id; offsets `first` to `last`, both inclusive."""

    partition: int
    fate: Fate
    cause: str | None
    schema_id: int | None
    count: int
    first: int
    last: int


def groups_from_counts(evidence: Evidence, ranges: Ranges) -> list[Group] | None:
    """What was not written, if the pass counted it and all of it is tombstones or skips but truncates; else None.

    Believed only where every offset of the ranges was counted, so that a task that ran twice cannot hide behind a gap.
    """
    if evidence.skipped is None or evidence.tombstones is None or evidence.unrouted is None:
        return None
    if evidence.unwritten != sum(evidence.skipped.values()) + sum(evidence.tombstones.values()):
        return None
    groups = []
    for p, each in ranges.items():
        skipped, tombstones, unrouted = evidence.skipped[p], evidence.tombstones[p], evidence.unrouted[p]
        if evidence.read[p] != each.end - each.start:
            return None
        found: list[tuple[Fate, str | None, int]] = [
            ("tombstone", None, tombstones),
            ("skipped", None, skipped - unrouted),
            ("skipped", UNROUTED, unrouted),
        ]
        groups += [
            Group(p, fate, cause, None, count, each.start, each.end - 1)
            for fate, cause, count in found
            if count
        ]
    return groups


def counts_of(evidence: Evidence, groups: Iterable[Group], partitions: Iterable[int]) -> dict[int, Counts]:
    """Counts by fate per partition, `written` being what the groups leave of `read`."""
    by_fate: dict[int, dict[Fate, int]] = {p: {} for p in partitions}
    for group in groups:
        seen = by_fate[group.partition]
        seen[group.fate] = seen.get(group.fate, 0) + group.count
    counts = {}
    for partition, seen in by_fate.items():
        read = evidence.read.get(partition, 0)
        gone = {fate: seen.get(fate, 0) for fate in ("quarantined", "tombstone", "skipped")}
        counts[partition] = Counts(
            read=read,
            written=read - sum(gone.values()),
            quarantined=gone["quarantined"],
            tombstones=gone["tombstone"],
            skipped=gone["skipped"],
        )
    return counts


def first_offenders(groups: Iterable[Group]) -> dict[int, int]:
    """The first offset per partition that the table does not cover."""
    first: dict[int, int] = {}
    for group in groups:
        if group.fate == "uncovered":
            first[group.partition] = min(group.first, first.get(group.partition, group.first))
    return first


def unknown_ids(groups: Iterable[Group]) -> frozenset[int]:
    """Schema ids of records that the registry does not list for the table."""
    found = (group.schema_id for group in groups if group.cause == "unknown_schema_id")
    return frozenset(each for each in found if each is not None)


def span(groups: Iterable[Group], fate: Fate) -> dict[int, OffsetRange]:
    """Per partition the smallest range of offsets that holds all records of `fate`."""
    found: dict[int, OffsetRange] = {}
    for group in groups:
        if group.fate == fate:
            seen = found.get(group.partition, OffsetRange(group.first, group.last + 1))
            found[group.partition] = OffsetRange(min(seen.start, group.first), max(seen.end, group.last + 1))
    return found


def undecided(counts: Iterable[Counts], groups: Iterable[Group], refused: Collection[int]) -> Counts:
    """What was read, without records that someone has decided about: their schema ids are `refused`."""
    whole = add_up(counts)
    aside = sum(g.count for g in groups if g.fate == "quarantined" and g.schema_id in refused)
    return whole._replace(read=whole.read - aside, quarantined=whole.quarantined - aside)


def is_flood(whole: Counts, fail: float) -> bool:
    """Whether more of a batch than `fail` (a share) went to quarantine."""
    return whole.quarantined >= FLOOD_FLOOR and whole.quarantined > fail * whole.read


def nothing_decodes(counts: Iterable[Counts], groups: Iterable[Group]) -> bool:
    """Whether every record of the batch with a value is unreadable: the contract is wrong, not the data."""
    causes = {group.cause for group in groups if group.fate == "quarantined"}
    listed = list(counts)
    return bool(causes) and causes <= UNREADABLE and not any(c.written or c.skipped for c in listed)


def causes_of(groups: Iterable[Group]) -> dict[str, int]:
    """Records that went to quarantine, by cause."""
    found: dict[str, int] = {}
    for group in groups:
        if group.fate == "quarantined":
            found[str(group.cause)] = found.get(str(group.cause), 0) + group.count
    return found


def unrouted(groups: Iterable[Group]) -> int:
    """Records whose type no table is for."""
    return sum(group.count for group in groups if group.fate == "skipped" and group.cause == UNROUTED)


def truncates(groups: Iterable[Group]) -> dict[int, int]:
    """Partition -> offset of the last record that empties the source and makes no row."""
    found: dict[int, int] = {}
    for group in groups:
        if group.fate == "skipped" and group.cause == TRUNCATE:
            found[group.partition] = max(group.last, found.get(group.partition, group.last))
    return found
