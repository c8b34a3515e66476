"""Which snapshots must stay: a pure function over snapshots, refs, ledgers and consumers.

Whatever is kept, the chain from it back to its own receipt is kept too, so that a rollback to any snapshot that is
still there finds the offsets that belong to it (docs/concepts.md, The ledger).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, islice
from typing import Literal

from tidemark.domain.config.contract import Snapshots
from tidemark.domain.ledger.ledger import BRANCH_PREFIX, LEDGER_TAG
from tidemark.domain.times import DAY_MS

LEDGER_ROOM = 8 * 1024**2
"""Letters of a table's ledgers, all of which each commit writes again: of 50 partitions 2,000 snapshots stay below it,
of 500 some 370 snapshots."""
LOOSE = timedelta(days=1)
"""How long dropped stages of a batch stay at most: one that is held back leaves one, as large as itself, each time."""
LEASE_PREFIX = f"{BRANCH_PREFIX}maintenance_"
MAIN = "main"


@dataclass(frozen=True, slots=True)
class Snap:
    """One snapshot of a table; `at` in milliseconds, `receipt` when its summary holds a ledger, `act` a verb's.

    `batch`: it has the rows of one, as an attempt of ours has written them.
    """

    id: int
    parent: int | None
    at: int
    receipt: bool = False
    act: bool = False
    batch: bool = False


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag. `max_age`: milliseconds after its snapshot at which its owner gives it up."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    max_age: int | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Kept snapshots with the reason of each, the others, and the attempt branches whose runs are dead."""

    kept: Mapping[int, str]
    expired: tuple[int, ...]
    dead_branches: tuple[str, ...]


def fitting(limits: Snapshots, ledgers: Iterable[int]) -> Snapshots:
    """The limits; where nobody said `max_count`, no more snapshots than have room with their `ledgers`.

    Those are the letters of each snapshot's ledger, the newest first, 0 where it has none.
    """
    if "max_count" in limits.model_fields_set:
        return limits
    room = sum(1 for whole in accumulate(islice(ledgers, limits.max_count)) if whole <= LEDGER_ROOM)
    return limits.model_copy(update={"max_count": max(room, limits.min_keep)})


def keep(
    snapshots: Collection[Snap],
    refs: Sequence[Ref],
    named: Iterable[int],
    limits: Snapshots,
    now: int,
    *,
    read_on_from: Collection[int] = (),
) -> Keep:
    """What stays of `snapshots` at `now` (ms). `named` are ids that others still name.

    `read_on_from` are those of main that a consumer reads on from: they stay, and what came since (`_unread`).
    """
    by_id = {each.id: each for each in snapshots}
    head = next((ref.snapshot for ref in refs if ref.name == MAIN), None)
    dead = {ref.name for ref in refs if is_dead(ref, by_id, head, now)}
    kept: dict[int, str] = {}
    lineage = list(chain(by_id, head))
    _by_age(kept, lineage, limits, now)
    _held_by_refs(
        kept, by_id, [ref for ref in refs if ref.name not in dead], {each.id for each in lineage}, now
    )
    for wanted in (*named, *read_on_from):
        if wanted in by_id:
            kept.setdefault(wanted, "named by a consumer")
    for each in _unread(lineage, [by_id[i] for i in read_on_from if i in by_id], 2 * limits.max_count):
        kept.setdefault(each.id, "not read by a consumer yet")
    _loose(kept, by_id, refs, limits, now)
    _with_ledgers(kept, by_id)
    gone = tuple(sorted((each.id for each in snapshots if each.id not in kept), key=lambda i: by_id[i].at))
    return Keep(kept, gone, tuple(sorted(dead)))


def chain(by_id: Mapping[int, Snap], start: int | None) -> Iterator[Snap]:
    """From `start` back, as far as the metadata still has it."""
    while start is not None and start in by_id:
        yield by_id[start]
        start = by_id[start].parent


def is_attempt(ref: Ref) -> bool:
    """The branch of one attempt of ours."""
    return ref.kind == "branch" and ref.name.startswith(BRANCH_PREFIX)


def is_dead(ref: Ref, by_id: Mapping[int, Snap], head: int | None, now: int) -> bool:
    """An attempt branch whose run began more than a day ago; no attempt lives that long."""
    return is_attempt(ref) and now - began_at(ref, by_id, head) > DAY_MS


def began_at(ref: Ref, by_id: Mapping[int, Snap], head: int | None) -> int:
    """When an attempt branch was made (ms): its retention says so, counted from the snapshot that it began at."""
    main = {each.id for each in chain(by_id, head)}
    fork: Snap | None = None
    for each in chain(by_id, ref.snapshot):
        fork = each
        if each.id in main:
            break
    if fork is None:
        return 0
    return fork.at + max(0, (ref.max_age or DAY_MS) - DAY_MS)


def given_up(ref: Ref, by_id: Mapping[int, Snap], now: int) -> bool:
    """Its owner's own retention has passed, as every expirer of Iceberg sees it."""
    at = by_id[ref.snapshot].at if ref.snapshot in by_id else now
    return ref.name != MAIN and ref.max_age is not None and now - at > ref.max_age


def _by_age(kept: dict[int, str], lineage: Sequence[Snap], limits: Snapshots, now: int) -> None:
    for rank, each in enumerate(lineage):
        if rank < limits.min_keep:
            kept[each.id] = "among the newest"
        elif _young(each, limits.max_age, now) and rank < limits.max_count:
            kept[each.id] = "young"


def _held_by_refs(
    kept: dict[int, str], by_id: Mapping[int, Snap], refs: Sequence[Ref], main: Collection[int], now: int
) -> None:
    for ref in refs:
        if given_up(ref, by_id, now) and ref.name != LEDGER_TAG:
            continue
        for each in chain(by_id, ref.snapshot):
            kept.setdefault(each.id, f"{ref.kind} {ref.name}")
            if ref.kind == "tag" or each.id in main:
                break


def _unread(lineage: Sequence[Snap], read: Iterable[Snap], most: int) -> Sequence[Snap]:
    """What came to main since the first of `read`: a consumer that pauses goes on by offsets, so `most` are enough.

    From an act on all stay, and what it was done upon: what a replay or rollback has changed no offset tells. An
    earlier expiry may have cut main off from what was read.
    """
    ranks = {each.id: rank for rank, each in enumerate(lineage)}
    since = (ranks.get(each.id, sum(newer.at > each.at for newer in lineage)) for each in read)
    unread = lineage[: max(since, default=0)]
    acts = (rank + 2 for rank, each in enumerate(unread) if each.act)
    return unread[: max([most, *acts])]


def _loose(
    kept: dict[int, str], by_id: Mapping[int, Snap], refs: Sequence[Ref], limits: Snapshots, now: int
) -> None:
    """What no ref leads to may be looked at, or picked, while it is young; dropped stages of a batch for a day.

    What was rolled back has a receipt, which comes last to a stage; main's log forgets heads at every expiry.
    """
    led_to = {each.id for ref in refs for each in chain(by_id, ref.snapshot)}
    undone = (each for each in by_id.values() if each.receipt and each.id not in led_to)
    was_main: set[int] = set()
    for head in undone:
        for each in chain(by_id, head.id):
            if each.id in was_main or each.id in led_to:
                break
            was_main.add(each.id)
    for each in by_id.values():
        dropped = each.batch and each.id not in was_main
        age = min(limits.max_age, LOOSE) if dropped else limits.max_age
        if each.id not in led_to and _young(each, age, now):
            kept.setdefault(each.id, "young, on no branch")


def _with_ledgers(kept: dict[int, str], by_id: Mapping[int, Snap]) -> None:
    for each_id in list(kept):
        for link in _to_receipt(by_id, each_id):
            kept.setdefault(link.id, "between a kept snapshot and its ledger")


def _young(each: Snap, max_age: timedelta, now: int) -> bool:
    return now - each.at <= max_age / timedelta(milliseconds=1)


def _to_receipt(by_id: Mapping[int, Snap], start: int) -> Sequence[Snap]:
    """From `start` to the newest receipt among its ancestors; nothing when there is none."""
    path: list[Snap] = []
    for each in chain(by_id, start):
        path.append(each)
        if each.receipt:
            return path
    return ()
