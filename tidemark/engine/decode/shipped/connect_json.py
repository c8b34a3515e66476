"""JSON as Kafka Connect's JsonConverter writes it: documents that carry their schema.

Belongs here: reading {"schema": …, "payload": …}, and turning a value that its schema gives a meaning into the JSON
that a column of that type reads. Where the schema is silent, or the column is of another type, the value stays as it
came and ordinary rules decide.
"""

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tidemark.domain.formats.json_nodes import Entries, Items, Leaf, Node, Object
from tidemark.engine.decode.shipped.json_values import JsonFault, shown

_TIME, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_DAYS = frozenset({f"{_TIME}Date", f"{_CONNECT}Date"})
_MILLIS_OF_DAY = frozenset({f"{_TIME}Time", f"{_CONNECT}Time"})
_LOCAL = {f"{_TIME}Timestamp": 1_000, f"{_TIME}MicroTimestamp": 1}
"""Microseconds in one unit."""
_INSTANT = f"{_CONNECT}Timestamp"
_DECIMAL = f"{_CONNECT}Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_MAX_SCALE = 20_000
_MAX_BYTES = 1 << 16
"""Of a decimal's digits: more than any database keeps, and few enough to be spelled at once."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def opened(document: Any) -> tuple[Any, Any]:
    """The schema and the payload of a document; the schema is None when the document brings none."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        schema = document["schema"]
        if schema is None or (isinstance(schema, dict) and "type" in schema):
            return schema, document["payload"]
    return None, document


def field_schemas(schema: Any) -> dict[str, Any]:
    """The schemas of a struct's fields by name, of several of one name the first."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    found: dict[str, Any] = {}
    for each in fields if isinstance(fields, list) else ():
        if isinstance(each, dict) and isinstance(each.get("field"), str):
            found.setdefault(each["field"], each)
    return found


def meant(value: Any, schema: Any, node: Node) -> Any:
    """`value` as the JSON that `node` reads.

    Raises JsonFault for a value that its own schema does not allow.
    """
    if value is None or not isinstance(schema, dict):
        return value
    match node, value:
        case Leaf(kind), _:
            return _leaf(value, schema, kind)
        case Object(properties), dict():
            inner = field_schemas(schema)
            parts = {
                p.name: meant(value[p.name], inner.get(p.name), p.node) for p in properties if p.name in value
            }
            return {**value, **parts}
        case Items(item), list():
            return [meant(each, schema.get("items"), item) for each in value]
        case Entries(item), dict():
            return {key: meant(each, schema.get("values"), item) for key, each in value.items()}
    return value


def _leaf(value: Any, schema: dict[str, Any], kind: str) -> Any:  # noqa: PLR0911 - one return per meaning
    name = schema.get("name")
    if not isinstance(name, str):
        name = None
    if type(value) is int:
        if name in _DAYS and kind == "date":
            return _date(value)
        if name in _MILLIS_OF_DAY and kind == "long":
            return value * 1000
        if name in _LOCAL and kind == "timestamp":
            return _time(value * _LOCAL[name])
        if name == _INSTANT and kind == "timestamptz":
            return f"{_time(value * 1000)}Z"
    if name == _DECIMAL and kind in {"decimal", "string"} and isinstance(value, str):
        return _number(_bytes(value), _scale(schema), kind)
    if name == _VARIABLE and kind in {"decimal", "string"} and isinstance(value, dict):
        return _number(_bytes(value.get("value")), value.get("scale"), kind)
    if schema.get("type") == "bytes" and kind == "binary":
        return _bytes(value)
    return value


def _date(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        raise JsonFault(
            "value_out_of_range", f"{shown(days)} days are no date of the years 1 to 9999"
        ) from None


def _time(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat()
    except OverflowError:
        raise JsonFault(
            "value_out_of_range", f"{shown(micros)} µs are no time of the years 1 to 9999"
        ) from None


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise JsonFault("type_mismatch", "no base64 text where the schema says bytes")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise JsonFault("undecodable", f"no base64: {error}") from None


def _scale(schema: dict[str, Any]) -> int | None:
    parameters = schema.get("parameters")
    found = parameters.get("scale") if isinstance(parameters, dict) else None
    try:
        return int(found) if isinstance(found, str | int) else None
    except ValueError:
        return None


def _number(unscaled: bytes, scale: Any, kind: str) -> Decimal | str:
    if type(scale) is not int or not unscaled:
        raise JsonFault("undecodable", "a decimal without bytes or scale")
    if abs(scale) > _MAX_SCALE:
        raise JsonFault("value_out_of_range", f"a decimal of scale {shown(scale)}")
    if len(unscaled) > _MAX_BYTES:
        raise JsonFault("value_out_of_range", f"a decimal of {len(unscaled)} bytes")
    number = int.from_bytes(unscaled, "big", signed=True)
    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -scale)) if kind == "decimal" else _plain(number, scale)


def _plain(number: int, scale: int) -> str:
    """Digits with a point and without an exponent, as BigDecimal.toPlainString writes them."""
    sign, digits = "-" if number < 0 else "", str(Decimal(abs(number)))
    if scale <= 0:
        return sign + (digits + "0" * -scale if number else "0")
    padded = digits.rjust(scale + 1, "0")
    return f"{sign}{padded[:-scale]}.{padded[-scale:]}"
