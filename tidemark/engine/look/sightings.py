"""When offsets were first seen, by our clock, for looks that no sensor takes. A cache: losing it is harmless.

`<home>/sightings.json`: {"version": 1, "tables": {table: {"looks": [[first, last, {partition: end}]], "held": first}}}.
A look says that the ends were so from `first` to `last`; `held` since when a transaction holds the end back.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import Offsets, waiting
from tidemark.engine.whole_file import replace_whole

FILE = "sightings.json"
VERSION = 1
KEEP = 8
"""Looks per table: the newest that is wholly published, the oldest that is not, and some between."""


@dataclass(frozen=True, slots=True)
class Look:
    """The read_committed ends of a topic, as they were from `first` to `last`."""

    first: datetime
    last: datetime
    end: Offsets


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier looks at a table's topic found, oldest first."""

    looks: tuple[Look, ...] = ()
    held: datetime | None = None

    def sightings(self) -> list[Sighting]:
        """For `measure`: the moments at which ends were first seen."""
        return [Sighting(look.first, look.end) for look in self.looks]

    def published_until(self, committed: Offsets) -> datetime | None:
        """The last moment at which everything that was seen is now published."""
        return max((look.last for look in self.looks if not waiting(committed, look.end)), default=None)

    def with_look(self, topic: Topic, committed: Offsets, now: datetime) -> "Memory":
        """After one more look. Ends beyond those of now were another topic's: it was made anew since."""
        known = [look for look in self.looks if not waiting(topic.end, look.end)]
        last = self.looks[-1] if self.looks else None
        same = last is not None and dict(last.end) == dict(topic.end)
        if last is not None and same:
            looks = (*known[:-1], replace(last, last=now))
        else:
            looks = (*known, Look(now, now, dict(topic.end)))
        open_now = any(topic.high_watermark[p] > end for p, end in topic.end.items())
        held = (self.held or now) if open_now and (same or last is None) else now if open_now else None
        return Memory(_thinned(looks, committed), held)


def _thinned(looks: tuple[Look, ...], committed: Offsets) -> tuple[Look, ...]:
    published = [look for look in looks if not waiting(committed, look.end)]
    still_open = [look for look in looks if waiting(committed, look.end)]
    while len(still_open) > KEEP - 1:
        del still_open[1]
    return (*published[-1:], *still_open)


def read(home: Path) -> dict[str, Memory]:
    """What the file says, by table; empty when it says nothing that we understand."""
    try:
        content = json.loads((home / FILE).read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            return {}
        return {str(table): _memory(found) for table, found in content["tables"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write(home: Path, memories: Mapping[str, Memory]) -> None:
    """Replace the file; a home that cannot be written is no error."""
    tables = {table: _json(memory) for table, memory in sorted(memories.items())}
    with suppress(OSError):
        replace_whole(home / FILE, json.dumps({"version": VERSION, "tables": tables}))


def _memory(found: Mapping[str, Any]) -> Memory:
    looks = tuple(
        Look(_time(first), _time(last), {int(p): int(o) for p, o in end.items()})
        for first, last, end in found["looks"]
    )
    return Memory(looks, _time(found["held"]) if found.get("held") else None)


def _json(memory: Memory) -> dict[str, Any]:
    looks = [
        [look.first.isoformat(), look.last.isoformat(), {str(p): o for p, o in look.end.items()}]
        for look in memory.looks
    ]
    return {"looks": looks, "held": memory.held.isoformat() if memory.held else None}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
