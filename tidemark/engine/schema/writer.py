"""One registered schema and the columns that it asks for.

Registered schemas never change, and a table looks at all of its subject's before each batch: each is read once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tidemark.domain.columns.types import Struct
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats import json_schema, protobuf_columns
from tidemark.domain.formats.avro import Note, parse
from tidemark.domain.formats.debezium import Envelope, avro_columns, is_bookkeeping, untold
from tidemark.domain.formats.json_columns import columns as json_columns
from tidemark.domain.formats.json_columns import with_variants
from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.domain.formats.routes import Events, avro_routes
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.decode.decoding import Framing, WriterSchema
from tidemark.engine.decode.on_executors import check_validator
from tidemark.engine.schema import protobuf
from tidemark.engine.schema.protoc import compile_proto

KEPT = 4096
"""Schemas that a process remembers."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One registered writer schema and its columns; `notes` are what the plan tells of how it is read.

    `untold` are parts of `_cdc` that no record of it fills.
    """

    id: int
    version: int
    schema: WriterSchema
    columns: Struct
    notes: tuple[Note, ...] = ()
    untold: frozenset[str] = frozenset()


class NoRows(Exception):
    """A schema of records that are no rows."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a contract wants schemas to be read. `message`: the Protobuf message of the values.

    Without it they are `first`, also where a version has that under another name; with both its package alone may be
    another one.
    `nanos`: its timestamps keep all nine digits. `variants`: what has no single type is a VARIANT.
    `combined_as_text`: so is what a JSON Schema says with constraints of several subschemas.
    """

    envelope: Envelope = "none"
    message: str | None = None
    first: str | None = None
    framing: Framing = "confluent"
    events: Events | None = None
    nanos: bool = False
    variants: bool = False
    combined_as_text: bool = False


def writer_of(version: RegisteredSchema, reading: Reading) -> Writer:
    """The writer and its columns.

    Raises:
        SchemaUnsupported: no columns can hold it exactly.
        NoRows: it is of Debezium's own records.
    """
    found = judged(version, reading)
    if isinstance(found, SchemaUnsupported):
        raise SchemaUnsupported(found.path, found.reason) from found
    return found


@lru_cache(maxsize=KEPT)
def judged(version: RegisteredSchema, reading: Reading) -> Writer | SchemaUnsupported:
    """A schema without columns is remembered too."""
    try:
        return _read(version, reading)
    except SchemaUnsupported as error:
        return error.with_traceback(None)


def _read(version: RegisteredSchema, reading: Reading) -> Writer:
    envelope = reading.envelope
    if envelope != "none" and version.type != "AVRO":
        kind = "JSON Schema" if version.type == "JSON" else version.type
        raise SchemaUnsupported(
            "", f"envelope: {envelope} is read from Avro, or with format: json from JSON, not from {kind}"
        )
    if version.type == "PROTOBUF":
        message = _message(version, reading)
        return Writer(version.id, version.version, message, protobuf_columns.columns(message), message.notes)
    if version.type == "JSON":
        documents = json_schema.parse(version.text, combined_as_text=reading.combined_as_text)
        documents = with_variants(documents) if reading.variants else documents
        check_validator(documents)
        return Writer(version.id, version.version, documents, json_columns(documents), documents.notes)
    connect = envelope != "none"
    routes = avro_routes(version.text, reading.events) if reading.events else ()
    schema = parse(
        version.text, version.references, connect=connect, variants=reading.variants, routes=routes
    )
    if connect and is_bookkeeping(schema.name):
        raise NoRows
    found = avro_columns(schema, envelope)
    left = untold(schema) if envelope == "debezium_flat" else frozenset()
    return Writer(version.id, version.version, schema, found.struct, found.notes, left)


def of_message(
    reading: Reading, versions: Iterable[RegisteredSchema], declared: str | None, made_of: str | None
) -> Reading:
    """How Protobuf is read: as the message that the contract names, else the one that the table was made of.

    A new table is made of the first message of the oldest version that has one. Ids do not tell: a text of another
    subject keeps its id. A declared name that neither the table nor any version has is a wrong one.
    """
    if reading.message:  # an event is told by its name
        return reading
    if declared:
        known = declared == made_of or any(declared in messages(each) for each in versions)
        return replace(reading, message=declared, first=declared if known else None)
    if made_of:
        return replace(reading, first=made_of)
    oldest_first = sorted(versions, key=lambda each: each.version)
    return replace(reading, first=next((name for each in oldest_first for name in messages(each)), None))


@lru_cache(maxsize=KEPT)
def messages(version: RegisteredSchema) -> Mapping[str, tuple[int, ...]]:
    """Full names and message indexes of a Protobuf file, in its order; none where it does not compile."""
    try:
        return protobuf.places(compile_proto(version.text, version.imports))
    except SchemaUnsupported:
        return {}


def _message(version: RegisteredSchema, reading: Reading) -> ProtobufMessage:
    compiled = compile_proto(version.text, version.imports)
    name = _still(reading, messages(version)) if reading.first else reading.message
    message = protobuf.read(compiled, name, nanos=reading.nanos, variants=reading.variants)
    return replace(message, index=()) if reading.framing == "bare" else message


def _still(reading: Reading, places: Mapping[str, tuple[int, ...]]) -> str | None:
    """The table's message in a version: of the same name, else of the same short name, else the only one of the file.

    Raises SchemaUnsupported where none of them is to be had: columns of another message are no columns of the table.
    """
    first = reading.first or ""
    if first in places or not places:
        return first
    alike = [name for name in places if name.rpartition(".")[2] == first.rpartition(".")[2]]
    outermost = [name for name, index in places.items() if len(index) == 1]
    for found in ([name for name in alike if name in outermost], alike, [] if reading.message else outermost):
        if len(found) == 1:
            return found[0]
    if reading.message:
        return reading.message
    raise SchemaUnsupported(
        "",
        f"the schema has no message {first}, which the table is made of, and which other one it is nobody says: "
        f"{', '.join(places)}; value.message in the contract names the one to read",
    )
