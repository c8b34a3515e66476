"""The oracle of upsert tables: a log replayed into a dictionary by key. Nothing of the product is used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

UNKNOWN = "__debezium_unavailable_value"
HOUR = 3600


@dataclass(frozen=True)
class Event:
    """One record: `ts` is the source's own order (None: it brings none), `value` None is a delete.

    That of a delete with the `op` d is of the row before it, which says nothing of the delete.
    `time` is the record's, where a key may move between partitions. `truncates`: it is about no key, the source was
    emptied. `op` is how it is said, for whoever makes a record of it. `pos` is its place in the database's log.
    """

    key: int
    partition: int
    offset: int
    ts: int | None
    value: str | None
    epoch: int = 0
    time: int = 0
    op: str = ""
    truncates: bool = False
    pos: int | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        return self.epoch, self.partition, self.offset


def current(
    events: Iterable[Event],
    *,
    by_source: bool,
    by_time: bool = False,
    by_pos: bool = False,
    unknowns: bool = False,
) -> dict[int, str]:
    """Key -> value of the newest event of each key, without those that are deleted.

    By offset, or `by_source` (ts, then epoch, partition, offset; `by_time`: ts, then the record's time; `by_pos`: ts
    is the place in the database's log).
    """
    by_key: dict[int, list[Event]] = {}
    told = list(dict.fromkeys(events))
    truncations = [each for each in told if each.truncates]
    for event in told:
        if not event.truncates and not any(_emptied(event, each, by_pos) for each in truncations):
            by_key.setdefault(event.key, []).append(event)
    found = {}
    for key, mine in by_key.items():
        orderless = [each for each in mine if by_source and _is_orderless(each, by_pos)]
        ordered = sorted(set(mine) - set(orderless), key=lambda e: _rank(e, by_source, by_time))
        if not ordered or ordered[-1].value is None or any(_earlier(ordered[-1], each) for each in orderless):
            continue
        found[key] = _value(ordered) if unknowns else ordered[-1].value
    return found


def _is_orderless(event: Event, by_pos: bool) -> bool:
    """Whether it is a delete that brings no order of its own; its place in the database's log is."""
    return event.value is None and (event.ts is None or (event.op == "d" and not by_pos))


def _value(ordered: Sequence[Event]) -> str:
    """The last one that was known since the last delete."""
    newest = ordered[-1].value
    for event in reversed(ordered):
        if event.value is None:
            break
        if event.value != UNKNOWN:
            return event.value
    return newest or ""


def _rank(event: Event, by_source: bool, by_time: bool) -> Any:
    """What sorts an event that has an order."""
    if not by_source:
        return event.epoch, event.offset, event.partition
    return event.ts is not None, event.ts or 0, event.time if by_time else 0, event.place


def _emptied(event: Event, truncation: Event, by_pos: bool) -> bool:
    """Whether the source had it before it was emptied: as its log says, where Kafka's offsets do not.

    Not of what lies further apart: that log may have begun anew.
    """
    own = event.partition == truncation.partition and not by_pos
    silent = event.pos is None or truncation.pos is None or abs(event.time - truncation.time) > HOUR
    if event.epoch != truncation.epoch or own or silent:
        return _earlier(event, truncation)
    return event.pos < truncation.pos


def _earlier(one: Event, other: Event) -> bool:
    """By offset in one Kafka partition, by record time across partitions."""
    if one.epoch != other.epoch:
        return one.epoch < other.epoch
    if one.partition == other.partition:
        return one.offset < other.offset
    return one.time <= other.time
