"""The columns of a workload in the words of Iceberg, Spark and Flink, all from its Avro types."""

import json
from itertools import count
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from bench.sidebyside.workload import Workload
from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.engine.access.iceberg_types import iceberg_fields

SIMPLE: dict[str, tuple[IcebergType, str, str]] = {
    "long": (LongType(), "BIGINT", "BIGINT"),
    "int": (IntegerType(), "INT", "INT"),
    "double": (DoubleType(), "DOUBLE", "DOUBLE"),
    "boolean": (BooleanType(), "BOOLEAN", "BOOLEAN"),
    "string": (StringType(), "STRING", "STRING"),
}
"""Iceberg, Spark, Flink."""


class Columns:
    """The columns of one workload; with `kafka`, the struct that Tidemark adds to them, `_kafka`, too."""

    def __init__(self, workload: Workload, *, kafka: bool = False) -> None:
        self._workload = workload
        self._kafka = kafka
        self._records: dict[str, Any] = {}
        self._ids = 0

    def iceberg(self) -> tuple[Schema, PartitionSpec]:
        """The table that every peer writes to: by day, or by key without partitions."""
        fields = [self._field(name, kind) for name, kind in self._workload.fields.items()]
        if self._workload.kind == "upsert":
            key = fields[0].model_copy(update={"required": True})
            return Schema(key, *fields[1:], identifier_field_ids=[key.field_id]), PartitionSpec()
        if self._kafka:
            fields += iceberg_fields([KAFKA_COLUMN], count(self._next()))
        schema = Schema(*fields)
        source = schema.find_field("ordered_at").field_id
        part = PartitionField(source, 1000, DayTransform(), "ordered_at_day")
        return schema, PartitionSpec(part)

    def spark(self) -> str:
        """As Spark DDL, for from_json."""
        return ", ".join(f"{n} {self._words(k, 1, '{}: {}')}" for n, k in self._workload.fields.items())

    def flink(self) -> str:
        """As Flink DDL of the source: the time is without a zone for its Avro format alone, a message for Protobuf."""
        words = {n: self._words(k, 2, "`{}` {}") for n, k in self._workload.fields.items()}
        if self._workload.value_format == "protobuf":
            words["ordered_at"] = "ROW<`seconds` BIGINT, `nanos` INT>"
        elif self._workload.value_format == "json":
            words["ordered_at"] = "TIMESTAMP_LTZ(3)"
        return ", ".join(f"`{name}` {kind}" for name, kind in words.items())

    def _field(self, name: str, kind: Any) -> NestedField:
        return NestedField(self._next(), name, self._iceberg(kind), required=False)

    def _iceberg(self, kind: Any) -> IcebergType:
        match kind := self._resolved(kind):
            case str():
                return SIMPLE[kind][0]
            case {"logicalType": "timestamp-millis"}:
                return TimestamptzType()
            case {"type": "array", "items": items}:
                return ListType(self._next(), self._iceberg(items), element_required=False)
            case {"fields": fields}:
                return StructType(*(self._field(f["name"], f["type"]) for f in fields))
        raise TypeError(json.dumps(kind))

    def _words(self, kind: Any, place: int, pair: str) -> str:
        match kind := self._resolved(kind):
            case str():
                return str(SIMPLE[kind][place])
            case {"logicalType": "timestamp-millis"}:
                return ("TIMESTAMP", "TIMESTAMP(3)")[place - 1]
            case {"type": "array", "items": items}:
                return f"ARRAY<{self._words(items, place, pair)}>"
            case {"fields": fields}:
                inner = ", ".join(pair.format(f["name"], self._words(f["type"], place, pair)) for f in fields)
                return f"{('STRUCT', 'ROW')[place - 1]}<{inner}>"
        raise TypeError(json.dumps(kind))

    def _resolved(self, kind: Any) -> Any:
        if isinstance(kind, dict) and kind.get("name"):
            self._records[kind["name"]] = kind
        return self._records.get(kind, kind) if isinstance(kind, str) else kind

    def _next(self) -> int:
        self._ids += 1
        return self._ids
