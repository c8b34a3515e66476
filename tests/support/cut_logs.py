"""Logs of one small table as hypothesis makes them, cut into merges, with repetitions; and the least of one that fails."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from current_state import UNKNOWN, Event
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

BATCHES = 3


@dataclass(frozen=True)
class CutLog:
    """Per merge its new events, and those of earlier ones that come again with them."""

    fresh: tuple[tuple[Event, ...], ...]
    again: tuple[tuple[Event, ...], ...]

    def until(self, number: int) -> list[Event]:
        """Every event up to merge `number`."""
        return [event for batch in self.fresh[: number + 1] for event in batch]

    def batch(self, number: int) -> list[Event]:
        return [*self.fresh[number], *self.again[number]]

    def without(self, event: Event) -> "CutLog":
        kept = [
            tuple(tuple(e for e in each if e != event) for each in all_) for all_ in (self.fresh, self.again)
        ]
        return CutLog(*kept)


@st.composite
def cut_logs(draw: Any, *, by_source: bool, unknowns: bool, tangled: bool = False) -> CutLog:
    """Few keys, so that updates, deletes, re-inserts and changed keys meet; only with a source order a key leaves its
    partition. The topic may be made anew once on the way. `tangled`: orders tie or are missing, record times go back
    within a partition, and what is merged first need not be older.
    """
    count = draw(st.integers(1, 14))
    moves = by_source and draw(st.booleans())
    renewed = draw(st.integers(1, 2 * count))
    times = draw(st.permutations(range(1, 2 * count + 1)))
    log: list[Event] = []
    offsets = [0, 0, 0]
    for number in range(count):
        if number == renewed:
            offsets = [0, 0, 0]
        key, kind = (
            draw(st.integers(0, 3)),
            draw(st.sampled_from(["put", "put", "unknown", "delete", "tombstone"])),
        )
        partition = draw(st.integers(0, 1 + tangled)) if moves else key % 2
        gone = kind in {"delete", "tombstone"}
        value = None if gone else UNKNOWN if unknowns and kind == "unknown" else f"v{number}"
        ts = times[number] if by_source and kind != "tombstone" else None
        time = number
        if tangled:
            ts = draw(st.sampled_from([None, 1, 2, 3])) if ts else None
            time = draw(st.integers(0, count))
        log.append(Event(key, partition, offsets[partition], ts, value, int(number >= renewed), time))
        offsets[partition] += 1
    cuts = sorted(draw(st.lists(st.integers(0, count), min_size=BATCHES - 1, max_size=BATCHES - 1)))
    ends = [0, *cuts, count]
    if tangled:
        log = draw(st.permutations(log))
    fresh = [tuple(log[a:b]) for a, b in pairwise(ends)]
    again = [tuple(_repeated(draw, log[:end], whole=not tangled)) for end in ends[:-1]]
    return CutLog(tuple(fresh), tuple(again))


def _repeated(draw: Any, before: Sequence[Event], *, whole: bool) -> list[Event]:
    """Any of the earlier ones, or all of a key as a replay does: in the default order no delete is remembered."""
    if whole:
        keys = draw(st.sets(st.integers(0, 3), max_size=2))
        return [each for each in before if each.key in keys]
    return [each for each in before if draw(st.integers(0, 4)) == 0]


def drawn(strategy: st.SearchStrategy[CutLog], count: int, start: int) -> list[CutLog]:
    """So many of them, to be tried together: one merge of many logs costs what one of few does."""
    found: list[CutLog] = []

    @seed(start)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(each: CutLog) -> None:
        found.append(each)

    collect()
    return found


def least(log: CutLog, fails: Callable[[CutLog], bool]) -> CutLog:
    """A log that fails still, and no longer without any one of its events."""
    smaller = True
    while smaller:
        smaller = False
        for event in log.until(len(log.fresh)):
            tried = log.without(event)
            if fails(tried):
                log, smaller = tried, True
    unrepeated = replace(log, again=tuple(() for _ in log.again))
    return unrepeated if fails(unrepeated) else log
