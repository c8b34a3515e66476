"""The cursor of a sensor of tables: a cache of what ticks found out. Lost or damaged, it is empty and fills again.

Kept small, for Dagster stores it with every tick: defaults are left out, offsets are differences to their
neighbours, most times are whole seconds, topic ids are shortened.
"""

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from tidemark.domain.cadence.freshness import GRADES, Grade
from tidemark.domain.cadence.lag import Sighting, prune
from tidemark.domain.cadence.request import Trouble
from tidemark.domain.ledger.offsets import Offsets, waiting
from tidemark.domain.states import STATES, State

C = TypeVar("C")
Moment = Annotated[float, Field(ge=0, le=253_402_300_799)]
"""Seconds since 1970, before the year 10000: what a cursor has for a time otherwise cannot be read."""
VERSION = 1
PLAIN = 2_000
"""Longer cursors are compressed."""
CATALOG = ""
"""The key of the catalog in `Cache.down`; no cluster has an empty name."""
SIGHTINGS = 200
"""Of all tables together. A table keeps one at least, its oldest, and of that one partition that waits: lag stays
exact until the next commit."""


@dataclass(slots=True)
class Entry:
    """What is known of one table (see `Seen` for the meaning of the fields)."""

    committed: Offsets | None = None
    exists: bool = True
    paused: bool = False
    fault: State | None = None
    lost: datetime | None = None
    """Since when it could not be looked at: an outage, of its own or of all."""
    unseen: datetime | None = None
    """Since when its topic alone has not answered: it has no leader."""
    topic_id: str | None = None
    mark: str = ""
    read_at: datetime | None = None
    """When it was last read, or could not be. None: it is to be read; so is an upsert table that has not caught up."""
    sightings: list[Sighting] = field(default_factory=list)
    trouble: Trouble | None = None
    tried: datetime | None = None
    active: datetime | None = None
    observed_at: datetime | None = None
    """When its topic was last observed."""
    observed: int = -1
    """The sum of the topic's end offsets, as the last observation told it; -1 before the first."""
    lagged: bool = False
    """The last observation told of records that wait."""
    grade: Grade | None = None
    """Of its freshness, as the check told it last."""
    owed: bool = False
    """What is published here may not be told: a run or an act did not end well, or nothing is known of those before."""
    staged: bool = False
    """Of this tick's reading alone; not kept."""

    def mark_trouble(self) -> None:
        """Let the trouble that a run has told of keep how the table looked when it was first read since."""
        trouble = self.trouble
        if trouble and not trouble.mark:
            self.trouble = Trouble(trouble.state, trouble.failures, trouble.failed_at, self.mark)


@dataclass(slots=True)
class Cache:
    """Entries by table, until when runs that ended were taken into account, and when topics were listed.

    `down`: Kafka clusters that do not answer, by name, and the `CATALOG`, each with the tick that first found it so.
    `turn`: where a tick had no time for all tables, the last one that it took.
    `ahead`: runs that were taken into account and ended later than `runs_until`, by a clock that is ahead.
    """

    tables: dict[str, Entry] = field(default_factory=dict)
    runs_until: datetime | None = None
    listed_at: datetime | None = None
    down: dict[str, datetime] = field(default_factory=dict)
    turn: str = ""
    ahead: dict[str, datetime] = field(default_factory=dict)

    def entry(self, table: str) -> Entry:
        """The entry of a table, made on first use."""
        return self.tables.setdefault(table, Entry(owed=True))


def cursor_of(kind: type[C], text: str | None, begun: Callable[[float], C]) -> C:
    """What a sensor of runs remembers; nothing, or what cannot be read, means as if `begun` now."""
    try:
        return TypeAdapter(kind).validate_json(text or "", strict=True)
    except ValueError:
        return begun(datetime.now(UTC).timestamp())


def dump(cache: Cache) -> str:
    """The cursor text."""
    keep = max(1, SIGHTINGS // max(1, len(cache.tables)))
    tables = {table: _entry_to_json(entry, keep) for table, entry in sorted(cache.tables.items())}
    content = {
        "v": VERSION,
        "u": cache.runs_until.timestamp() if cache.runs_until else None,
        "l": _seconds(cache.listed_at),
        **({"k": {name: _seconds(at) for name, at in cache.down.items()}} if cache.down else {}),
        **({"n": cache.turn} if cache.turn else {}),
        **({"h": {run: at.timestamp() for run, at in cache.ahead.items()}} if cache.ahead else {}),
        "t": tables,
    }
    text = json.dumps(content, separators=(",", ":"))
    return text if len(text) <= PLAIN else "z" + b85encode(zlib.compress(text.encode(), 9)).decode()


def parse(cursor: str | None) -> Cache:
    """The inverse of `dump`; anything else is an empty cache."""
    try:
        text = cursor or ""
        content = json.loads(zlib.decompress(b85decode(text[1:])) if text.startswith("z") else text)
        if content["v"] != VERSION:
            return Cache()
        tables = {str(table): _entry_from_json(each) for table, each in content["t"].items()}
        down = {str(name): _moment(at) for name, at in content.get("k", {}).items()}
        ahead = {str(run): _moment(at) for run, at in content.get("h", {}).items()}
        turn = str(content.get("n", ""))
        return Cache(tables, _time(content["u"]), _time(content["l"]), down, turn, ahead)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, zlib.error):
        return Cache()


def _entry_to_json(entry: Entry, keep: int) -> dict[str, Any]:
    open_ones = prune(entry.sightings, entry.committed or {}, keep)
    trouble = entry.trouble
    found: dict[str, Any] = {
        "c": None if entry.committed is None else _offsets(entry.committed),
        "x": None if entry.exists else 0,
        "p": 1 if entry.paused else None,
        "f": entry.fault,
        "b": _seconds(entry.lost),
        "u": _seconds(entry.unseen),
        "i": entry.topic_id,
        "m": entry.mark or None,
        "r": _seconds(entry.read_at),
        "s": [[_seconds(seen.at), _beyond(seen.end, entry.committed, keep)] for seen in open_ones] or None,
        "e": [trouble.state, trouble.failures, _seconds(trouble.failed_at), trouble.mark]
        if trouble
        else None,
        "d": _seconds(entry.tried),
        "a": _seconds(entry.active),
        "o": [_seconds(entry.observed_at), entry.observed, int(entry.lagged)] if entry.observed_at else None,
        "g": GRADES.index(entry.grade) if entry.grade else None,
        "w": 1 if entry.owed else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _entry_from_json(found: Mapping[str, Any]) -> Entry:
    observed_at, observed, lagged = found.get("o", (None, -1, 0))
    committed = _offsets_from(found["c"]) if "c" in found else None
    return Entry(
        committed=committed,
        exists="x" not in found,
        paused="p" in found,
        fault=_state(found["f"]) if "f" in found else None,
        lost=_time(found.get("b")),
        unseen=_time(found.get("u")),
        topic_id=found.get("i"),
        mark=found.get("m", ""),
        read_at=_time(found.get("r")),
        sightings=[Sighting(_moment(at), _end_of(end, committed)) for at, end in found.get("s", [])],
        trouble=_trouble(*found["e"]) if "e" in found else None,
        tried=_time(found.get("d")),
        active=_time(found.get("a")),
        observed_at=_time(observed_at),
        observed=int(observed),
        lagged=bool(lagged),
        grade=GRADES[found["g"]] if "g" in found else None,
        owed="w" in found,
    )


def _trouble(state: str, failures: int, failed_at: float, mark: str) -> Trouble:
    return Trouble(_state(state), int(failures), _moment(failed_at), str(mark))


def _state(text: str) -> State:
    if text not in STATES:
        raise ValueError(text)
    return text


def _offsets(offsets: Offsets) -> list[int] | dict[str, int]:
    """As they are, or for partitions 0 to n the differences from one to the next, which are smaller."""
    if not offsets or sorted(offsets) != list(range(len(offsets))):
        return {str(p): o for p, o in offsets.items()}
    values = [offsets[p] for p in range(len(offsets))]
    return [values[0], *(after - before for before, after in pairwise(values))]


def _offsets_from(found: list[int] | dict[str, int]) -> dict[int, int]:
    pairs = enumerate(accumulate(found)) if isinstance(found, list) else found.items()
    return {int(p): int(o) for p, o in pairs}


def _beyond(end: Offsets, committed: Offsets | None, keep: int) -> int | list[int] | dict[str, int]:
    if keep == 1:
        return next(iter(waiting(committed or {}, end)))
    return _offsets({p: o - (committed or {}).get(p, 0) for p, o in end.items()})


def _end_of(found: int | list[int] | dict[str, int], committed: Offsets | None) -> dict[int, int]:
    beyond = {found: 1} if isinstance(found, int) else _offsets_from(found)
    return {p: o + (committed or {}).get(p, 0) for p, o in beyond.items()}


def _seconds(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
