"""Which record types lie in a topic, as the schema ids and message indexes of its values say."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemark.domain.formats.avro_decoder import HEADER_SIZE
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.event_routes import IDS_LOOKED_UP, message_names, type_names
from tidemark.engine.schema.writer import messages

NAMED = 10
"""Record types that are told by name."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A value of a schema that the registry knows; `name` is None where no one record type is told."""

    schema_id: int
    name: str | None


def framed(value: bytes) -> bool:
    """Whether the value begins as the registry's wire format does."""
    return len(value) >= HEADER_SIZE and value[0] == 0


def typed(lake: Lake, cluster: str, values: Sequence[bytes]) -> list[Typed]:
    """The record types of those values whose schema ids the registry knows, under whatever subject.

    Raises:
        Outage: `registry_down`.
    """
    if cluster not in lake.platform.schema_registry:
        return []
    registry = lake.registry(cluster)
    ids = sorted({_id(value) for value in values if framed(value)})[:IDS_LOOKED_UP]
    known = {each: found for each in ids if (found := registry.by_id(each))}
    return [Typed(_id(v), _name(known[_id(v)], v)) for v in values if framed(v) and _id(v) in known]


def named_most(versions: Iterable[RegisteredSchema], values: Iterable[bytes]) -> str | None:
    """The message of these Protobuf files that most values name, of equally many the first; None where none is named.

    Values of other schema ids do not count.
    """
    files = sorted(versions, key=lambda each: each.version)
    names = {each.id: message_names(each) for each in files}
    found = (_message(names[_id(value)], value) for value in values if framed(value) and _id(value) in names)
    counted = Counter(name for name in found if name)
    in_order = [name for each in files for name in messages(each)]
    return max(in_order, key=counted.__getitem__) if counted else None


def told(found: Iterable[Typed]) -> str:
    """The record types with their numbers of values, the most frequent first."""
    counted = Counter(each.name or f"schema id {each.schema_id}" for each in found).most_common(NAMED)
    return ", ".join(f"{name} ({number})" for name, number in counted)


def events_for(found: Iterable[Typed], namespace: str) -> str:
    """`events` of a contract with a table for each record type."""
    names = sorted({each.name for each in found if each.name})[:NAMED]
    return f"events: {{{', '.join(_events(names, namespace))}}}"


def _events(names: Iterable[str], namespace: str) -> Iterator[str]:
    for name in names:
        yield f"{name}: {namespace}.{re.sub(r'[^0-9A-Za-z]', '_', name).lower()}"


def _id(value: bytes) -> int:
    return int.from_bytes(value[1:HEADER_SIZE], "big")


def _name(version: RegisteredSchema, value: bytes) -> str | None:
    if version.type == "PROTOBUF":
        return _message(message_names(version), value)
    names = type_names(version)
    return names[0] if len(names) == 1 else None


def _message(names: Mapping[bytes, str], value: bytes) -> str | None:
    """Which of the messages the index behind the header names."""
    return next((names[p] for p in names if value.startswith(p, HEADER_SIZE)), None)
