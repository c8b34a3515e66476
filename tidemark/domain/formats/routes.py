"""Several record types in one topic: which of them a table is for, and what becomes of the others.

Belongs here: the names of record types and the routes of an `events` contract. A record of another table's type is
skipped there as `routed`; a record whose type no table is for is `unrouted`, which every table of the topic counts.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Route = Literal["own", "routed", "unrouted"]
UNROUTED = "unrouted"
"""The cause of a skipped record whose type no table is for."""


@dataclass(frozen=True, slots=True)
class Events:
    """The record types of a topic that have tables, seen from the table of `own`."""

    own: str
    names: frozenset[str]

    def route(self, name: str | None) -> Route:
        """Where a record of this type goes."""
        if name == self.own:
            return "own"
        return "routed" if name in self.names else "unrouted"

    def gravest(self, names: Collection[str | None]) -> Route:
        """One word for a schema that none of the table's records is written with."""
        return "routed" if names and all(name in self.names for name in names) else "unrouted"


@dataclass(frozen=True, slots=True)
class Skips:
    """What a table of an `events` contract leaves to others.

    ids       schema ids all of whose records are skipped, by route
    indexes   Protobuf: message indexes, as they stand in the value, of the other messages of a schema id, by route
    """

    ids: Mapping[int, Route]
    indexes: Mapping[int, Mapping[bytes, Route]]

    @property
    def unrouted(self) -> frozenset[int]:
        """Ids of record types that no table is for."""
        return frozenset(i for i, route in self.ids.items() if route == "unrouted")


NO_SKIPS = Skips({}, {})


def avro_types(text: str) -> tuple[str | None, ...]:
    """The types of an Avro schema: its name, or those of a union's branches, null too; None for what has no name."""
    try:
        schema = json.loads(text)
    except ValueError:
        return (None,)
    return tuple(_avro_name(branch) for branch in (schema if isinstance(schema, list) else [schema]))


def _avro_name(schema: Any) -> str | None:
    match schema:
        case str():
            return schema
        case {"type": "record", "name": str() as name}:
            space = schema.get("namespace")
            return name if "." in name or not space else f"{space}.{name}"
    return None


def avro_routes(text: str, events: Events) -> tuple[Route, ...]:
    """Where each branch of a top-level union goes that holds the own type; empty for every other schema."""
    routes = tuple(events.route(name) for name in avro_types(text))
    return routes if "own" in routes and text.lstrip().startswith("[") else ()


def branch_prefix(position: int) -> bytes:
    """What a value of a union begins with; `position` counts null too."""
    return _varint(position << 1)


def message_prefixes(index: tuple[int, ...]) -> tuple[bytes, ...]:
    """How a Protobuf value names a message by its index: zigzag varints, the count first; `0` alone for (0,)."""
    full = b"".join(_varint(number << 1) for number in (len(index), *index))
    return (full, b"\0") if index == (0,) else (full,)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits at a time
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
