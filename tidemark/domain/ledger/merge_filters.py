"""Which rows a merge is about, as Spark SQL conditions on a place: a struct of epoch, partition, offset, timestamp.

Plain comparisons only, so that Iceberg answers them from the statistics of its files.
"""

from collections.abc import Iterable, Iterator, Mapping

from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.ledger.merge_ledger import Truncation
from tidemark.domain.ledger.merge_plan import Reloaded, Unmerged
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, waiting

NEAR_MS = 3_600_000
"""So near to a truncate event the database's log tells what came before it; what is further away record time tells, for
that log may have begun anew (a restore, a failover, RESET MASTER)."""


def unmerged(rows: Unmerged) -> str:
    """The append rows of a plan."""
    return _any([*_beyond(rows), reloaded(rows.epoch, rows.reloaded)])


def up_to_end(rows: Unmerged) -> str:
    """Every append row up to the end of a plan, merged or not."""
    return _any(_beyond(Unmerged(0, {}, rows.end_epoch, rows.end)))


def reloaded(epoch: int, ranges: Reloaded, at: str = "_kafka") -> str:
    """Rows that a replay has touched."""
    return _any(
        _and(f"{at}.epoch = {epoch}", _range(p, each, at))
        for p, several in ranges.items()
        for each in several
    )


def before(
    truncated: Mapping[int, Truncation], at: str = "_kafka", pos: str | None = None, *, by_pos: bool = False
) -> str:
    """What came before a truncate event: by offset in its own Kafka partition, in others by the database's log.

    `pos` is an event's place in that log; where it says nothing, or the event is not near, record time tells. `by_pos`:
    the log tells in all.
    """
    return _any(
        _any(
            [
                f"{at}.epoch < {each.epoch}",
                _and(f"{at}.epoch = {each.epoch}", _before_one(p, each, at, pos, by_pos=by_pos)),
            ]
        )
        for p, each in truncated.items()
    )


def _before_one(partition: int, truncation: Truncation, at: str, pos: str | None, *, by_pos: bool) -> str:
    own, other = f"{at}.partition = {partition}", f"{at}.partition <> {partition}"
    by_offset = _and(own, f"{at}.offset < {truncation.offset}")
    by_time = _and(other, f"{at}.timestamp <= timestamp_millis({truncation.timestamp_ms})")
    if pos is None or truncation.pos is None:
        return _any([by_offset, by_time])
    there = quoted_text(truncation.pos)
    near = f"abs(unix_millis({at}.timestamp) - {truncation.timestamp_ms}) <= {NEAR_MS}"
    earlier = _and(f"{pos} IS NOT NULL", f"{pos} < {there}", near)
    silent = _any([f"{pos} IS NULL", f"{pos} = {there}", f"NOT {near}"])
    if by_pos:
        return _any([earlier, _and(silent, _any([by_offset, by_time]))])
    return _any([by_offset, _and(other, earlier), _and(silent, by_time)])


def _beyond(rows: Unmerged) -> Iterator[str]:
    if rows.epoch == rows.end_epoch:
        yield from _ranges(rows.epoch, rows.start, rows.end)
        return
    known = [_and(f"_kafka.partition = {p}", f"_kafka.offset >= {first}") for p, first in rows.start.items()]
    new = f"_kafka.partition NOT IN ({', '.join(map(str, rows.start))})" if rows.start else "true"
    yield _and(f"_kafka.epoch = {rows.epoch}", _any([*known, new]))
    if rows.end_epoch - rows.epoch > 1:
        yield _and(f"_kafka.epoch > {rows.epoch}", f"_kafka.epoch < {rows.end_epoch}")
    yield from _ranges(rows.end_epoch, {}, rows.end)


def _ranges(epoch: int, start: Offsets, end: Offsets) -> Iterator[str]:
    for p, each in waiting(start, end).items():
        yield _and(f"_kafka.epoch = {epoch}", _range(p, each))


def _range(partition: int, offsets: OffsetRange, at: str = "_kafka") -> str:
    first, last = f"{at}.offset >= {offsets.start}", f"{at}.offset < {offsets.end}"
    return _and(f"{at}.partition = {partition}", first, last)


def _and(*conditions: str) -> str:
    return f"({' AND '.join(conditions)})"


def _any(conditions: Iterable[str]) -> str:
    found = [each for each in conditions if each != "false"]
    return f"({' OR '.join(found)})" if found else "false"
