"""What Kafka Connect's converters say beside the type of a value: semantic names (docs/types.md, Debezium).

Belongs here: the names of Debezium's and Connect's own types, and the Avro leaf that each is. In Avro they are the
attributes `connect.name` and `connect.parameters` of a type; other Avro topics do not have them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tidemark.domain.columns.types import MAX_PRECISION
from tidemark.domain.formats.avro_nodes import Leaf, LeafKind, Logical, RecordField

_TIME, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
DECIMAL = f"{_CONNECT}Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
JSON = "io.debezium.data.Json"
_TIMES: Mapping[tuple[str, str], Logical] = {
    ("int", f"{_TIME}Date"): "date",
    ("int", f"{_TIME}Time"): "time-millis",
    ("long", f"{_TIME}MicroTime"): "time-micros",
    ("long", f"{_TIME}NanoTime"): "time-nanos",
    ("long", f"{_TIME}Timestamp"): "local-timestamp-millis",
    ("long", f"{_TIME}MicroTimestamp"): "local-timestamp-micros",
    ("long", f"{_TIME}NanoTimestamp"): "local-timestamp-nanos",
    ("string", f"{_TIME}ZonedTimestamp"): "zoned-timestamp",
    ("int", f"{_CONNECT}Date"): "date",
    ("int", f"{_CONNECT}Time"): "time-millis",
    ("long", f"{_CONNECT}Timestamp"): "timestamp-millis",
}


MAX_SCALE = 20_000
"""Digits after the point, or zeros before it, of numbers written out; PostgreSQL's numeric has 16,383 at most."""
ZONED_TIME = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,6}0*)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
"""ISO 8601 as Debezium writes ZonedTimestamp, no finer than microseconds; of the whole text."""


def is_zoned_time(text: str) -> bool:
    """Whether a ZonedTimestamp is a time that a timestamptz column can hold exactly."""
    if not re.fullmatch(ZONED_TIME, text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"(\.[0-9]{6})0+", r"\1", text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def semantic_leaf(kind: LeafKind, schema: Mapping[str, Any], *, documents: bool) -> Leaf | None:
    """The leaf that the attributes of an Avro type make of it, None when they say nothing that we know.

    With `documents` JSON text is more than text.
    """
    name = str(schema.get("connect.name", ""))
    if (logical := _TIMES.get((kind, name))) is not None:
        return Leaf(kind, logical)
    if documents and (kind, name) == ("string", JSON):
        return Leaf(kind, "document")
    if kind == "bytes" and name == DECIMAL:
        return _decimal(schema)
    return None


def _decimal(schema: Mapping[str, Any]) -> Leaf | None:
    """Digits as `connect.decimal.precision` says, 38 where it is silent; more than 38 become text.

    So do numbers of a negative scale, which no column has.
    """
    said = schema.get("connect.parameters")
    parameters = said if isinstance(said, Mapping) else {}
    scale, precision = number(parameters.get("scale")), number(parameters.get("connect.decimal.precision"))
    if scale is None or scale < -MAX_SCALE:
        return None
    if scale < 0:
        return Leaf("bytes", "decimal", MAX_PRECISION + 1, scale)
    return Leaf("bytes", "decimal", max(precision or MAX_PRECISION, scale, 1), scale)


def number(text: object) -> int | None:
    """A parameter, which Connect writes as text."""
    try:
        return int(str(text))
    except ValueError:
        return None


def is_variable_decimal(name: str, fields: Sequence[RecordField]) -> bool:
    """True for the record {scale, value} by which Debezium sends a number of unknown scale."""
    parts = {field.name: field.type for field in fields}
    return name == VARIABLE_DECIMAL and parts == {"scale": Leaf("int"), "value": Leaf("bytes")}
