"""Random logs of changes by key, as a table's events: many small logs in one table, each of four keys.

Two Kafka partitions, epochs, held back records, deletes with and without an order of their own, changed primary keys,
truncations, values that a connector did not know.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from current_state import UNKNOWN, Event, current

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = 4
ACCOUNT = Struct((Field("id", LONG), Field("region", STRING)))
COLUMNS = Struct(
    (
        Field("log", LONG),
        Field("account", ACCOUNT),
        Field("v", STRING),
        Field("ts", LONG),
        Field("_cdc", Struct((Field("op", STRING), Field("pos", STRING)))),
        KAFKA_COLUMN,
    )
)


class Logs:
    """`count` logs over two partitions; `sent` is what the append table holds.

    `by_source`: events bring an order, or none, which often ties, and record times go back; `by_time`: those decide next.
    `by_pos`: the order is the place in the database's log, which Kafka's offsets contradict.
    """

    def __init__(
        self,
        dice: random.Random,
        count: int,
        *,
        by_source: bool,
        by_time: bool = False,
        by_pos: bool = False,
    ) -> None:
        self.dice, self.count, self.by_source, self.by_time = dice, count, by_source or by_pos, by_time
        self.by_pos = by_pos
        self.epoch, self.time, self.next = 0, 0, {0: 0, 1: 0}
        self.sent: list[Event] = []
        self.held: list[Event] = []
        self.undone: list[Event] = []

    def more(self, *, truncated: bool = False) -> list[Event]:
        """A batch of new events; a few are held back, as records that went to quarantine."""
        fresh = self.undone or list(self._made(truncated=truncated))
        self.undone = []
        held = [each for each in fresh if not each.truncates and self.dice.random() < 0.05]
        self.held += held
        fresh = [each for each in fresh if each not in held]
        self.sent += fresh
        return fresh

    def undo(self, count: int) -> None:
        """The newest `count` events were never sent: they come again."""
        self.undone, self.sent = self.sent[-count:], self.sent[:-count]

    def release(self, most: int | None = None) -> tuple[list[Event], dict[int, list[tuple[int, int]]]]:
        """What was held back in this epoch, `most` of it, and the ranges in which it lies."""
        held = [e for e in self.held if e.epoch == self.epoch]
        found, self.held = held[:most], [] if most is None else held[most:]
        self.sent += found
        ranges = {p: [(e.offset, e.offset + 1) for e in found if e.partition == p] for p in (0, 1)}
        return found, {p: each for p, each in ranges.items() if each}

    def new_topic(self) -> None:
        """What comes now is of a topic that was made anew."""
        self.epoch, self.next = self.epoch + 1, {0: 0, 1: 0}

    def expected(self) -> dict[tuple[int, int], str]:
        """(log, id) -> value."""
        found = current(
            self.sent,
            by_source=self.by_source,
            by_time=self.by_time,
            by_pos=self.by_pos,
            unknowns=not self.by_source,
        )
        return {(key // KEYS, key % KEYS): value for key, value in found.items()}

    def _made(self, *, truncated: bool) -> Iterator[Event]:
        at = self.dice.randrange(self.count * 2) if truncated else -1
        for number in range(self.count * 2):
            if number == at:
                yield self._event(0, None, None, truncates=True)
            key, chance = self._key(), self.dice.random()
            if chance < 0.25:
                yield from self._delete(key)
            elif chance < 0.35:  # a new primary key: the old one goes, with or without a tombstone behind it
                yield from self._delete(key)
                yield self._event(key // KEYS * KEYS + (key + 1) % KEYS, self._value(), self._ts())
            else:
                yield self._event(key, self._value(), self._ts())

    def _delete(self, key: int) -> Iterator[Event]:
        """A delete that may bring an order, or a tombstone, which never does; often one after the other."""
        envelope = self.dice.random() < 0.7
        if envelope:
            yield self._event(key, None, self._ts() if self.dice.random() < 0.5 else None, op="d")
        if not envelope or self.dice.random() < 0.5:
            yield self._event(key, None, None)

    def _event(self, key: int, value: str | None, ts: int | None, **more: Any) -> Event:
        partition = self.dice.randint(0, 1) if self.by_source and key % 8 == 0 else key % 2
        self.time += 1
        offset = self.next[partition]
        self.next[partition] += 1
        behind = self.dice.randint(0, 50) if self.by_source else self.time % 8  # several in one moment
        tombstone = value is None and not more
        pos = None if tombstone else self.time * 1000
        if self.by_pos:
            pos = None if tombstone else (self.time + self.dice.randint(0, 20)) * 1000 + self.time % 1000
            ts = pos
        return Event(key, partition, offset, ts, value, self.epoch, self.time - behind, pos=pos, **more)

    def _key(self) -> int:
        return self.dice.randrange(self.count * KEYS)

    def _ts(self) -> int | None:
        return self.dice.choice((None, *range(8))) if self.by_source else None

    def _value(self) -> str:
        unknown = not self.by_source and self.dice.random() < 0.3
        return UNKNOWN if unknown else f"v{self.dice.randint(0, 99)}"


def row_of(event: Event) -> tuple[Any, ...]:
    """A row of the append table, with COLUMNS; its region, which is a partition, changes with every event."""
    at = NOON + timedelta(seconds=event.time)
    tombstone = event.value is None and not event.op
    op = "t" if event.truncates else event.op or "u"
    kafka = (
        "t",
        event.partition,
        event.offset,
        at,
        0,
        None,
        None,
        None,
        tombstone and not event.truncates,
        event.epoch,
    )
    pos = None if event.pos is None else f"{event.pos:020}"
    cdc = None if tombstone and not event.truncates else (op, pos)
    if event.truncates:
        return (None, None, None, None, cdc, kafka)
    account = (event.key % KEYS, region(event.offset) if event.value else None)
    return (event.key // KEYS, account, event.value, event.ts, cdc, kafka)


def region(offset: int) -> str:
    """That of the event at an offset."""
    return f"r{offset % 3}"
