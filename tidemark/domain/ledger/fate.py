"""What became of a record, as far as offsets alone decide it. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from tidemark.domain.ledger.guard import Finding, Topic
from tidemark.domain.ledger.ledger import NOTHING, Counts, Ledger, add_up
from tidemark.domain.ledger.offsets import Ranges

Fate = Literal[
    "not_yet",
    "published",
    "quarantined",
    "tombstone",
    "skipped",
    "aborted",
    "compacted",
    "expired_unread",
    "before_start",
    "deleted",
    "unknown",
]
Seen = Literal["record", "tombstone", "aborted", "hole", "gone", "unanswered"]
"""What Kafka shows at an offset: `hole` is a transaction marker or a record that compaction took."""

MEANINGS: dict[Fate, str] = {
    "not_yet": "not read yet",
    "published": "a row of the table",
    "quarantined": "in the quarantine",
    "tombstone": "a record without a value, counted",
    "skipped": "of a kind that the contract skips, counted",
    "aborted": "of a transaction that was aborted: it never counts",
    "compacted": "a transaction marker, or compacted away before it was read",
    "expired_unread": "deleted by Kafka before it was read",
    "before_start": "before the offset at which the first load began",
    "deleted": "was read, and its row has been deleted from the table since",
    "unknown": "was read and left no row, and nothing tells whether there was one: a tombstone, say, or a deleted row",
}


def by_offset(
    ledger: Ledger | None, topic: Topic | None, partition: int, offset: int
) -> tuple[Fate, str] | None:
    """The fate that ledger and log bounds decide, with the reason; None when table and quarantine must be looked at."""
    following = ledger.next.get(partition, 0) if ledger else 0
    if ledger is None or offset >= following:
        return _unread(following, topic, partition, offset)
    for gap in ledger.gaps:
        if (gap.partition, gap.epoch) == (partition, ledger.epoch) and gap.start <= offset < gap.end:
            return "expired_unread", f"offsets {gap.start} to {gap.end - 1} were accepted as a gap"
    first, load = (
        ledger.start.get(partition, 0),
        f"epoch {ledger.epoch}" if ledger.epoch else "the first load",
    )
    return ("before_start", f"{load} began at {first}") if offset < first else None


def of_another(finding: Finding, topic: Topic | None, partition: int, offset: int) -> tuple[Fate, str]:
    """The fate of a record of the topic as it is now, of which nothing is read: it is another one than was read."""
    fate, why = _unread(0, topic, partition, offset)
    return fate, f"{finding.detail} Of the topic as it is now {why}"


def _unread(following: int, topic: Topic | None, partition: int, offset: int) -> tuple[Fate, str]:
    if topic is not None and offset < topic.log_start.get(partition, 0):
        return (
            "expired_unread",
            f"Kafka begins at {topic.log_start[partition]}, the table has read up to {following}",
        )
    if topic is not None and offset >= (end := topic.end.get(partition, 0)):
        high = topic.high_watermark.get(partition, 0)
        held = f"an open transaction holds back offsets {end} to {high - 1}: they are read once it has ended"
        none = f"the partition ends at {end}: no such record is committed"
        return "not_yet", held if offset < high else none
    if topic is None:
        return "not_yet", f"the table has read up to {following}; Kafka could not be asked for the topic"
    return "not_yet", f"the table has read up to {following}"


def without_row(seen: Seen, *, counted: bool | None) -> Fate:
    """The fate of a record below `next` that is neither in the table nor in the quarantine.

    `counted`: its batch counted it, a tombstone or skipped, and made no row of it; None when nothing tells.
    """
    without: Fate = "tombstone" if seen == "tombstone" else "skipped"
    decided: Fate = "unknown" if counted is None else without if counted else "deleted"
    fates: dict[Seen, Fate] = {
        "tombstone": decided,
        "aborted": "aborted",
        "hole": "compacted",
        "record": decided,
    }
    return fates.get(seen, "unknown")


def reader_of(receipts: Iterable[Ledger], partition: int, offset: int) -> int | None:
    """The position among `receipts` (newest first) of the one that last read the offset from Kafka."""
    for position, ledger in enumerate(receipts):
        read = ledger.kind != "gap" and partition in ledger.from_
        if read and any(a <= offset < b for a, b in _counted(ledger, partition)):
            return position
    return None


def counted_within(receipts: Iterable[Ledger], ranges: Ranges) -> dict[int, Counts]:
    """Of `receipts` of one epoch (newest first) the sum of those that have counted records of a partition's range.

    No fewer than lie in it, by any fate. Without partitions of whose range the first receipts are missing.
    """
    left, found = {p: (each, NOTHING) for p, each in ranges.items()}, dict[int, Counts]()
    for ledger in receipts:
        for p, (each, so_far) in list(left.items()):
            if any(a < each.end and b > each.start for a, b in _counted(ledger, p)):
                left[p] = each, so_far.plus(ledger.counts.get(p, NOTHING))
            if ledger.kind == "append" and ledger.from_.get(p, each.end) <= each.start:
                found[p] = left.pop(p)[1]
        if not left:
            break
    return found


class Batch(NamedTuple):
    """Offsets [start, end) that were read together, and how their records were counted, no fewer than there are.

    `once`: no replay has counted some of them again, or others with them.
    """

    start: int
    end: int
    counts: Counts
    once: bool = True


def batches_within(receipts: Iterable[Ledger], ranges: Ranges) -> dict[int, list[Batch]]:
    """The batches of `receipts` of one epoch (newest first) that have offsets of a partition's range, in order.

    Without those whose receipts have expired: they come before all others.
    """
    left, found = dict(ranges), {p: list[Batch]() for p in ranges}
    again: dict[int, list[tuple[Sequence[tuple[int, int]], Counts]]] = {p: [] for p in ranges}
    for ledger in receipts:
        for p, each in list(left.items()):
            runs, counts = _counted(ledger, p), ledger.counts.get(p)
            if ledger.kind == "replay" and counts is not None:
                again[p].append((runs, counts))
            if ledger.kind == "replay" or not runs:
                continue
            [(a, b)] = runs
            if max(a, each.start) < min(b, each.end):
                replays = [more for run, more in again[p] if any(x < b and y > a for x, y in run)]
                found[p].append(Batch(a, b, add_up([counts or NOTHING, *replays]), not replays))
            if a <= each.start:
                del left[p]
        if not left:
            break
    return {p: batches[::-1] for p, batches in found.items()}


def quarantined_runs(receipts: Iterable[Ledger], ledger: Ledger) -> dict[int, list[tuple[int, int]]]:
    """Half-open runs that hold all that waits in quarantine of the epoch of `ledger`; no fewer, whatever was replayed.

    By what its `receipts` have counted. What expired ones had read is one run, unless those that are left tell of all.
    """
    waits = {p: c.quarantined for p, c in ledger.totals.items() if c.quarantined}
    runs, told = {p: list[tuple[int, int]]() for p in waits}, dict.fromkeys(waits, 0)
    oldest = {p: ledger.next.get(p, 0) for p in waits}
    for each in receipts:
        for p in waits:
            counts = each.counts.get(p, NOTHING)
            if counts.quarantined:
                runs[p] += _counted(each, p)
                told[p] += counts.quarantined
            if each.kind in {"append", "gap"}:
                oldest[p] = min(oldest[p], each.from_.get(p, oldest[p]))
    for p, waiting in waits.items():
        first = ledger.start.get(p, 0)
        if first < oldest[p] and (told[p] < waiting or p in ledger.reloaded):
            runs[p].append((first, oldest[p]))
    return runs


def _counted(ledger: Ledger, partition: int) -> Sequence[tuple[int, int]]:
    """The half-open runs whose records this receipt has counted."""
    if ledger.kind in {"append", "gap"} and partition in ledger.from_:
        return [(ledger.from_[partition], ledger.next[partition])]
    asked = ledger.settlement if ledger.kind == "replay" else None
    return asked.resolved.get(partition, ()) if asked else ()
