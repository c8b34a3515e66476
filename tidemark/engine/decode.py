"""Kafka records to table rows, each with its fate: one pass, exact or quarantined (TYPES.md).

Belongs here: which writer schema a record was written with, and what becomes of the record. The conversions
are in `decode_avro` and, for formats that Spark does not know, `decode_shipped`; the reasons for a record that
failed are found afterwards by `decode_failures`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from pyspark.sql.avro.functions import from_avro

from tidemark.domain.avro import AvroSchema
from tidemark.domain.avro_columns import WHOLE_VALUE
from tidemark.domain.avro_decoder import HEADER_SIZE, SENTINEL, decoder_schema
from tidemark.domain.avro_nodes import Node, Record, skeleton
from tidemark.domain.json_columns import JsonDocuments
from tidemark.domain.protobuf_columns import ProtobufMessage
from tidemark.domain.quality_results import Rules
from tidemark.domain.spark_types import spark_ddl
from tidemark.domain.types import KAFKA_COLUMN, Field, Struct
from tidemark.engine.decode_avro import AVRO_OPTIONS, record_field, shaped
from tidemark.engine.decode_checks import fits, sound
from tidemark.engine.decode_shipped import decoded as shipped_decoder
from tidemark.engine.quality_rows import judged

KAFKA = KAFKA_COLUMN.name
VALUE = "_tidemark_value"
FATE = "_tidemark_fate"
CAUSE = "_tidemark_cause"
NO_ID = 0
"""The key of the one writer of a format that has no registry; no registry gives it."""
_ID = "_tidemark_id"
_DECODED = "_tidemark_decoded"
_ID_SIZE = 4
_SIGN = 1 << 31

Fate = Literal["written", "quarantined", "tombstone", "skipped", "uncovered"]
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
    framing   `confluent`: a zero byte and the schema id before the value; `bare`: the value alone
    rules     of the contract's `quality`, for each row that would be written
    """

    format: Format
    columns: Struct
    epoch: int
    writers: Mapping[int, WriterSchema] = field(default_factory=dict)
    reader: AvroSchema | None = None
    uncovered: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()
    framing: Framing = "confluent"
    rules: Rules | None = None


def decode(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Rows of the table for every Kafka record, and what became of each.

    `raw` has the columns of Spark's Kafka source with includeHeaders: key, value, topic, partition, offset,
    timestamp, timestampType, headers. The result has `decoding.columns` in their order and types, then
    `_kafka`, and three working columns: VALUE (the value's bytes), FATE (never NULL) and CAUSE (CONTRACT.md;
    NULL unless quarantined). Value columns are meaningful where FATE is `written`; a tombstone has NULLs.

    A record is decoded once however often the result's columns are used, as long as each action runs once.
    """
    if decoding.format == "avro":
        return _decode_avro(raw, decoding)
    if decoding.format in {"string", "raw"}:
        return _decode_whole(raw, decoding)
    return _decode_shipped(raw, decoding)


def kafka_columns(epoch: int, schema_id: Column) -> Column:
    """The `_kafka` struct of CONTRACT.md from the Kafka source's columns."""
    parts = {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "timestamp": F.col("timestamp"),
        "timestamp_type": F.col("timestampType"),
        "key": F.col("key"),
        "headers": F.col("headers"),
        "schema_id": schema_id,
        "tombstone": F.col("value").isNull(),
        "epoch": F.lit(epoch).cast("int"),
    }
    return F.struct(*(column.alias(name) for name, column in parts.items())).alias(KAFKA)


def _decode_whole(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Formats `string` and `raw`: the value as it is, in the column `value`."""
    value, cause = F.col("value"), _null("string")
    if decoding.format == "string":
        value = value.cast("string")
        cause = F.when(~F.is_valid_utf8(value), "undecodable")
    columns = {
        field.name: value if field.name == WHOLE_VALUE else _null(spark_ddl(field.type))
        for field in decoding.columns.fields
    }
    return _with_fate(raw, decoding, columns, cause, _null("int"))


def _decode_shipped(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Formats that are decoded in Python on the executors."""
    writers = {i: schema for i, schema in decoding.writers.items() if not isinstance(schema, AvroSchema)}
    identified = raw.withColumn(_ID, _schema_id(decoding))
    wrote = F.col(_ID).isin(*writers)
    value = F.when(wrote, F.col("value"))
    header = 0 if decoding.framing == "bare" else HEADER_SIZE
    rows = identified.select(
        "*", shipped_decoder(value, F.col(_ID), writers, decoding.columns, header).alias(_DECODED)
    )
    columns = {each.name: F.col(_DECODED)["row"][each.name] for each in decoding.columns.fields}
    cause = _cause([(wrote, F.col(_DECODED)["cause"])], decoding)
    schema_id = _null("int") if decoding.format == "json" else F.col(_ID)
    return _with_fate(rows, decoding, columns, cause, schema_id)


@dataclass(frozen=True, slots=True)
class _Group:
    """Writer schemas that differ in names of types, docs and defaults only: one decoder serves them."""

    ids: tuple[int, ...]
    root: Node
    column: str

    @property
    def wrote(self) -> Column:
        """True for a record of one of these writers."""
        return F.col(_ID).isin(*self.ids)

    @property
    def value(self) -> Column:
        return F.col(self.column)["value"]


def _groups(writers: Mapping[int, AvroSchema]) -> tuple[_Group, ...]:
    by_skeleton: dict[Node, list[int]] = {}
    for schema_id, schema in sorted(writers.items()):
        by_skeleton.setdefault(skeleton(schema.root), []).append(schema_id)
    return tuple(
        _Group(tuple(ids), root, f"_tidemark_decoded_{position}")
        for position, (root, ids) in enumerate(by_skeleton.items())
    )


def _decode_avro(raw: DataFrame, decoding: Decoding) -> DataFrame:
    groups = _groups({i: schema for i, schema in decoding.writers.items() if isinstance(schema, AvroSchema)})
    identified = raw.withColumn(_ID, _schema_id(decoding))
    decoded = identified.select("*", *(_decoded(group, decoding.framing) for group in groups))
    reader = decoding.reader.root if decoding.reader else None
    faults = [(group.wrote, _fault(group)) for group in groups]
    columns = {
        field.name: F.coalesce(
            *(_column(group, field, reader) for group in groups), _null(spark_ddl(field.type))
        )
        for field in decoding.columns.fields
    }
    return _with_fate(decoded, decoding, columns, _cause(faults, decoding), F.col(_ID))


def _schema_id(decoding: Decoding) -> Column:
    """The writer's registry id, NULL where the value carries none; known ids are compared as bytes."""
    value = F.col("value")
    if decoding.framing == "bare":
        return F.when(value.isNotNull(), F.lit(next(iter(decoding.writers))))
    known = {*decoding.writers, *decoding.uncovered, *decoding.skipped}
    prefixes = {schema_id: F.lit(b"\0" + schema_id.to_bytes(_ID_SIZE, "big")) for schema_id in sorted(known)}
    found = reduce(
        lambda cases, item: cases.when(F.startswith(value, item[1]), F.lit(item[0])),
        prefixes.items(),
        F.when(value.isNull() | ~F.startswith(value, F.lit(b"\0")) | (F.length(value) < HEADER_SIZE), None),
    )
    number = F.conv(F.hex(F.substring(value, 2, _ID_SIZE)), 16, 10).cast("bigint")
    signed = F.when(number >= _SIGN, number - 2 * _SIGN).otherwise(number)
    return found.otherwise(signed).cast("int")


def _decoded(group: _Group, framing: Framing) -> Column:
    """`from_avro` for the group's records, NULL for others.

    The condition on the partition is always true, and Spark does not know it: an expression that may answer
    differently is neither pushed below a filter nor merged into its user, either of which would decode twice.
    """
    payload = F.concat(F.col("value"), F.lit(SENTINEL))
    once = F.when(group.wrote & (F.spark_partition_id() >= 0), payload)
    header = HEADER_SIZE if framing == "confluent" else 0
    return from_avro(once, decoder_schema(group.root, header), AVRO_OPTIONS).alias(group.column)


def _column(group: _Group, field: Field, reader: Node | None) -> Column:
    if isinstance(group.root, Record):
        return record_field(group.value, group.root, field, reader)
    return (
        shaped(group.value, group.root, field.type)
        if field.name == WHOLE_VALUE
        else _null(spark_ddl(field.type))
    )


def _cause(faults: Sequence[tuple[Column, Column]], decoding: Decoding) -> Column:
    """`faults`: which records, and the cause of each that is out."""
    cause = F.when(F.col("value").isNull(), None).when(F.col(_ID).isNull(), "no_magic_byte")
    for wrote, fault in faults:
        cause = cause.when(wrote, fault)
    elsewhere = sorted(decoding.uncovered | decoding.skipped)
    return cause.when(F.col(_ID).isin(*elsewhere), None).otherwise("unknown_schema_id")


def _fault(group: _Group) -> Column:
    ended = F.col(group.column)["sentinel"].eqNullSafe(F.lit(SENTINEL))
    fault = F.when(~ended, "undecodable")
    if (is_sound := sound(group.value, group.root)) is not None:
        fault = fault.when(~is_sound, "undecodable")
    if (in_range := fits(group.value, group.root)) is not None:
        fault = fault.when(~in_range, "value_out_of_range")
    return fault


def _with_fate(
    rows: DataFrame, decoding: Decoding, columns: Mapping[str, Column], cause: Column, schema_id: Column
) -> DataFrame:
    shaped_rows = rows.select(
        *(column.alias(name) for name, column in columns.items()),
        kafka_columns(decoding.epoch, schema_id),
        F.col("value").alias(VALUE),
        cause.alias(CAUSE),
    )
    rows = shaped_rows.withColumn(FATE, _fate(decoding))
    return judged(rows, decoding.rules, FATE, CAUSE) if decoding.rules else rows


def _fate(decoding: Decoding) -> Column:
    schema_id = F.col(KAFKA)["schema_id"]
    return (
        F.when(F.col(VALUE).isNull(), "tombstone")
        .when(schema_id.isin(*sorted(decoding.skipped)), "skipped")
        .when(schema_id.isin(*sorted(decoding.uncovered)), "uncovered")
        .when(F.col(CAUSE).isNotNull(), "quarantined")
        .otherwise("written")
    )


def _null(ddl: str) -> Column:
    return F.lit(None).cast(ddl)
