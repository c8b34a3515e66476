"""The published matrix: what each written type becomes. Tests run every row, docs/matrix.md prints them."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import debezium

NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


@dataclass(frozen=True)
class TypeRow:
    """A value of a written type, and the column and value it becomes."""

    written: str
    schema: Any
    value: Any
    column: str
    lands: Any
    note: str = ""


NO_COLUMN = "no column"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


FIXED = {"type": "fixed", "name": "F", "size": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
NAIVE = NOON.replace(tzinfo=None)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - no zone
MICROS = int(NOON.timestamp() * 1_000_000)
AVRO = [
    TypeRow("boolean", "boolean", True, "boolean", True),
    TypeRow(
        "int",
        "int",
        -(2**31),
        "int",
        -(2**31),
        "more than 32 bits, which some encoders write, are quarantined",
    ),
    TypeRow("long", "long", 2**63 - 1, "long", 2**63 - 1),
    TypeRow("float", "float", 0.5, "float", 0.5, "NaN, infinities and -0.0 are kept"),
    TypeRow("double", "double", -0.0, "double", -0.0, "NaN, infinities and -0.0 are kept"),
    TypeRow("string", "string", "grüß", "string", "grüß"),
    TypeRow("bytes", "bytes", b"\x00\xff", "binary", b"\x00\xff"),
    TypeRow("fixed", FIXED, b"ab", "binary", b"ab"),
    TypeRow("enum", ENUM, "B", "string", "B", "a new symbol is no schema change"),
    TypeRow(
        "array",
        {"type": "array", "items": ["null", "int"]},
        [1, None],
        "list<int>",
        [1, None],
        "`[]` is not NULL",
    ),
    TypeRow(
        "map",
        {"type": "map", "values": "int"},
        {"a": 1},
        "map<string, int>",
        [("a", 1)],
        "a key twice is quarantined",
    ),
    TypeRow(
        "array of {key, value} with logicalType map",
        {
            "type": "array",
            "logicalType": "map",
            "items": {
                "type": "record",
                "name": "Pair",
                "fields": [{"name": "key", "type": "long"}, {"name": "value", "type": ["null", "string"]}],
            },
        },
        [{"key": 2**40, "value": None}],
        "map<long, string>",
        [(2**40, None)],
        "a key twice, NULL or -0.0 is quarantined; a map inside the key is refused at plan time",
    ),
    TypeRow("record", POINT, {"x": 1}, "struct<x: int>", {"x": 1}),
    TypeRow("record without fields", {"type": "record", "name": "Z", "fields": []}, {}, "boolean", True),
    TypeRow("union of null and T", ["null", "string"], None, "string", None),
    TypeRow(
        "union of several",
        ["string", "boolean"],
        True,
        "struct<string: string, boolean: boolean>",
        {"string": None, "boolean": True},
    ),
    TypeRow(
        "union of records",
        ["null", {**POINT, "name": "A"}, {**POINT, "name": "B", "namespace": "other"}],
        ("other.B", {"x": 2}),
        "struct<A: struct<x: int>, B: struct<x: int>>",
        {"A": None, "B": {"x": 2}},
        "fields named by the records",
    ),
    TypeRow("union of int and long", ["int", "long"], 2**40, "long", 2**40),
    TypeRow(
        "decimal(p,s)",
        logical("bytes", "decimal", precision=9, scale=2),
        Decimal("1.50"),
        "decimal(9,2)",
        Decimal("1.50"),
        "a value too wide is quarantined",
    ),
    TypeRow(
        "decimal on fixed",
        {**logical("fixed", "decimal", precision=38, scale=10), "name": "D16", "size": 16},
        Decimal("-9999999999999999999999999999.9999999999"),
        "decimal(38,10)",
        Decimal("-9999999999999999999999999999.9999999999"),
    ),
    TypeRow(
        "decimal of more than 38 digits",
        logical("bytes", "decimal", precision=40, scale=2),
        Decimal("12345678901234567890123456789012345678.90"),
        "string",
        "12345678901234567890123456789012345678.90",
        "the digits as text",
    ),
    TypeRow(
        "uuid",
        logical("string", "uuid"),
        "6f1ed002-ab5f-4c8e-9a8e-0a6a5f0e9b11",
        "string",
        "6f1ed002-ab5f-4c8e-9a8e-0a6a5f0e9b11",
    ),
    TypeRow(
        "uuid on fixed",
        {**logical("fixed", "uuid"), "name": "U16", "size": 16},
        bytes.fromhex("6f1ed002ab5f4c8e9a8e0a6a5f0e9b11"),
        "string",
        "6f1ed002-ab5f-4c8e-9a8e-0a6a5f0e9b11",
    ),
    TypeRow("date", logical("int", "date"), date(1969, 12, 31), "date", date(1969, 12, 31)),
    TypeRow("time-millis", logical("int", "time-millis"), 1, "long", 1000, "microseconds since midnight"),
    TypeRow("time-micros", logical("long", "time-micros"), 5, "long", 5, "microseconds since midnight"),
    TypeRow(
        "timestamp-millis",
        logical("long", "timestamp-millis"),
        1000,
        "timestamptz",
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    ),
    TypeRow("timestamp-micros", logical("long", "timestamp-micros"), MICROS, "timestamptz", NOON),
    TypeRow(
        "local-timestamp-millis",
        logical("long", "local-timestamp-millis"),
        -1,
        "timestamp",
        EPOCH - timedelta(milliseconds=1),
        "the same digits in every time zone",
    ),
    TypeRow(
        "local-timestamp-micros",
        logical("long", "local-timestamp-micros"),
        MICROS,
        "timestamp",
        NAIVE,
        "the same digits in every time zone",
    ),
    TypeRow(
        "timestamp-nanos",
        logical("long", "timestamp-nanos"),
        1_000_000_001,
        "long",
        1_000_000_001,
        "nanoseconds, never cut",
    ),
    TypeRow(
        "local-timestamp-nanos",
        logical("long", "local-timestamp-nanos"),
        -1,
        "long",
        -1,
        "nanoseconds, never cut",
    ),
    TypeRow(
        "duration",
        {**logical("fixed", "duration"), "name": "U12", "size": 12},
        b"\1\0\0\0\2\0\0\0\xff\xff\xff\xff",
        "struct<months: long, days: long, millis: long>",
        {"months": 1, "days": 2, "millis": 2**32 - 1},
        "three unsigned numbers",
    ),
    TypeRow("null only", "null", None, NO_COLUMN, None, "named in the plan"),
    TypeRow(
        "field missing in the writer, default null", None, None, "long", None, "its Avro default, else NULL"
    ),
]

JSON_FIELDS = [
    TypeRow("boolean", "boolean", "true", "boolean", True, '`"true"` is quarantined'),
    TypeRow("int", "int", "7", "int", 7, "2^31 is quarantined"),
    TypeRow("bigint", "bigint", "1e2", "long", 100, '`1.5`, `"12"` and 2^70 are quarantined'),
    TypeRow(
        "double",
        "double",
        "0.1",
        "double",
        0.1,
        "the nearest double; what would become 0 or infinite is quarantined",
    ),
    TypeRow("decimal(5,2)", "decimal(5,2)", "1.20", "decimal(5,2)", Decimal("1.20"), "1.239 is quarantined"),
    TypeRow("string", "string", '"a"', "string", "a", "12 is quarantined"),
    TypeRow("date", "date", '"2026-01-31"', "date", date(2026, 1, 31)),
    TypeRow(
        "timestamp",
        "timestamp",
        '"2026-01-31T12:00:00.123456Z"',
        "timestamptz",
        NOON,
        "no zone is quarantined",
    ),
    TypeRow(
        "timestamp_ntz",
        "timestamp_ntz",
        '"2026-01-31T12:00:00.123456"',
        "timestamp",
        NAIVE,
        "a zone is quarantined",
    ),
    TypeRow(
        "struct<…>",
        "struct<a: int>",
        '{"a": 1, "b": [1.10]}',
        "struct<a: int, _extra: string>",
        {"a": 1, "_extra": '{"b":[1.10]}'},
        "what is not declared is kept in `_extra`",
    ),
    TypeRow("array<T>", "array<bigint>", "[1, null]", "list<long>", [1, None]),
    TypeRow("map<string,T>", "map<string,bigint>", '{"a": 1}', "map<string, long>", [("a", 1)]),
]

JSON_SCHEMA = [
    TypeRow("string", {"type": "string"}, '"a"', "string", "a"),
    TypeRow("integer", {"type": "integer"}, "7", "long", 7),
    TypeRow(
        "integer beyond 64 bits",
        {"type": "integer", "maximum": 2**70},
        str(2**69),
        "decimal(38,0)",
        Decimal(2**69),
    ),
    TypeRow("number", {"type": "number"}, "0.1", "double", 0.1),
    TypeRow("boolean", {"type": "boolean"}, "true", "boolean", True),
    TypeRow(
        "date-time",
        {"type": "string", "format": "date-time"},
        '"2026-01-31T12:00:00.123456Z"',
        "timestamptz",
        NOON,
    ),
    TypeRow("date", {"type": "string", "format": "date"}, '"2026-01-31"', "date", date(2026, 1, 31)),
    TypeRow("array", {"type": "array", "items": {"type": "integer"}}, "[1]", "list<long>", [1]),
    TypeRow(
        "object, closed",
        {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False},
        '{"x": 1}',
        "struct<x: long>",
        {"x": 1},
    ),
    TypeRow(
        "map",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        '{"a": 1}',
        "map<string, long>",
        [("a", 1)],
    ),
    TypeRow("uuid", {"type": "string", "format": "uuid"}, '"a"', "string", "a"),
    TypeRow(
        "object, open",
        {"type": "object", "properties": {"x": {"type": "integer"}}},
        '{"x": 1, "y": 1.0}',
        "struct<x: long, _extra: string>",
        {"x": 1, "_extra": '{"y":1.0}'},
        "what is not declared is kept in `_extra`",
    ),
    TypeRow("$ref in the document", {"$ref": "#/definitions/day"}, '"2026-01-31"', "date", date(2026, 1, 31)),
    TypeRow("const, enum", {"enum": ["a", "b", None]}, '"b"', "string", "b"),
    TypeRow(
        "oneOf with several types",
        {"oneOf": [{"type": "string"}, {"type": "object"}]},
        '{"a": 1.10}',
        "string",
        '{"a":1.10}',
        "the JSON text; VARIANT on format 3",
    ),
    TypeRow("nullable", {"oneOf": [{"type": "null"}, {"type": "string"}]}, "null", "string", None),
    TypeRow(
        "no single type",
        {"type": ["string", "integer"]},
        "1",
        "string",
        "1",
        "the JSON text; VARIANT on format 3",
    ),
]

PROTOBUF = [
    TypeRow("bool", "bool v = 1;", True, "boolean", True),
    TypeRow("int32", "int32 v = 1;", -1, "int", -1),
    TypeRow("int64", "int64 v = 1;", 2**63 - 1, "long", 2**63 - 1),
    TypeRow("uint32", "uint32 v = 1;", 2**32 - 1, "long", 2**32 - 1),
    TypeRow("uint64", "uint64 v = 1;", 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    TypeRow("sint32", "sint32 v = 1;", -(2**31), "int", -(2**31)),
    TypeRow("sint64", "sint64 v = 1;", -(2**63), "long", -(2**63)),
    TypeRow("sfixed32", "sfixed32 v = 1;", -(2**31), "int", -(2**31)),
    TypeRow("sfixed64", "sfixed64 v = 1;", -(2**63), "long", -(2**63)),
    TypeRow("fixed32", "fixed32 v = 1;", 2**32 - 1, "long", 2**32 - 1),
    TypeRow("fixed64", "fixed64 v = 1;", 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    TypeRow("float", "float v = 1;", 0.5, "float", 0.5),
    TypeRow("double", "double v = 1;", 0.1, "double", 0.1),
    TypeRow("string", "string v = 1;", "ü", "string", "ü"),
    TypeRow("bytes", "bytes v = 1;", b"\xff", "binary", b"\xff"),
    TypeRow(
        "enum",
        "C v = 1; enum C { RED = 0; BLUE = 5; }",
        5,
        "string",
        "BLUE",
        "an unknown number as its digits",
    ),
    TypeRow("enum, unknown number", "C v = 1; enum C { RED = 0; }", 7, "string", "7"),
    TypeRow("proto3 scalar, unset", "int32 v = 1;", None, "int", 0, "its default"),
    TypeRow("optional, unset", "optional int32 v = 1;", None, "int", None),
    TypeRow("repeated", "repeated int32 v = 1;", [1, 2], "list<int>", [1, 2]),
    TypeRow("map<K,V>", "map<int32, string> v = 1;", {1: "a"}, "map<int, string>", [(1, "a")]),
    TypeRow(
        "map of messages",
        "map<string, P> v = 1; message P { int32 x = 1; }",
        {"k": {"x": 2}},
        "map<string, struct<x: int>>",
        [("k", {"x": 2})],
    ),
    TypeRow("message", "P v = 1; message P { int32 x = 1; }", {"x": 2}, "struct<x: int>", {"x": 2}),
    TypeRow(
        "message, unset",
        "P v = 1; message P { int32 x = 1; }",
        None,
        "struct<x: int>",
        None,
        "NULL, no defaults",
    ),
    TypeRow(
        "oneof", "oneof c { int32 v = 1; string w = 2; }", 0, "int", 0, "a column per branch; the others NULL"
    ),
    TypeRow("oneof, another branch", "oneof c { int32 v = 1; string w = 2; }", None, "int", None),
    TypeRow(
        "Timestamp",
        "google.protobuf.Timestamp v = 1;",
        {"seconds": -1, "nanos": 123_456_789},
        "timestamptz",
        datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=UTC),
        "at microseconds; `types: {timestamp_nanos: long}` keeps all nine digits",
    ),
    TypeRow(
        "Duration",
        "google.protobuf.Duration v = 1;",
        {"seconds": -5, "nanos": -1},
        "struct<seconds: long, nanos: int>",
        {"seconds": -5, "nanos": -1},
    ),
    TypeRow("Int64Value and its like", "google.protobuf.Int64Value v = 1;", {"value": 0}, "long", 0),
    TypeRow("Int64Value, unset", "google.protobuf.Int64Value v = 1;", None, "long", None),
    TypeRow(
        "Struct",
        "google.protobuf.Struct v = 1;",
        {"a": [1, None, "x"]},
        "string",
        '{"a":[1.0,null,"x"]}',
        "canonical JSON; VARIANT on format 3",
    ),
    TypeRow(
        "Value",
        "google.protobuf.Value v = 1;",
        {"string_value": "é"},
        "string",
        '"é"',
        "canonical JSON; VARIANT on format 3",
    ),
    TypeRow(
        "ListValue",
        "google.protobuf.ListValue v = 1;",
        {"values": [{"bool_value": True}, {"null_value": 0}]},
        "string",
        "[true,null]",
        "canonical JSON; VARIANT on format 3",
    ),
    TypeRow(
        "Any",
        "google.protobuf.Any v = 1;",
        {"type_url": "x/elsewhere.Type", "value": b"\1"},
        "string",
        '{"@type":"x/elsewhere.Type","value":"AQ=="}',
        "canonical JSON, of a type that the schema does not have its bytes; VARIANT on format 3",
    ),
]

DEBEZIUM = [
    TypeRow("Date", ("int", "time.Date"), -1, "date", date(1969, 12, 31)),
    TypeRow("Time", ("int", "time.Time"), 1, "long", 1000, "microseconds since midnight"),
    TypeRow("MicroTime", ("long", "time.MicroTime"), 1, "long", 1, "microseconds since midnight"),
    TypeRow("NanoTime", ("long", "time.NanoTime"), 1, "long", 1, "nanoseconds since midnight"),
    TypeRow("Timestamp", ("long", "time.Timestamp"), -1, "timestamp", EPOCH - timedelta(milliseconds=1)),
    TypeRow("MicroTimestamp", ("long", "time.MicroTimestamp"), MICROS, "timestamp", NAIVE),
    TypeRow("NanoTimestamp", ("long", "time.NanoTimestamp"), -1, "long", -1, "nanoseconds, never cut"),
    TypeRow(
        "ZonedTimestamp",
        ("string", "time.ZonedTimestamp"),
        "2026-01-31T17:30:00.123456+05:30",
        "timestamptz",
        NOON,
    ),
    TypeRow(
        "Decimal",
        debezium.decimal(2, 9),
        Decimal("-1.50"),
        "decimal(9,2)",
        Decimal("-1.50"),
        "of `connect.decimal.precision` digits",
    ),
    TypeRow("Decimal, no precision", debezium.decimal(2), Decimal("1.50"), "decimal(38,2)", Decimal("1.50")),
    TypeRow(
        "Decimal of more than 38 digits",
        debezium.decimal(2, 40),
        Decimal("1.50"),
        "string",
        "1.50",
        "the digits as text",
    ),
    TypeRow(
        "Decimal of negative scale",
        debezium.decimal(-2, 30),
        debezium.unscaled(-15),
        "string",
        "-1500",
        "the digits as text",
    ),
    TypeRow(
        "VariableScaleDecimal",
        debezium.VARIABLE,
        {"scale": 3, "value": debezium.unscaled(-1500)},
        "string",
        "-1.500",
        "plain digits",
    ),
    TypeRow(
        "Geometry",
        debezium.GEOMETRY,
        {"wkb": b"\1\2", "srid": 4326},
        "struct<wkb: binary, srid: int>",
        {"wkb": b"\1\2", "srid": 4326},
    ),
    TypeRow("Enum", ("string", "data.Enum"), "small", "string", "small"),
    TypeRow("Xml", ("string", "data.Xml"), "<a/>", "string", "<a/>"),
    TypeRow("Uuid", ("string", "data.Uuid"), "a-b", "string", "a-b"),
    TypeRow("Bits", ("bytes", "data.Bits"), b"\1\x0f", "binary", b"\1\x0f"),
    TypeRow("Json", ("string", "data.Json"), '{"a": 1.10}', "string", '{"a": 1.10}', "VARIANT on format 3"),
]


def json_schema_of(properties: dict[str, Any]) -> dict[str, Any]:
    """A schema of draft 7 with these properties."""
    return {
        "$schema": DRAFT_7,
        "type": "object",
        "properties": properties,
        "definitions": {"day": {"type": "string", "format": "date"}},
    }


def proto_of(field: str) -> str:
    """A message M of one field."""
    known = "".join(
        f'import "google/protobuf/{name}.proto"; '
        for name in ("timestamp", "duration", "wrappers", "struct", "any")
    )
    return f'syntax = "proto3"; {known} message M {{ {field} }}'


def debezium_type(row: TypeRow) -> dict[str, Any]:
    """The type as Confluent's converter writes it."""
    if isinstance(row.schema, dict):
        return row.schema
    kind, name = row.schema
    return {"type": kind, "connect.version": 1, "connect.name": f"io.debezium.{name}"}


@dataclass(frozen=True)
class WholeRow:
    """What the values of a topic are as a whole; `columns` of the table, or why there is none (`refused`).

    `schema` is registered, or what the contract says of `value`; `sent` is the bytes without header.
    """

    written: str
    kind: str
    schema: Any
    sent: bytes
    columns: str
    lands: dict[str, Any]
    refused: str = ""


LEAF = {"type": "record", "name": "Leaf", "fields": [{"name": "next", "type": ["null", "Leaf"]}]}
NODES = 'syntax = "proto3"; message Node { int32 n = 1; repeated Node next = 2; }'
WHOLES = [
    WholeRow("Avro, a record that contains itself", "AVRO", LEAF, b"\0", "", {}, "next"),
    WholeRow(
        "Avro, a top level that is no record", "AVRO", array("long"), b"\2\2\0", "list<long>", {"value": [1]}
    ),
    WholeRow("Avro, a top level of one type", "AVRO", "string", b"\4ok", "string", {"value": "ok"}),
    WholeRow("Protobuf, a message that contains itself", "PROTOBUF", NODES, b"\x08\1", "", {}, "next"),
    WholeRow(
        "JSON Schema, a top level that is no object",
        "JSON",
        {"$schema": DRAFT_7, "type": "array", "items": {"type": "integer"}},
        b"[1, 2]",
        "list<long>",
        {"value": [1, 2]},
    ),
    WholeRow(
        "JSON Schema, an object that contains itself",
        "JSON",
        {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}},
            "additionalProperties": False,
        },
        b'{"n": 1, "next": {"n": 2, "next": {}}}',
        "long, struct<n: long, next: string>",
        {"n": 1, "next": {"n": 2, "next": "{}"}},
    ),
    WholeRow(
        "JSON without declared columns",
        "",
        {"format": "json"},
        b'{"a": 1.10}',
        "string",
        {"value": '{"a": 1.10}'},
    ),
    WholeRow("string", "", {"format": "string"}, "grüß".encode(), "string", {"value": "grüß"}),
    WholeRow("raw", "", {"format": "raw"}, b"\xff\0", "binary", {"value": b"\xff\0"}),
]
