"""What an upsert table must do next, from its own receipts and the append table's history. Pure.

Rows are addressed by (epoch, partition, offset), never by snapshot differences: compaction, expiry and foreign
snapshots of the append table change nothing. Its snapshots only tell whether history was undone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidemark.domain.ledger import replay
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, cut, joined, total, waiting

Reloaded = Mapping[int, tuple[OffsetRange, ...]]


@dataclass(frozen=True, slots=True)
class AppendReceipt:
    """A receipt among the ancestors of the append table's head."""

    snapshot: int
    at: datetime
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class AppendHistory:
    """The append table at one moment. `chain`: its head's ancestors, newest first, as far as they are still there.

    `whole`: a merged snapshot that is not in it was rolled back, not expired: the chain is complete, or that
    snapshot is still there beside it.
    """

    uuid: str
    head: int
    chain: tuple[int, ...]
    receipts: tuple[AppendReceipt, ...]
    whole: bool = True

    @property
    def ledger(self) -> Ledger:
        """The newest one."""
        return self.receipts[0].ledger

    def since(self, snapshot: int) -> tuple[AppendReceipt, ...]:
        """The receipts after `snapshot`, newest first; all others that are known when it is not in the chain."""
        if snapshot not in self.chain:
            return tuple(each for each in self.receipts if each.snapshot != snapshot)
        newer = set(self.chain[: self.chain.index(snapshot)])
        return tuple(each for each in self.receipts if each.snapshot in newer)

    def rollbacks(self, snapshot: int) -> tuple[tuple[Ledger, Ledger | None], ...]:
        """Those after `snapshot`, each with the ledger that it went back to; None when that is no longer known."""
        since = [each.ledger for each in self.since(snapshot)]
        return tuple(
            each for each in zip(since, [*since[1:], None], strict=False) if each[0].kind == "rollback"
        )


@dataclass(frozen=True, slots=True)
class Unmerged:
    """Append rows from (`epoch`, `start`) up to (`end_epoch`, `end`), and `reloaded` ones of `epoch` below `start`.

    `again`: partition -> offset from which on all of them up to `start` were read from Kafka again.
    """

    epoch: int
    start: Offsets
    end_epoch: int
    end: Offsets
    reloaded: Reloaded = field(default_factory=dict)
    again: Offsets = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """Offsets in between; None across epochs, where it is not known."""
        return total(waiting(self.start, self.end)) if self.epoch == self.end_epoch else None

    @property
    def empty(self) -> bool:
        """Nothing is to be read."""
        return self.size == 0 and not self.reloaded


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge `rows` on top of `after` (None: nothing is merged yet)."""

    rows: Unmerged
    after: MergeLedger | None


@dataclass(frozen=True, slots=True)
class GoBack:
    """History was undone: return to the own receipt `snapshot`, which knows nothing of what is gone."""

    snapshot: int
    ledger: MergeLedger
    why: str


@dataclass(frozen=True, slots=True)
class Rebuild:
    """No own receipt is of the append table's history: make the table anew from all of its rows."""

    rows: Unmerged
    why: str


Receipts = Sequence[tuple[int, MergeLedger]]
"""(snapshot id, ledger) of the upsert table's receipts on main, newest first."""


def plan_merge(
    own: Receipts, append: AppendHistory, limit: int | None = None
) -> Merge | GoBack | Rebuild | None:
    """The next step, or None when everything is merged; `limit` bounds the offsets of one merge."""
    if not own:
        return Merge(_everything(append), None)
    newest = own[0][1]
    if newest.anew:
        return Rebuild(_everything(append), newest.why)
    why = _undone(newest, append)
    if why is None:
        rows = _unmerged(newest, append, limit)
        return None if rows.empty else Merge(rows, newest)
    for snapshot, ledger in own[1:]:
        if ledger.append_uuid == append.uuid and ledger.append_snapshot in append.chain:
            return GoBack(snapshot, ledger, why)
    return Rebuild(_everything(append), why)


def is_beyond(step: Merge | GoBack | Rebuild, goal: Ledger) -> bool:
    """Whether a step only merges rows that came to the append table after its ledger was `goal`."""
    if not isinstance(step, Merge) or step.after is None or step.rows.reloaded:
        return False
    merged = step.after
    return all(merged.covers(goal.epoch, p, following - 1) for p, following in goal.next.items())


def is_behind(newest: MergeLedger | None, append: AppendHistory) -> bool:
    """Whether a merge has something to do. Offsets do not tell: a replay or rollback may leave them as they were."""
    if newest is None or _undone(newest, append) is not None:
        return True
    return not _unmerged(newest, append, None).empty


def lag_since(newest: MergeLedger | None, append: AppendHistory) -> datetime | None:
    """When the oldest append commit that is not merged was published; None when all are."""
    waits = [each for each in append.receipts if _brings_more(newest, each.ledger)]
    if newest is not None and is_behind(newest, append):
        wanted = "rollback" if _undone(newest, append) else "replay"
        waits += [each for each in append.since(newest.append_snapshot) if each.ledger.kind == wanted]
        waits = waits or [append.receipts[0]]
    return min((each.at for each in waits), default=None)


def unmerged_offsets(newest: MergeLedger | None, append: AppendHistory) -> int:
    """Offsets of the append table's ledger beyond what is merged."""
    now = append.ledger
    if newest is None:
        return total(waiting(now.start, now.next))
    merged = newest.next if newest.epoch == now.epoch else now.start
    return total(waiting(merged, now.next))


def _brings_more(newest: MergeLedger | None, ledger: Ledger) -> bool:
    if newest is None:
        return True
    if ledger.epoch != newest.epoch:
        return ledger.epoch > newest.epoch
    return any(offset > newest.next.get(p, 0) for p, offset in ledger.next.items())


def _undone(newest: MergeLedger, append: AppendHistory) -> str | None:
    """Why what was merged is no longer the append table's history, or None.

    A named snapshot that someone expired is no proof: the offsets then tell, and whether every replay and rollback
    since is still known.
    """
    if newest.append_uuid != append.uuid:
        return f"{newest.append_table} is another table than the one that was merged"
    if newest.append_snapshot in append.chain:
        return None
    now = append.ledger
    fell_back = now.epoch < newest.epoch or (
        now.epoch == newest.epoch and any(now.next.get(p, 0) < o for p, o in newest.next.items())
    )
    revision = newest.append_revision if now.epoch == newest.epoch else None
    replay_gone = revision is not None and now.revision < revision
    rolled_back = any(
        not _came_after(newest, target) for _, target in append.rollbacks(newest.append_snapshot)
    )
    if append.whole or fell_back or replay_gone or rolled_back:
        return f"snapshot {newest.append_snapshot} of {newest.append_table} was rolled back"
    if not _corrections_known(newest, append):
        return f"replays of {newest.append_table} since snapshot {newest.append_snapshot} are no longer in its history"
    return None


def _came_after(newest: MergeLedger, target: Ledger | None) -> bool:
    """Whether a rollback to `target` took back nothing that is merged: it read further, and knew the same replays."""
    if target is None or target.epoch != newest.epoch or target.revision < (newest.append_revision or 0):
        return False
    least = {**dict.fromkeys(target.next, 0), **newest.next}
    further = [target.next.get(p, 0) - offset for p, offset in least.items()]
    return min(further, default=0) >= 0 < max(further, default=0)


def _corrections_known(newest: MergeLedger, append: AppendHistory) -> bool:
    now, before = append.ledger, newest.append_revision
    if before is None or now.epoch != newest.epoch:
        return True
    known = {each.ledger.revision for each in append.receipts if each.ledger.kind == "replay"}
    for back, target in append.rollbacks(newest.append_snapshot):
        known |= set(range(target.revision + 1, back.revision + 1)) if target else set()
    return known >= set(range(before + 1, now.revision + 1))


def _everything(append: AppendHistory) -> Unmerged:
    return Unmerged(0, {}, append.ledger.epoch, dict(append.ledger.next))


def _unmerged(newest: MergeLedger, append: AppendHistory, limit: int | None) -> Unmerged:
    now = append.ledger
    end = dict(now.next)
    if limit is not None and now.epoch == newest.epoch:
        some = cut(waiting(newest.next, end), limit) if waiting(newest.next, end) else {}
        end = {**newest.next, **{p: each.end for p, each in some.items()}}
    replays = [
        each.ledger
        for each in append.since(newest.append_snapshot)
        if each.ledger.kind == "replay" and each.ledger.epoch == newest.epoch
    ]
    told = newest.append_snapshot in append.chain or newest.append_revision is not None
    reloaded, again = _reloaded(newest, replays, each_told=told), _again(newest, replays)
    return Unmerged(newest.epoch, dict(newest.next), now.epoch, end, reloaded, again)


def _again(newest: MergeLedger, replays: Iterable[Ledger]) -> dict[int, int]:
    """From where on everything that is merged was read again: by one replay, or by several that follow each other."""
    read: dict[int, list[OffsetRange]] = {}
    for ledger in replays:
        asked = ledger.settlement.resolved if ledger.settlement else {}
        for partition, first in ledger.from_.items():
            end = max((last for _, last in asked.get(partition, ())), default=first)
            read.setdefault(partition, []).append(OffsetRange(first, end))
    last = {partition: joined(ranges)[-1] for partition, ranges in read.items()}
    return {p: each.start for p, each in last.items() if each.end >= newest.next.get(p, 0)}


def _reloaded(newest: MergeLedger, replays: Iterable[Ledger], *, each_told: bool) -> Reloaded:
    """Ranges that replays have touched since, as far as they lie below what is merged.

    A ledger's `reloaded` names all since the epoch began, its settlement what this one replay has touched: enough where
    `each_told`, no other receipt since has been expired.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for ledger in replays:
        alone = ledger.settlement if each_told else None
        here = alone is None or alone.epoch == ledger.epoch
        for partition, ranges in (alone.resolved if alone else ledger.reloaded).items() if here else ():
            merged = newest.next.get(partition, 0)
            found.setdefault(partition, []).extend(
                (first, min(last, merged)) for first, last in ranges if first < merged
            )
    some = replay.joined_runs({}, found)  # few enough for the conditions of a merge
    return {p: tuple(OffsetRange(*each) for each in ranges) for p, ranges in some.items() if ranges}
