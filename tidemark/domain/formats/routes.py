"""Several record types in one topic: which of them a table is for, and what becomes of the others.

Belongs here: the names of record types and the routes of an `events` contract. A record of another table's type is
skipped there as `routed`; a record whose type no table is for is `unrouted`, which every table of the topic counts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.formats.avro_nodes import Record, Union

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


def avro_types(schema: AvroSchema) -> tuple[str | None, ...]:
    """The record types of a schema: its own name, or those of the branches of a union; None for what is no record."""
    root = schema.root
    branches = root.values if isinstance(root, Union) else (root,)
    return tuple(branch.name if isinstance(branch, Record) else None for branch in branches)


def avro_event(schema: AvroSchema, events: Events) -> AvroSchema | None:
    """The schema as the table of one event reads it; None when no record of the event is written with it."""
    names = avro_types(schema)
    if events.own not in names:
        return None
    if not isinstance(schema.root, Union):
        return schema
    return replace(schema, routes=tuple(events.route(name) for name in names))


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
