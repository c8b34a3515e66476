"""Offsets and the cutting of batches. Everything here is a pure function of what Kafka and the ledger say.

Offsets map a partition to the next offset to read, as Kafka counts them (int >= 0).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets `start` (inclusive) to `end` (exclusive) of one partition."""

    start: int
    end: int

    def __post_init__(self) -> None:
        """Refuse ranges that run backwards.

        Raises:
            ValueError: `end` lies before `start`, or `start` is negative.
        """
        if not 0 <= self.start <= self.end:
            raise ValueError(f"no offset range: [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.start <= offset < self.end


Ranges = Mapping[int, OffsetRange]


def waiting(committed: Offsets, end: Offsets) -> dict[int, OffsetRange]:
    """What Kafka holds beyond `committed`; partitions that the ledger does not know start at 0."""
    ranges: dict[int, OffsetRange] = {}
    for partition, last in sorted(end.items()):
        start = committed.get(partition, 0)
        if last > start:
            ranges[partition] = OffsetRange(start, last)
    return ranges


def as_runs(ranges: Ranges) -> dict[int, list[tuple[int, int]]]:
    """Each range as the one run of its partition."""
    return {p: [(r.start, r.end)] for p, r in ranges.items()}


def total(ranges: Ranges) -> int:
    """The number of offsets in `ranges`; never fewer than the records there."""
    return sum(len(each) for each in ranges.values())


def cut(ranges: Ranges, limit: int) -> dict[int, OffsetRange]:
    """The first part of `ranges`, at most `limit` offsets in all, shared in proportion to what waits.

    Every waiting partition moves by at least one offset when `limit` allows it, so a huge partition never
    starves a small one; what rounding leaves over goes to the partitions that are furthest behind.
    """
    if limit < 1:
        raise ValueError(f"a batch holds at least one offset, not {limit}")
    nonempty = (p for p, each in ranges.items() if len(each))
    behind = sorted(nonempty, key=lambda p: (-len(ranges[p]), p))[:limit]
    rest = sum(len(ranges[p]) - 1 for p in behind)
    spare = min(limit - len(behind), rest)
    share = {p: 1 + ((len(ranges[p]) - 1) * spare // rest if rest else 0) for p in behind}
    left = spare + len(behind) - sum(share.values())
    for partition in behind:
        if left and share[partition] < len(ranges[partition]):
            share[partition] += 1
            left -= 1
    return {p: OffsetRange(ranges[p].start, ranges[p].start + count) for p, count in sorted(share.items())}


def cut_before(ranges: Ranges, offenders: Offsets) -> dict[int, OffsetRange]:
    """`ranges` ended before the first offender of each partition."""
    ended = {
        p: OffsetRange(each.start, min(each.end, max(each.start, offenders.get(p, each.end))))
        for p, each in ranges.items()
    }
    return {p: each for p, each in ended.items() if len(each)}


def advance(committed: Offsets, ranges: Ranges) -> dict[int, int]:
    """The next offsets after `ranges` were read; partitions without a range stay."""
    return {**committed, **{partition: each.end for partition, each in ranges.items()}}


def joined(ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Sorted, with what touches or overlaps as one."""
    result: list[OffsetRange] = []
    for each in sorted(ranges):
        if result and each.start <= result[-1].end:
            result[-1] = OffsetRange(result[-1].start, max(each.end, result[-1].end))
        else:
            result.append(each)
    return tuple(result)
