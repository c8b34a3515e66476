"""Which tables a tick of a sensor reads from the catalog: each within its time, few at once, failing ones last.

What a sensor knows of a table is true until a run or an act changes it, which Dagster's records tell, or a stranger
does, which nothing but reading tells. A tick has time for some tables, and a lane may have a thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

READ_EVERY = timedelta(minutes=1)
"""A table whose records wait is read again at least so often, for its run may go on and on."""
READ_QUIET_EVERY = timedelta(minutes=5)
"""Any other in a lane of many: it is read at once when a run or an act has ended, so that only strangers change it."""
QUIET_READS = 4
"""Of one tick, in a lane of so few tables that each has its turn within READ_QUIET_EVERY."""
READ_TROUBLED_EVERY = timedelta(seconds=10)
"""A stopped or paused table: someone may be mending it."""
READS = 40
"""Tables read in one tick at most, so that a lost cursor does not exhaust the tick's time."""
_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Known:
    """When a table was read last (None: never), when it may have changed since, and how often it is to be read."""

    table: str
    read_at: datetime | None
    changed_at: datetime | None
    every: timedelta
    lost: bool
    """The last reading failed."""

    def stale_since(self, now: datetime) -> datetime | None:
        """Since when it is to be read again: for ever where it may have changed, None while it need not be."""
        if self.read_at is None or (self.changed_at and self.changed_at >= self.read_at):
            return _LONG_AGO
        return self.read_at + self.every if now - self.read_at >= self.every else None


def quiet_every(tables: int, poll: timedelta) -> timedelta:
    """How often a table is read to which nothing happens that Dagster knows of, in a lane of so many."""
    return min(READ_QUIET_EVERY, max(READ_EVERY, tables * poll / QUIET_READS))


def to_read(known: Sequence[Known], now: datetime, poll: timedelta, *, catalog_down: bool) -> list[str]:
    """The tables to read in a tick, first ones first; `poll`: the time between two ticks.

    Longest stale first, no more than spread over the ticks let each have its turn in time; all of those that missed
    theirs. Tables whose last reading failed come last, but keep up to half of the places where others fill the tick.
    """
    found = [(since, each) for each in known if (since := each.stale_since(now))]
    stale = sorted(found, key=lambda each: (each[0], each[1].read_at or _LONG_AGO, each[1].table))
    due = [each for each in stale if not each[1].lost]
    turn = ceil(sum(poll / max(each.every, READ_EVERY) for each in known)) + 1
    overdue = [each for since, each in due if since < now - max(each.every, READ_EVERY)]
    chosen = [each for _, each in due[: min(READS, max(turn, len(overdue)))]]
    again = [each for _, each in stale if each.lost]
    places = READS - min(len(again), READS // 2)
    asked = [each.table for each in (*chosen[:places], *again)]
    lost = {each.table for each in known if each.lost}
    return witnessed(asked, [each.table for each in known], lost, catalog_down=catalog_down)[:READS]


def witnessed(
    asked: Sequence[str], tables: Sequence[str], lost: set[str], *, catalog_down: bool
) -> list[str]:
    """`asked`, led by a readable one of `tables` if none of `asked` could be read last time.

    It shows whether the catalog is down or only these tables. While the catalog is thought down, one is read even
    where none is due.
    """
    if any(table not in lost for table in asked) or not (asked or catalog_down):
        return list(asked)
    return [*[table for table in tables if table not in lost][:1], *asked]
