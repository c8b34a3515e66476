"""The writer schemas of a topic, and the columns they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.domain import json_schema, protobuf_columns
from tidemark.domain.avro import parse
from tidemark.domain.avro_columns import WHOLE_VALUE
from tidemark.domain.contract import Contract
from tidemark.domain.coverage import covers
from tidemark.domain.debezium import CDC, avro_columns, document_columns, is_bookkeeping, json_documents
from tidemark.domain.errors import SchemaUnsupported, Stopped
from tidemark.domain.evolution import first_columns
from tidemark.domain.json_columns import DOCUMENT, JsonDocuments, declared
from tidemark.domain.json_columns import columns as json_columns
from tidemark.domain.types import BINARY, STRING, Field, Struct
from tidemark.engine import protobuf
from tidemark.engine.decode import Format, WriterSchema
from tidemark.engine.decode_shipped import check_validator
from tidemark.engine.lake import Lake
from tidemark.engine.protoc import compile_proto
from tidemark.engine.registry import RegisteredSchema

_PLAIN = {"string": STRING, "raw": BINARY}
FORMATS: Mapping[str, Format] = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
"""Schema types as registries name them."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One registered writer schema and its columns."""

    id: int
    version: int
    schema: WriterSchema
    columns: Struct


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """What may stand in the values of a topic.

    `writers` are the schemas that have exact columns, oldest version first; `unsupported` names, by id, why the
    others have none; all are of one `format`. `plain` is set for formats without a registry, `documents` beside it
    for JSON. `bookkeeping` are schemas of Debezium's own records, which are no rows.
    """

    writers: tuple[Writer, ...] = ()
    unsupported: Mapping[int, str] = field(default_factory=dict)
    plain: Struct | None = None
    documents: JsonDocuments | None = None
    format: Format = "avro"
    bookkeeping: frozenset[int] = frozenset()

    @property
    def ids(self) -> frozenset[int]:
        """Every id that the registry lists for the subject."""
        return frozenset(w.id for w in self.writers) | frozenset(self.unsupported)

    def wanted(self) -> Struct | None:
        """The columns of a new table; None when nothing is registered yet."""
        if self.plain is not None:
            return self.plain
        if not self.writers:
            return Struct((CDC,)) if self.bookkeeping and not self.unsupported else None
        return first_columns([w.columns for w in self.writers])

    def covered(self, table: Struct) -> dict[int, Writer]:
        """The writers whose every value `table` holds exactly, by id."""
        found = {}
        for writer in self.writers:
            try:
                if not covers(table, writer.columns):
                    found[writer.id] = writer
            except SchemaUnsupported:
                continue
        return found

    def why_uncovered(self, table: Struct, schema_id: int) -> str:
        """The reason why `table` does not hold the schema, for a person."""
        if schema_id in self.unsupported:
            return self.unsupported[schema_id]
        writer = next(w for w in self.writers if w.id == schema_id)
        try:
            differences = covers(table, writer.columns)
        except SchemaUnsupported as error:
            return str(error)
        return "; ".join(f"{d.dotted}: {d.kind} (table {d.found}, schema {d.wanted})" for d in differences)


class NoRows(Exception):
    """A schema of records that are no rows."""


def subject_of(contract: Contract) -> str:
    """The registry subject of the values."""
    return contract.value.subject or f"{contract.topic}-value"


def read_schemas(lake: Lake, contract: Contract) -> TopicSchemas:
    """Every writer schema that the registry lists for the topic now.

    Raises:
        Outage: `registry_down`.
        Stopped: `misconfigured` when the subject holds schemas of several types, or of another than the contract says.
    """
    plain = _PLAIN.get(contract.value.format)
    if plain is not None:
        return TopicSchemas(plain=Struct((Field(WHOLE_VALUE, plain),)))
    if contract.value.format == "json":
        return _documents(contract)
    writers: dict[int, Writer] = {}
    unsupported: dict[int, str] = {}
    bookkeeping: set[int] = set()
    versions = lake.registry(contract.cluster).versions(subject_of(contract))
    found = format_of(contract, versions)
    for version in versions:
        try:
            writers[version.id] = _writer(version, contract)
        except SchemaUnsupported as error:
            unsupported[version.id] = f"version {version.version}: {error}"
        except NoRows:
            bookkeeping.add(version.id)
    return TopicSchemas(
        writers=tuple(writers.values()),
        unsupported=unsupported,
        format=found,
        bookkeeping=frozenset(bookkeeping),
    )


def _documents(contract: Contract) -> TopicSchemas:
    fields, envelope = contract.value.fields, contract.value.envelope
    if envelope == "none":
        documents = declared(fields) if fields else DOCUMENT
        return TopicSchemas(plain=json_columns(documents), documents=documents)
    documents = json_documents(fields, envelope, truncates=contract.upsert is not None)
    return TopicSchemas(plain=document_columns(documents), documents=documents)


def format_of(contract: Contract, versions: Sequence[RegisteredSchema]) -> Format:
    """What the values are encoded in: the type of the subject's schemas.

    Raises:
        Stopped: `misconfigured` when there are several types, or another than the contract says.
    """
    subject, wanted = subject_of(contract), contract.value.format
    kinds = {version.type: version.version for version in versions}
    if len(kinds) > 1:
        listed = ", ".join(f"{kind} (version {number})" for kind, number in sorted(kinds.items()))
        raise Stopped(
            "misconfigured",
            contract.table,
            f"subject {subject} holds schemas of several types: {listed}. One topic is decoded in one way: give each "
            "type a topic and a subject of its own.",
        )
    for kind, number in kinds.items():
        if kind not in FORMATS or wanted not in {"registry", FORMATS[kind]}:
            raise Stopped(
                "misconfigured",
                contract.table,
                f"subject {subject} holds {kind} (version {number}), and the contract says format: {wanted}."
                if kind in FORMATS
                else f"subject {subject} holds {kind} (version {number}): {', '.join(FORMATS)} are supported.",
            )
        return FORMATS[kind]
    return "avro"


def _writer(version: RegisteredSchema, contract: Contract) -> Writer:
    envelope = contract.value.envelope
    if envelope != "none" and version.type != "AVRO":
        raise SchemaUnsupported(
            "", f"envelope: {envelope} is read from Avro or JSON, not from {version.type}"
        )
    if version.type == "PROTOBUF":
        compiled = compile_proto(version.text, version.imports)
        nanos = "timestamp_nanos" in (contract.value.types or {})
        message = protobuf.read(compiled, contract.value.message, nanos=nanos)
        return Writer(version.id, version.version, message, protobuf_columns.columns(message))
    if version.type == "JSON":
        documents = json_schema.parse(version.text)
        check_validator(documents)
        return Writer(version.id, version.version, documents, json_columns(documents))
    schema = parse(version.text, version.references, connect=envelope != "none")
    if envelope != "none" and is_bookkeeping(schema.name):
        raise NoRows
    return Writer(version.id, version.version, schema, avro_columns(schema, envelope).struct)
