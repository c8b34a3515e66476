"""The ledger after records below `next` were moved, read again, or taken back. Pure arithmetic."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidemark.domain.ledger.ledger import Counts, Entry, Ledger, add_up
from tidemark.domain.ledger.settlement import Settlement

MOST_RANGES = 200
"""Ranges per partition that `reloaded` names; neighbours are joined beyond that, which only names more."""

FAR = 1_000
"""Offsets without a touched record in between from which on it pays to name two ranges: all in one is read again."""

Runs = Mapping[int, Sequence[tuple[int, int]]]


class Recount(NamedTuple):
    """What a replay does, by partition: counts before and after, the offsets, and the last truncate that is no row.

    `reread`: Kafka was read again, the table's own topic; the ledger then names where from.
    """

    before: Mapping[int, Counts]
    after: Mapping[int, Counts]
    touched: Runs
    truncates: Mapping[int, int] = {}
    reread: bool = False


UNCOUNTED = Recount({}, {}, {})
"""Rows of elsewhere: the ledger knows no offsets of theirs."""


def replayed(ledger: Ledger, recount: Recount, settlement: Settlement | None, entry: Entry) -> Ledger:
    """The ledger once what was counted as `recount.before` is counted as `recount.after`.

    Raises:
        ValueError: counts do not balance, or more is taken away than was ever counted.
    """
    before, after, touched = recount.before, recount.after, recount.touched
    totals = dict(ledger.totals)
    for partition in {*before, *after}:
        old, new = before.get(partition, Counts()), after.get(partition, Counts())
        if not (old.balanced and new.balanced):
            raise ValueError(f"partition {partition}: {old} or {new} does not balance")
        totals[partition] = minus(totals.get(partition, Counts()), old).plus(new)
        if min(totals[partition]) < 0:
            raise ValueError(f"partition {partition}: {old} is more than was ever counted")
    return ledger.model_copy(
        update={
            **entry.author(),
            **entry.clocks(ledger),
            "kind": "replay",
            "from_": {p: min(runs)[0] for p, runs in touched.items()} if recount.reread else {},
            "counts": {p: c for p, c in after.items() if any(c)},
            "totals": totals,
            "reloaded": joined_runs(ledger.reloaded, touched),
            "revision": ledger.revision + 1,
            "settlement": settlement,
            "unrouted": min(ledger.unrouted, add_up(totals.values()).skipped),
            "truncates": _last_truncates(ledger, recount),
        }
    )


def _last_truncates(ledger: Ledger, recount: Recount) -> dict[int, int]:
    """One that was read again from Kafka is a row by now, or `recount` names it anew.

    Runs of a quarantine's offsets may span others, of which nothing was read.
    """
    read, found = recount.touched if recount.reread else {}, recount.truncates
    left = {p: o for p, o in ledger.truncates.items() if not within(sorted(read.get(p, ())), o)}
    return {p: max(each[p] for each in (left, found) if p in each) for p in {*left, *found}}


def rewound(target: Ledger, head: Ledger, settlement: Settlement, entry: Entry) -> Ledger:
    """The ledger of a rollback from `head`: everything as `target` says it, and a later revision than any.

    But for the contract: what it says of columns and layout stays as it was applied last, and no edit is applied here.
    """
    return target.model_copy(
        update={
            **entry.author(),
            "contract": head.contract,
            "kind": "rollback",
            "from_": {},
            "counts": {},
            "revision": max(head.revision, target.revision) + 1,
            "settlement": settlement,
        }
    )


def minus(counts: Counts, other: Counts) -> Counts:
    """The differences, field by field."""
    return Counts(*(mine - theirs for mine, theirs in zip(counts, other, strict=True)))


def counted_before(
    now: Counts,
    known: Counts,
    *,
    rows: int,
    tombstone_rows: int,
    quarantined: int,
    null_values: int,
    quarantined_nulls: int = 0,
    unskipped: int = 0,
) -> Counts:
    """How records that are counted as `now` were counted before they were read again; `null_values` have no value.

    `rows` (`tombstone_rows` of them without a value) and `quarantined` (`quarantined_nulls` likewise) are still there.
    The rest left no trace. In this order it was: tombstones, as many as have no value; skipped, as many as are now or
    are `unskipped`, rows of a kind that may have been; written, and the row deleted since. Where there never were so
    many rows it was quarantined, and what that cannot be either skipped. No count is above `known`, what was ever
    counted: a dead attempt may have left quarantine rows of its own.
    """
    quarantined = min(quarantined, known.quarantined)
    tombstones = min(max(0, null_values - tombstone_rows - quarantined_nulls), known.tombstones)
    rest = max(0, now.read - rows - quarantined - tombstones)
    skipped = min(rest, known.skipped, now.skipped + unskipped)
    written = now.read - quarantined - tombstones - skipped
    over = max(0, written - known.written)
    gone = min(over, known.quarantined - quarantined)
    more = min(over - gone, known.skipped - skipped)
    return Counts(now.read, written - gone - more, quarantined + gone, tombstones, skipped + more)


def quarantined_before(now: Counts, known: Counts, left: int) -> Counts:
    """How records that leave `left` others in the quarantine were counted: there, unless somebody put them there."""
    there = min(now.read, max(0, known.quarantined - left))
    return counted_before(now, known, rows=0, tombstone_rows=0, quarantined=there, null_values=0)


def runs_between(
    leaving: Iterable[int], kept: Iterable[int], most: int = MOST_RANGES
) -> list[tuple[int, int]]:
    """Half-open runs that hold all offsets of `leaving` and none of `kept`; what lies in neither is free.

    The fewest that there are, and without the widest of what is free as long as they are no more than `most`.
    """
    borders, offsets = sorted(kept), sorted(leaving)
    forced, free = [], []
    for at, (one, other) in enumerate(pairwise(offsets), 1):
        if bisect_left(borders, one) != bisect_left(borders, other):
            forced.append(at)
        elif other - one > FAR:
            free.append(at)
    free.sort(key=lambda at: offsets[at] - offsets[at - 1], reverse=True)
    cuts = [0, *sorted([*forced, *free[: max(0, most - 1 - len(forced))]]), len(offsets)]
    return [(offsets[a], offsets[b - 1] + 1) for a, b in pairwise(cuts) if a < b]


def runs_without(
    whole: tuple[int, int], kept: Sequence[int], most: int = MOST_RANGES
) -> list[tuple[int, int]]:
    """The runs of `whole` between the sorted offsets `kept`; the closest are joined beyond `most`."""
    borders = [whole[0] - 1, *kept, whole[1]]
    runs = [(a + 1, b) for a, b in pairwise(borders) if a + 1 < b]
    return joined_runs({}, {0: runs}, most)[0]


def within(runs: Sequence[tuple[int, int]], offset: int) -> bool:
    """Whether one of the sorted half-open runs holds the offset."""
    at = bisect_right(runs, offset, key=lambda run: run[0]) - 1
    return at >= 0 and offset < runs[at][1]


def joined_runs(known: Runs, more: Runs, most: int = MOST_RANGES) -> dict[int, list[tuple[int, int]]]:
    """The union of half-open runs per partition, sorted; the closest neighbours are joined beyond `most`."""
    found: dict[int, list[tuple[int, int]]] = {}
    for partition in sorted({*known, *more}):
        runs: list[tuple[int, int]] = []
        for start, end in sorted(
            {*map(tuple, known.get(partition, ())), *map(tuple, more.get(partition, ()))}
        ):
            if runs and start <= runs[-1][1]:
                runs[-1] = (runs[-1][0], max(runs[-1][1], end))
            else:
                runs.append((start, end))
        if len(runs) > most:
            gaps = sorted(range(1, len(runs)), key=lambda i: runs[i][0] - runs[i - 1][1], reverse=True)
            cuts = [0, *sorted(gaps[: most - 1]), len(runs)]
            runs = [(runs[a][0], runs[b - 1][1]) for a, b in pairwise(cuts)]
        found[partition] = runs
    return found
