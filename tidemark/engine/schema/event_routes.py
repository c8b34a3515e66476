"""Where the records of a topic with several types go, seen from the table of one of them."""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tidemark.domain.config.contract import Contract
from tidemark.domain.formats.routes import Events, Route, Skips, avro_types, message_prefixes
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.writer import messages

IDS_LOOKED_UP = 100
"""At once, of ids that may be garbage and not registered."""
IDS_ROUTED = 1_000
"""The same where records of all others go to the quarantine: the lowest ids, for registries count up."""
_ASKED_AT_ONCE = 8


def events_of(contract: Contract) -> Events | None:
    """The record types that the contract routes; None where a topic has one table."""
    if contract.event is None:
        return None
    return Events(contract.event, frozenset(contract.events or {contract.event: contract.table}))


def holds(version: RegisteredSchema, events: Events) -> bool:
    """Whether records of the table's own type are written with this schema."""
    return events.own in type_names(version)


def skips(
    lake: Lake, contract: Contract, versions: Iterable[RegisteredSchema], seen: Iterable[int], events: Events
) -> Skips:
    """What is left to others of the subjects' `versions`, and of ids that records were `seen` to carry.

    A schema of the table's own type that lies under another subject is not among them: its records are not skipped.
    """
    ids: dict[int, Route] = {}
    indexes: dict[int, Mapping[bytes, Route]] = {}
    listed = {version.id: version for version in versions}
    registry = lake.registry(contract.cluster)
    others = [schema_id for schema_id in seen if schema_id not in listed]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        found = zip(others, pool.map(registry.by_id, others), strict=True)
        listed |= {schema_id: each for schema_id, each in found if each and not holds(each, events)}
    for schema_id, version in listed.items():
        if not holds(version, events):
            ids[schema_id] = events.gravest(type_names(version))
        if version.type == "PROTOBUF":
            indexes[schema_id] = _prefixes(version, events)
    return Skips(ids, indexes)


def type_names(version: RegisteredSchema) -> tuple[str | None, ...]:
    """The record types of a schema: Avro record names, Protobuf message names, the title of a JSON Schema."""
    if version.type == "PROTOBUF":
        return tuple(messages(version))
    if version.type == "AVRO":
        return tuple(name for name in avro_types(version.text) if name != "null")
    try:
        schema = json.loads(version.text)
    except ValueError:
        return (None,)
    return (str(schema["title"]) if isinstance(schema, dict) and "title" in schema else None,)


def message_names(version: RegisteredSchema) -> Mapping[bytes, str]:
    """What a value of a Protobuf schema begins with, header apart, and the message that it names so."""
    return {p: name for name, index in messages(version).items() for p in message_prefixes(index)}


def _prefixes(version: RegisteredSchema, events: Events) -> Mapping[bytes, Route]:
    routes = {prefix: events.route(name) for prefix, name in message_names(version).items()}
    return {prefix: route for prefix, route in routes.items() if route != "own"}
