"""What a decoder is told: how the payloads of a topic become columns of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidemark.domain.columns.types import Struct
from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.formats.debezium import Envelope
from tidemark.domain.formats.json_columns import JsonDocuments
from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.domain.formats.routes import Route
from tidemark.domain.ledger.quality_results import Rules

NO_ID = 0
"""The key of the one writer of a format that has no registry; no registry gives it."""
Format = Literal["avro", "protobuf", "json_schema", "json", "string", "raw"]
Framing = Literal["confluent", "bare"]
WriterSchema = AvroSchema | JsonDocuments | ProtobufMessage


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the values of a topic become rows of a table.

    columns   the table's columns without `_kafka`; they must cover every writer (`coverage.covers`)
    epoch     of the topic, see the ledger
    writers   schemas by registry id that may be decoded into these columns; framing `bare` takes exactly one
    reader    the newest schema of the subject: its defaults stand in for fields that a writer lacks
    uncovered ids that the registry lists for the subject but the table does not cover yet
    skipped   ids of record types that are routed to another table, or to none
    unrouted  those of them that no table is for
    indexes   Protobuf: message indexes, as bytes of the value, of record types that are skipped, by schema id
    framing   `confluent`: a zero byte and the schema id before the value; `bare`: the value alone
    rules     of the contract's `quality`, for each row that would be written
    payload   the column of the Kafka record that is decoded
    envelope  what Debezium has put around the row
    upserts   a tombstone, and the truncation of a table, is a row: the table feeds one with the current state
    key       how the Kafka key fills columns of tombstones and deletes
    required  columns by path that a row must have, or it is out as `null_key`
    unfit     ids of keys that are not of the columns' types
    """

    format: Format
    columns: Struct
    epoch: int
    writers: Mapping[int, WriterSchema] = field(default_factory=dict)
    reader: AvroSchema | None = None
    uncovered: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()
    unrouted: frozenset[int] = frozenset()
    indexes: Mapping[int, Mapping[bytes, Route]] = field(default_factory=dict)
    framing: Framing = "confluent"
    payload: str = "value"
    envelope: Envelope = "none"
    upserts: bool = False
    key: "KeyDecoding | None" = None
    required: tuple[tuple[str, ...], ...] = ()
    unfit: frozenset[int] = frozenset()
    rules: Rules | None = None

    @property
    def id_column(self) -> str:
        """The working column that holds the writer's id."""
        return f"_tidemark_id_{self.payload}"


@dataclass(frozen=True, slots=True)
class KeyDecoding:
    """How a Kafka key becomes columns: `columns` names, by column of the table, what of `decoding` it is filled from.

    Without `certain` a key need not have all of them.
    """

    decoding: Decoding
    columns: Mapping[str, str]
    certain: bool = True
