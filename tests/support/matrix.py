"""The published matrix: each type and each schema change, and what happens. Tests run every row, docs/matrix.md prints them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

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


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


FIXED = {"type": "fixed", "name": "F", "size": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
NAIVE = NOON.replace(tzinfo=None)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - no zone
MICROS = int(NOON.timestamp() * 1_000_000)
AVRO = [
    TypeRow("boolean", "boolean", True, "boolean", True),
    TypeRow("int", "int", -(2**31), "int", -(2**31)),
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
        "Struct, Value, Any",
        "google.protobuf.Struct v = 1;",
        {"a": [1, None, "x"]},
        "string",
        '{"a":[1.0,null,"x"]}',
        "canonical JSON; VARIANT on format 3",
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
    TypeRow("Uuid", ("string", "data.Uuid"), "a-b", "string", "a-b"),
    TypeRow("Bits", ("bytes", "data.Bits"), b"\1\x0f", "binary", b"\1\x0f"),
    TypeRow("Json", ("string", "data.Json"), '{"a": 1.10}', "string", '{"a": 1.10}', "VARIANT on format 3"),
]


def json_schema_of(properties: dict[str, Any]) -> dict[str, Any]:
    """A schema of draft 7 with these properties."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "definitions": {"day": {"type": "string", "format": "date"}},
    }


def proto_of(field: str) -> str:
    """A message M of one field."""
    known = "".join(
        f'import "google/protobuf/{name}.proto"; ' for name in ("timestamp", "duration", "wrappers", "struct")
    )
    return f'syntax = "proto3"; {known} message M {{ {field} }}'


def debezium_type(row: TypeRow) -> dict[str, Any]:
    """The type as Confluent's converter writes it."""
    kind, name = row.schema
    return {"type": kind, "connect.version": 1, "connect.name": f"io.debezium.{name}"}


@dataclass(frozen=True)
class ChangeRow:
    """From one Avro version to the next: `fields` of a record, the change that is planned and its default verdict."""

    change: str
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    kind: str | None
    path: str
    key: str
    default: str
    happens: str
    partition_by: list[str] = field(default_factory=list)


def f(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def struct(*fields: dict[str, Any], name: str = "S") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


ID = f("id", "long")
DEC = logical("bytes", "decimal", precision=5, scale=2)
WIDER_DEC = logical("bytes", "decimal", precision=9, scale=2)
ADDED = "added last, optional; older rows read NULL, older writers go on"
WIDENED = "widens in place; writers of the narrower type go on, and it never flips back"
GONE = "stays and reads NULL (or the schema's default) from then on; nothing is dropped"
PARKED = (
    "its records wait; approved, they go to the quarantine (`schema_not_allowed`), and other writers go on"
)
CHANGES = [
    ChangeRow("a field added", [ID], [ID, f("b", "string")], "add_column", "b", "add_column", "apply", ADDED),
    ChangeRow(
        "a field added in a struct",
        [f("s", struct(ID))],
        [f("s", struct(ID, f("b", "int")))],
        "add_column",
        "s.b",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "a field added in a list's elements",
        [f("l", array(struct(ID)))],
        [f("l", array(struct(ID, f("b", "int"))))],
        "add_column",
        "l.element.b",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "a field added in a map's values",
        [f("m", mapping(struct(ID)))],
        [f("m", mapping(struct(ID, f("b", "int"))))],
        "add_column",
        "m.value.b",
        "add_column",
        "apply",
        ADDED,
    ),
    ChangeRow(
        "int to long", [f("a", "int")], [f("a", "long")], "widen_type", "a", "widen_type", "apply", WIDENED
    ),
    ChangeRow(
        "float to double",
        [f("a", "float")],
        [f("a", "double")],
        "widen_type",
        "a",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "a decimal of more digits",
        [f("a", DEC)],
        [f("a", WIDER_DEC)],
        "widen_type",
        "a",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "int to long in a list",
        [f("a", array("int"))],
        [f("a", array("long"))],
        "widen_type",
        "a.element",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "int to long in a map's values",
        [f("a", mapping("int"))],
        [f("a", mapping("long"))],
        "widen_type",
        "a.value",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "int to long in a struct",
        [f("s", struct(f("a", "int")))],
        [f("s", struct(f("a", "long")))],
        "widen_type",
        "s.a",
        "widen_type",
        "apply",
        WIDENED,
    ),
    ChangeRow(
        "a default changed",
        [f("a", "int", default=0)],
        [f("a", "int", default=1)],
        None,
        "",
        "",
        "",
        "nothing: a default stands for what a writer lacks, the newest version's",
    ),
    ChangeRow(
        "a symbol taken out of an enum",
        [f("a", {**ENUM, "symbols": ["A", "B", "C"]})],
        [f("a", ENUM)],
        None,
        "",
        "",
        "",
        "nothing: rows that have it keep it",
    ),
    ChangeRow(
        "long to int",
        [f("a", "long")],
        [f("a", "int")],
        None,
        "",
        "",
        "",
        "nothing: the wider column holds both",
    ),
    ChangeRow(
        "a field becomes nullable",
        [f("a", "string")],
        [f("a", ["null", "string"])],
        None,
        "",
        "",
        "",
        "nothing: value columns are optional from the start",
    ),
    ChangeRow(
        "a symbol added to an enum",
        [f("a", ENUM)],
        [f("a", {**ENUM, "symbols": ["A", "B", "C"]})],
        None,
        "",
        "",
        "",
        "nothing: an enum is a string",
    ),
    ChangeRow(
        "fields in another order",
        [ID, f("a", "int")],
        [f("a", "int"), ID],
        None,
        "",
        "",
        "",
        "nothing: columns match by name",
    ),
    ChangeRow(
        "a doc added",
        [f("a", "int")],
        [f("a", "int", doc="how many")],
        "comment",
        "a",
        "",
        "apply",
        "becomes the column's comment; the contract's description stands above it",
    ),
    ChangeRow(
        "a field removed", [ID, f("a", "int")], [ID], "remove_column", "a", "remove_column", "apply", GONE
    ),
    ChangeRow(
        "a field removed in a struct",
        [f("s", struct(ID, f("a", "int")))],
        [f("s", struct(ID))],
        "remove_column",
        "s.a",
        "remove_column",
        "apply",
        GONE,
    ),
    ChangeRow(
        "a field removed in a list's elements",
        [f("l", array(struct(ID, f("a", "int"))))],
        [f("l", array(struct(ID)))],
        "remove_column",
        "l.element.a",
        "remove_column",
        "apply",
        GONE,
    ),
    ChangeRow(
        "a field removed that partition_by uses",
        [ID, f("a", "int")],
        [ID],
        "remove_column",
        "a",
        "",
        "impossible",
        "refused: further rows would all fall into the NULL partition; edit `partition_by` first",
        ["a"],
    ),
    ChangeRow(
        "int to string",
        [f("a", "int")],
        [f("a", "string")],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "int to double",
        [f("a", "int")],
        [f("a", "double")],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a decimal of another scale",
        [f("a", DEC)],
        [f("a", logical("bytes", "decimal", precision=9, scale=3))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a scalar becomes a struct",
        [f("a", "int")],
        [f("a", struct(ID))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a type changed in a list",
        [f("a", array("int"))],
        [f("a", array("string"))],
        "incompatible",
        "a.element",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a union gets a second branch",
        [f("a", "string")],
        [f("a", ["string", "long"])],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "timestamp to date",
        [f("a", logical("long", "timestamp-micros"))],
        [f("a", logical("int", "date"))],
        "incompatible",
        "a",
        "incompatible",
        "review",
        PARKED,
    ),
    ChangeRow(
        "a record that contains itself",
        [ID],
        [ID, f("next", ["null", "R"])],
        "incompatible",
        "*",
        "",
        "impossible",
        "the table stops as `schema_unsupported` at its first record; other topics go on",
    ),
    ChangeRow(
        "a name equal but for case",
        [f("a", "int")],
        [f("a", "int"), f("A", "int")],
        "incompatible",
        "*",
        "",
        "impossible",
        "the table stops as `schema_unsupported` at its first record",
    ),
]


@dataclass(frozen=True)
class EditRow:
    """An edit of the contract."""

    edit: str
    before: dict[str, Any]
    after: dict[str, Any]
    kind: str
    verdict: str
    happens: str


EDITS = [
    EditRow(
        "`partition_by`",
        {},
        {"partition_by": ["day(at)"]},
        "partition_spec",
        "apply",
        "spec evolution: old files keep their spec, every row stays readable",
    ),
    EditRow(
        "`partition_by` on a column that is not there",
        {},
        {"partition_by": ["nope"]},
        "partition_spec",
        "impossible",
        "says which column is meant; ingest goes on with the old layout",
    ),
    EditRow(
        "`sort_by`",
        {},
        {"sort_by": ["id"]},
        "sort_order",
        "apply",
        "new files are sorted; old ones when compaction rewrites them",
    ),
    EditRow(
        "`format_version: 3`",
        {},
        {"format_version": 3},
        "format_version",
        "review",
        "upgraded once approved; it cannot be undone",
    ),
    EditRow(
        "`format_version` back to 2",
        {"format_version": 3},
        {},
        "format_version",
        "impossible",
        "a table's format never goes back",
    ),
    EditRow(
        "`table_properties`",
        {},
        {"table_properties": {"a": "1"}},
        "property",
        "apply",
        "set; a key taken out goes back to its default",
    ),
    EditRow(
        "`owners`, `runbook`, `freshness`",
        {},
        {"runbook": "https://x"},
        "property",
        "apply",
        "kept with the table as properties",
    ),
    EditRow(
        "`description`, `columns.*.description`",
        {},
        {"description": "Orders"},
        "comment",
        "apply",
        "comments of table and columns",
    ),
    EditRow(
        "`key`, `value`",
        {},
        {"key": {"format": "string"}},
        "contract",
        "apply",
        "from the next batch on; rows that are there stay",
    ),
    EditRow(
        "`event_time`",
        {},
        {"event_time": "at", "partition_by": ["id"]},
        "contract",
        "apply",
        "the watermark counts by it from the next batch on",
    ),
    EditRow(
        "`retention.append`",
        {},
        {"retention": {"append": "7d"}},
        "contract",
        "apply",
        "the next maintenance deletes by it",
    ),
    EditRow(
        "`upsert` added or taken out",
        {},
        {"upsert": ["id"]},
        "contract",
        "apply",
        "its table is built, or stays and is no longer merged into",
    ),
    EditRow(
        "`upsert.keys`, `order_by`, `deletes`",
        {"upsert": ["id"]},
        {"upsert": ["who"]},
        "contract",
        "review",
        "the upsert table has to be built again",
    ),
]
NAMES = [
    (
        "`table`",
        "rename",
        "review",
        "approved, the catalog renames the table; ledger, history and quarantine go along. `tidemark accept TABLE --first-load` loads anew instead",
    ),
    (
        "`table` names one that Tidemark did not make",
        "adopt",
        "apply or impossible",
        "taken over when its columns fit; rows and layout stay",
    ),
    (
        "the contract is deleted",
        "release",
        "apply",
        "the table stays as it is, and is neither written nor maintained any more",
    ),
    (
        "`topic`",
        "contract",
        "impossible",
        "the ledger counts offsets of the old topic: `tidemark accept TABLE --new-epoch`",
    ),
]


def page() -> str:
    """docs/matrix.md."""
    return "\n".join([*_head(), *_types(), *_changes(), *_edits(), ""])


def _head() -> Iterator[str]:
    yield "# Matrix: every type, every schema change"
    yield ""
    yield "Printed from `tests/support/matrix.py`. Every row is a test of its own: `tests/unit/docs/test_matrix.py`, and for the"
    yield "values of Avro `tests/spark/test_matrix.py`. All values go through registry, broker, Spark and Iceberg and are read by"
    yield "PyIceberg and Spark in `tests/spark/proof/test_matrix_topics.py`. Schema changes are carried out on a table with rows"
    yield "in `tests/unit/engine/test_changes.py`."
    yield "The rules in words are in [types.md](types.md) and [guide.md](guide.md)."
    yield ""


def _types() -> Iterator[str]:
    sections = (
        ("Avro", AVRO),
        ("JSON with declared columns", JSON_FIELDS),
        ("JSON Schema", JSON_SCHEMA),
        ("Protobuf", PROTOBUF),
        ("Debezium", DEBEZIUM),
    )
    for title, rows in sections:
        yield f"## {title}"
        yield ""
        yield "| written | column | example | lands as | |"
        yield "|---|---|---|---|---|"
        for row in rows:
            yield f"| {_cell(row.written)} | {_cell(row.column)} | {_code(row.value)} | {_code(row.lands)} | {_cell(row.note)} |"
        yield ""


def _changes() -> Iterator[str]:
    yield "## Schema changes"
    yield ""
    yield "The default verdict, and the key of `schema_changes` that chooses another (`apply`, `review`, `quarantine`; `apply` is not"
    yield "possible for `incompatible`). `review` lets records wait, `quarantine` sends just those aside."
    yield ""
    yield "| change | planned as | at | default | key | what happens |"
    yield "|---|---|---|---|---|---|"
    for row in CHANGES:
        quiet = (row.kind, row.default) == ("remove_column", "apply")
        kind = "– (`remove_column` by another verdict)" if quiet else row.kind or "–"
        cells = (row.change, kind, row.path or "–", row.default or "–", row.key or "–", row.happens)
        yield f"| {' | '.join(_cell(each) for each in cells)} |"
    yield ""


def _edits() -> Iterator[str]:
    yield "## Edits of the contract"
    yield ""
    yield "| edit | planned as | verdict | what happens |"
    yield "|---|---|---|---|"
    rows = [*((r.edit, r.kind, r.verdict, r.happens) for r in EDITS), *NAMES]
    for row in rows:
        yield f"| {' | '.join(_cell(each) for each in row)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (str, bytes, datetime, date, Decimal)):
        text = value.hex(" ") if isinstance(value, bytes) else str(value)
        return f"`{_cell(text)}`"
    return f"`{_cell(json.dumps(value, ensure_ascii=False))}`"
