"""The writer schemas of a topic, and the columns they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.domain import json_schema, protobuf_columns
from tidemark.domain.avro import parse
from tidemark.domain.avro_columns import WHOLE_VALUE, columns
from tidemark.domain.contract import Contract
from tidemark.domain.coverage import covers
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
_FORMATS: Mapping[str, Format] = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
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
    for JSON.
    """

    writers: tuple[Writer, ...] = ()
    unsupported: Mapping[int, str] = field(default_factory=dict)
    plain: Struct | None = None
    documents: JsonDocuments | None = None
    format: Format = "avro"

    @property
    def ids(self) -> frozenset[int]:
        """Every id that the registry lists for the subject."""
        return frozenset(w.id for w in self.writers) | frozenset(self.unsupported)

    def wanted(self) -> Struct | None:
        """The columns of a new table; None when nothing is registered yet."""
        if self.plain is not None:
            return self.plain
        return first_columns([w.columns for w in self.writers]) if self.writers else None

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
        documents = declared(contract.value.fields) if contract.value.fields else DOCUMENT
        return TopicSchemas(plain=json_columns(documents), documents=documents)
    writers: dict[int, Writer] = {}
    unsupported: dict[int, str] = {}
    versions = lake.registry(contract.cluster).versions(subject_of(contract))
    found = format_of(contract, versions)
    for version in versions:
        try:
            writers[version.id] = _writer(version, contract)
        except SchemaUnsupported as error:
            unsupported[version.id] = f"version {version.version}: {error}"
    return TopicSchemas(writers=tuple(writers.values()), unsupported=unsupported, format=found)


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
        if kind not in _FORMATS or wanted not in {"registry", _FORMATS[kind]}:
            raise Stopped(
                "misconfigured",
                contract.table,
                f"subject {subject} holds {kind} (version {number}), and the contract says format: {wanted}."
                if kind in _FORMATS
                else f"subject {subject} holds {kind} (version {number}): {', '.join(_FORMATS)} are supported.",
            )
        return _FORMATS[kind]
    return "avro"


def _writer(version: RegisteredSchema, contract: Contract) -> Writer:
    if version.type == "PROTOBUF":
        compiled = compile_proto(version.text, version.imports)
        nanos = "timestamp_nanos" in (contract.value.types or {})
        message = protobuf.read(compiled, contract.value.message, nanos=nanos)
        return Writer(version.id, version.version, message, protobuf_columns.columns(message))
    if version.type == "JSON":
        documents = json_schema.parse(version.text)
        check_validator(documents)
        return Writer(version.id, version.version, documents, json_columns(documents))
    schema = parse(version.text, version.references)
    return Writer(version.id, version.version, schema, columns(schema).struct)
