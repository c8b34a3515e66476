"""Kafka records as rows of Spark's Kafka source, without a broker."""

import io
import json
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import fastavro
from pyspark.sql import DataFrame, SparkSession

from tidemark.domain.columns.types import Struct
from tidemark.domain.formats import avro, avro_columns
from tidemark.engine.decode.decoding import Decoding
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import FATE

SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)


def record(*fields: tuple[Any, ...], name: str = "Order") -> dict[str, Any]:
    """A record schema of (name, type) or (name, type, default)."""
    parts = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": parts}


def encoded(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(defined_once(schema, set())), value)
    return sink.getvalue()


def defined_once(schema: Any, seen: set[str]) -> Any:
    """A type written out again becomes a reference: fastavro refuses the second definition."""
    match schema:
        case {"name": str() as name, "type": "record" | "enum" | "fixed"} if name in seen:
            return name
        case {"name": str() as name, "type": "record" | "enum" | "fixed"}:
            seen.add(name)
            return {key: defined_once(part, seen) for key, part in schema.items()}
        case dict():
            return {key: defined_once(part, seen) for key, part in schema.items()}
        case list():
            return [defined_once(part, seen) for part in schema]
    return schema


def framed(schema_id: int, payload: bytes) -> bytes:
    """Confluent's wire format."""
    return struct.pack(">bI", 0, schema_id) + payload


def source(spark: SparkSession, values: Iterable[bytes | None]) -> DataFrame:
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    rows = [(b"k%d" % i, value, "orders", 0, i, at, 0, None) for i, value in enumerate(values)]
    return spark.createDataFrame(rows, SOURCE)


def schema_of(schema: Any) -> avro.AvroSchema:
    return avro.parse(json.dumps(schema))


def columns_of(schema: Any) -> Struct:
    return avro_columns.columns(schema_of(schema)).struct


def rows_of(spark: SparkSession, decoding: Decoding, values: Iterable[bytes | None]) -> list[dict[str, Any]]:
    """Decoded rows in the order of the records; timestamps with zone come as UTC."""
    table = decode(source(spark, values), decoding).orderBy("_kafka.offset").toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def landed(
    spark: SparkSession, schema: Any, values: Iterable[Any], table: Struct | None = None, schema_id: int = 7
) -> list[dict[str, Any]]:
    """The columns of records written with `schema`, all of which must be written."""
    decoding = Decoding("avro", table or columns_of(schema), 0, {schema_id: schema_of(schema)})
    rows = rows_of(spark, decoding, [framed(schema_id, encoded(schema, value)) for value in values])
    assert [row[FATE] for row in rows] == ["written"] * len(rows)
    return [{field.name: row[field.name] for field in decoding.columns.fields} for row in rows]


def exact(value: Any) -> Any:
    """The value with floats as their bits, so that NaN and -0.0 compare."""
    match value:
        case float():
            return struct.pack(">d", value)
        case dict():
            return {key: exact(item) for key, item in value.items()}
        case list() | tuple():
            return [exact(item) for item in value]
    return (type(value).__name__, value)
