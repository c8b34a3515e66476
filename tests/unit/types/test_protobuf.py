"""Protobuf messages become columns by docs/types.md's table, and their values land exactly or are refused by path."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.protobuf_columns import columns
from tidemark.engine.decode.on_executors import arrow_type, explain, rows_of
from tidemark.engine.schema import protoc
from tidemark.engine.schema.protobuf import read
from tidemark.engine.schema.protoc import compile_proto

HEAD = 'syntax = "proto3"; package shop; '
WELL_KNOWN = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("timestamp", "duration", "wrappers", "struct", "any", "empty")
)


def classes(text, imports=()):
    """Message classes of a schema, by full name, from a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(compile_proto(text, tuple(imports))).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


class Case:
    """One message type: its columns, and what becomes of payloads."""

    def __init__(self, text, name=None, imports=(), **how):
        self.schema = read(compile_proto(text, tuple(imports)), name, **how)
        self.columns = columns(self.schema)
        self.make = classes(text, imports)(self.schema.root.name)

    def decode(self, *payloads, header=b"\0"):
        return rows_of(self.schema, arrow_type(self.columns))(
            [payload if payload is None else header + payload for payload in payloads]
        )

    def landed(self, **fields):
        causes, rows = self.decode(self.make(**fields).SerializeToString())
        assert causes == [None]
        return rows.to_pylist()[0]

    def refused(self, payload, header=b"\0"):
        causes, rows = self.decode(payload, header=header)
        fault = explain(header + payload, self.schema)
        assert fault is not None
        assert causes == [fault.cause]
        assert rows.to_pylist() == [None]
        return fault.cause, fault.detail


OTHERS = "enum Color { RED = 0; BLUE = 5; AZURE = 7; } message Point { int32 x = 1; optional string y = 2; } message Nothing {}"


def one(kind, **how):
    """A message with a field `v` of this type."""
    return Case(f"{HEAD}{WELL_KNOWN} message M {{ {kind} v = 1; }} {OTHERS}", **how)


INF, NAN = float("inf"), float("nan")
SCALARS = [
    *((kind, "int", n, n) for kind in ("int32", "sint32", "sfixed32") for n in (0, -1, 2**31 - 1, -(2**31))),
    *((kind, "long", n, n) for kind in ("int64", "sint64", "sfixed64") for n in (0, -1, 2**63 - 1, -(2**63))),
    *((kind, "long", n, n) for kind in ("uint32", "fixed32") for n in (0, 2**32 - 1)),
    *((kind, "decimal(20,0)", n, Decimal(n)) for kind in ("uint64", "fixed64") for n in (0, 2**64 - 1)),
    *(("bool", "boolean", b, b) for b in (True, False)),
    *(("string", "string", s, s) for s in ("", "é😀\0")),
    *(("bytes", "binary", b, b) for b in (b"", b"\xff\0")),
    *(("float", "float", x, x) for x in (0.0, 1.5, 2.0**-149, INF, -INF)),
    *(("double", "double", x, x) for x in (0.0, 0.1, 5e-324, 1.7976931348623157e308, INF, -INF)),
    ("Color", "string", 5, "BLUE"),
    ("Color", "string", 0, "RED"),
    ("Color", "string", 6, "6"),
    ("Color", "string", -1, "-1"),
    ("optional Color", "string", 0, "RED"),
    ("optional int32", "int", 0, 0),
    ("repeated int32", "list<int>", [0, 1], [0, 1]),
    ("repeated int32", "list<int>", [], []),
    ("repeated Color", "list<string>", [5, 6, 0], ["BLUE", "6", "RED"]),
    ("repeated string", "list<string>", ["", "a"], ["", "a"]),
    ("map<string, int64>", "map<string, long>", {"": 0, "k": 2}, {"": 0, "k": 2}),
    ("map<bool, Color>", "map<boolean, string>", {True: 5, False: 9}, {True: "BLUE", False: "9"}),
    ("map<uint64, bytes>", "map<decimal(20,0), binary>", {2**64 - 1: b"x"}, {Decimal(2**64 - 1): b"x"}),
    ("map<string, Point>", "map<string, struct<x: int, y: string>>", {"k": {"x": 1}}, {"k": {"x": 1, "y": None}}),
    ("Point", "struct<x: int, y: string>", {"x": 3, "y": ""}, {"x": 3, "y": ""}),
    ("repeated Point", "list<struct<x: int, y: string>>", [{}, {"y": "a"}], [{"x": 0, "y": None}, {"x": 0, "y": "a"}]),
    ("Nothing", "boolean", {}, True),
    ("google.protobuf.Empty", "boolean", {}, True),
    ("google.protobuf.Int64Value", "long", {"value": 0}, 0),
    ("google.protobuf.UInt64Value", "decimal(20,0)", {"value": 2**64 - 1}, Decimal(2**64 - 1)),
    ("google.protobuf.StringValue", "string", {"value": ""}, ""),
    ("google.protobuf.BytesValue", "binary", {"value": b"\0"}, b"\0"),
    ("google.protobuf.BoolValue", "boolean", {"value": False}, False),
    ("google.protobuf.DoubleValue", "double", {"value": 0.1}, 0.1),
    ("google.protobuf.FloatValue", "float", {"value": 1.5}, 1.5),
    ("google.protobuf.Int32Value", "int", {"value": -1}, -1),
    ("google.protobuf.UInt32Value", "long", {"value": 2**32 - 1}, 2**32 - 1),
    ("google.protobuf.Timestamp", "timestamptz", {}, datetime(1970, 1, 1, tzinfo=UTC)),
    ("google.protobuf.Timestamp", "timestamptz", {"seconds": -1, "nanos": 999_999_999}, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    ("google.protobuf.Timestamp", "timestamptz", {"seconds": 253402300799, "nanos": 1999}, datetime(9999, 12, 31, 23, 59, 59, 1, UTC)),
    ("google.protobuf.Duration", "struct<seconds: long, nanos: int>", {"seconds": -5, "nanos": -1}, {"seconds": -5, "nanos": -1}),
    ("repeated google.protobuf.Timestamp", "list<timestamptz>", [{"seconds": 1}], [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "column", "value", "expected"), SCALARS)
def test_every_type_lands_exactly(kind, column, value, expected):
    case = one(kind)
    assert str(case.columns.fields[0].type) == column
    found = case.landed(v=value)["v"]
    assert (dict(found) if column.startswith("map") else found) == expected
    assert type(found) is not int or type(expected) is int


@pytest.mark.parametrize("kind", ["float", "double"])
def test_nan_and_negative_zero_are_kept(kind):
    assert math.isnan(one(kind).landed(v=NAN)["v"])
    assert math.copysign(1, one(f"optional {kind}").landed(v=-0.0)["v"]) == -1


UNSET = {
    "int32": 0, "string": "", "bool": False, "bytes": b"", "double": 0.0, "uint64": Decimal(0), "Color": "RED",
    "repeated int32": [], "map<string, int32>": [], "optional int32": None, "optional string": None, "optional Color": None,
    "Point": None, "Nothing": None, "google.protobuf.Timestamp": None, "google.protobuf.Int64Value": None, "google.protobuf.Struct": None,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), UNSET.items())
def test_unset_is_null_where_the_field_has_presence_else_the_default(kind, value):
    assert one(kind).landed()["v"] == value


def test_a_oneof_is_one_optional_column_per_branch():
    case = Case(f"{HEAD} message M {{ oneof c {{ int32 a = 1; string b = 2; }} }}")
    assert case.landed(a=0) == {"a": 0, "b": None}
    assert case.landed(b="") == {"a": None, "b": ""}
    assert case.landed() == {"a": None, "b": None}


def test_all_nine_digits_when_the_contract_says_so():
    case = one("google.protobuf.Timestamp", nanos=True)
    assert str(case.columns.fields[0].type) == "long"
    assert case.landed(v={"seconds": 1, "nanos": 2})["v"] == 1_000_000_002
    cause, detail = case.refused(case.make(v={"seconds": 9223372037}).SerializeToString())
    assert (cause, detail.partition(":")[0]) == ("value_out_of_range", "v")


def test_struct_value_and_any_are_canonical_json():
    case = one("google.protobuf.Struct")
    assert (
        case.landed(v={"a": 1.5, "é": [None, True, {"b": "c"}]})["v"] == '{"a":1.5,"é":[null,true,{"b":"c"}]}'
    )
    value = one("google.protobuf.Value")
    assert value.landed(v={"string_value": "x"})["v"] == '"x"'
    assert value.refused(value.make(v={"number_value": NAN}).SerializeToString())[0] == "value_out_of_range"
    anything = one("google.protobuf.Any")
    known = classes(f"{HEAD} enum C {{ RED = 0; BLUE = 5; }} message Point {{ int32 x = 1; C c = 3; }}")(
        "shop.Point"
    )(x=7)
    found = anything.landed(
        v={"type_url": "type.googleapis.com/shop.Point", "value": known.SerializeToString()}
    )["v"]
    assert json.loads(found) == {"@type": "type.googleapis.com/shop.Point", "x": 7}
    found = anything.landed(v={"type_url": "x/foreign.Type", "value": b"\x01"})["v"]
    assert json.loads(found) == {"@type": "x/foreign.Type", "value": "AQ=="}


KEPT = """enum Color { RED = 0; BLUE = 5; } message Point { optional int32 x = 1; repeated sint32 l = 2; optional Color c = 3;
 map<int32, Color> m = 4; map<string, Point> p = 5; optional google.protobuf.Any a = 6; repeated uint64 u = 7;
 optional double d = 8; optional google.protobuf.Value v = 9; map<string, float> f = 10; }"""
LONG = b"\x80\x80\x80\x80\x10"
WHOLE = (
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01\x12\x02\x03\x04\x18\x05\x22\x04\x08\x07\x10\x05\x2a\x03\x0a\x01k"
    b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x41\0\0\0\0\0\0\xf8\x7f\x4a\x02\x1a\0\x52\x05\x15\0\0\xc0\x7f"
)
LOST = [
    (b"\x60\x01", "invalid_against_schema", "fields that the schema's Point does not have: 12 (wire type 0)"),
    (b"\x0a\x01a", "invalid_against_schema", "fields that the schema's Point does not have: 1 (wire type 2)"),
    (b"\x2a\x04\x12\x02\x60\x01", "invalid_against_schema", "fields that the schema's Point does not have: 12"),
    (b"\x4a\x04\x32\x02\x60\x01", "invalid_against_schema", "fields that the schema's google.protobuf.ListValue"),
    (b"\x08" + LONG, "value_out_of_range", "4294967296 in a number of 32 bits: Point.x"),
    (b"\x10" + LONG, "value_out_of_range", "2147483648 in a number of 32 bits: Point.l"),
    (b"\x22\x06\x08" + LONG, "value_out_of_range", "a key beyond 32 bits: Point.m"),
    (b"\x08", "undecodable", "the bytes in an Any are no Point"),
]  # fmt: skip


def with_any(inside, depth=1, syntax="proto3"):
    """A case and its payload: a Point in an Any, in the Any of another Point as often as `depth` says."""
    case = Case(
        f'syntax = "{syntax}"; {WELL_KNOWN} message M {{ optional google.protobuf.Any v = 1; }} {KEPT}'
    )
    kind = type(case.make().v)
    packed = kind(type_url="x/Point", value=inside)
    for _ in range(depth - 1):
        outer = b"\x32" + bytes([packed.ByteSize()]) + packed.SerializeToString()
        packed = kind(type_url="x/Point", value=outer)
    return case, case.make(v=packed).SerializeToString()


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("inside", "cause", "detail"), LOST)
def test_nothing_in_an_any_is_left_out_in_silence(inside, cause, detail, depth):
    case, payload = with_any(inside, depth)
    found = case.refused(payload)
    assert (found[0], found[1][: len(detail) + 3]) == (cause, f"v: {detail}")
    case, payload = with_any(WHOLE, depth)
    assert case.decode(payload)[0] == [None]


@pytest.mark.parametrize("inside", [b"\x18\x07", b"\x22\x02\x10\x07"])
def test_a_closed_enum_in_an_any_has_no_other_numbers(inside):
    """Which the JSON of the message would lack."""
    case, payload = with_any(inside, syntax="proto2")
    assert case.refused(payload)[0] == "invalid_against_schema"
    case, payload = with_any(inside, syntax="proto3")
    assert "7" in case.decode(payload)[1].to_pylist()[0]["v"]


@pytest.mark.parametrize(
    "payload",
    [
        b"\x48\x01",
        b"\x2a\x09\x0a\x07\x0a\x01k\x12\x02\x48\x01",
        b"\x32\x02\x48\x01",
        b"\x32\x04\x0a\x02\x48\x01",
    ],
)
def test_nothing_in_a_value_is_left_out_in_silence(payload):
    found = one("google.protobuf.Value").refused(b"\x0a" + bytes([len(payload)]) + payload)
    assert found[0] == "invalid_against_schema"
    assert "9 (wire type 0)" in found[1]


def test_an_any_inside_of_many_is_out():
    case = one("google.protobuf.Any")
    inner = case.make(v={"type_url": "x/foreign.Type"}).v
    for _ in range(1000):
        inner = type(inner)(
            type_url="type.googleapis.com/google.protobuf.Any", value=inner.SerializeToString()
        )
    payload = case.make(v=inner).SerializeToString()
    assert case.refused(payload) == ("undecodable", "v: holds Any in Any beyond all depth")
    assert case.decode(payload, b"")[0] == ["undecodable", None]


PROTO2 = """syntax = "proto2"; package shop; enum E { A = 1; B = 2; }
message M { required int32 id = 1; optional int32 n = 2 [default = 7]; optional E e = 3 [default = B]; repeated E es = 4; extensions 100 to 200; }
extend M { optional int32 more = 100; }"""


def test_what_is_missing_is_named_wherever_it_is():
    """Beside a map of numbers, where protobuf's own FindInitializationErrors crashes."""
    case = Case(
        'syntax = "proto2"; message M { map<string, int32> m = 1; optional N n = 2; map<int32, N> o = 3;'
        " repeated N p = 4; required int32 q = 5; message N { required int32 r = 1; } }"
    )
    for value, missing in (
        ("0a050a016110011200", "n.r, q"),
        ("28011a0408011200", "o[1].r"),
        ("28012200220208012200", "p[0].r, p[2].r"),
    ):
        refused = case.refused(bytes.fromhex(value))
        assert refused == ("invalid_against_schema", f"the value: required and missing: {missing}")
    assert case.landed(q=1)["q"] == 1


def test_proto2_has_presence_and_closed_enums_lose_nothing():
    case = Case(PROTO2)
    assert case.landed(id=1) == {"id": 1, "n": None, "e": None, "es": []}
    causes, rows = case.decode(b"\x08\x01\x18\x63\x20\x01\x20\x63\x20\x02")
    assert causes == [None]
    assert rows.to_pylist() == [{"id": 1, "n": None, "e": "99", "es": ["A", "99", "B"]}]
    assert case.refused(b"\x10\x01") == ("invalid_against_schema", "the value: required and missing: id")
    assert case.refused(b"\x08\x01\xa0\x06\x01")[0] == "invalid_against_schema"


def test_what_confluents_serializers_know_need_not_be_registered():
    text = f"""{HEAD} import "confluent/meta.proto"; import "confluent/type/decimal.proto";
    message Order {{ string who = 1 [(confluent.field_meta).tags = "PII"]; confluent.type.Decimal price = 2; }}"""
    case = Case(text)
    assert (
        str(case.columns) == "struct<who: string, price: struct<value: binary, precision: long, scale: int>>"
    )
    price = {"value": b"\x04\xd2", "precision": 4, "scale": 2}
    assert case.landed(who="ann", price=price) == {"who": "ann", "price": price}


def test_imports_and_references_are_followed():
    parts = (
        'syntax = "proto3"; package common; import "deep/money.proto"; message Line { deep.Money price = 1; }',
        'syntax = "proto3"; package deep; message Money { int64 units = 1; }',
    )
    text = f'{HEAD} import "common/line.proto"; import "google/type/date.proto"; message Order {{ repeated common.Line lines = 1; google.type.Date day = 2; }}'
    case = Case(text, imports=[("deep/money.proto", parts[1]), ("common/line.proto", parts[0])])
    assert case.landed(lines=[{"price": {"units": 5}}])["lines"] == [{"price": {"units": 5}}]


NESTED = f"{HEAD} message A {{ int32 a = 1; message B {{ int32 b = 1; message C {{ int32 c = 1; }} }} }} message D {{ int32 d = 1; }}"


ENTRIES = """syntax = "proto3"; package pm; import "item.proto"; // option map_entry = true;
message Order { int64 id = 1; repeated .pm.Order.TagsEntry tags = 2; Inner inner = 3;
  string note = 4 [json_name = "option map_entry = true;"];
  message TagsEntry { option map_entry = true; string key = 1; int32 value = 2; }
  message Inner { repeated .pm.Order.Inner.ItemsEntry items = 1; Item one = 2;
    message ItemsEntry { /* option map_entry = true; */ option  map_entry=true ; uint64 key = 1; .pm.Item value = 2; } }
  message Last { int32 x = 1; } }"""
ITEM = """syntax = "proto2"; package pm; message Item { repeated .pm.Item.SizesEntry sizes = 1;
  message SizesEntry { option map_entry = true; optional sint32 key = 1; optional bytes value = 2; } }"""


def test_a_map_that_a_registry_has_as_messages_is_a_map():
    """As Confluent's serializer for Java registered it until the end of 2024."""
    case = Case(ENTRIES, imports=[("item.proto", ITEM)])
    item = "struct<sizes: map<int, binary>>"
    inner = f"struct<items: map<decimal(20,0), {item}>, one: {item}>"
    assert str(case.columns) == f"struct<id: long, tags: map<string, int>, inner: {inner}, note: string>"
    found = case.landed(id=1, tags={"a": 1, "": 0}, inner={"items": {7: {"sizes": {-1: b"x"}}}})
    assert dict(found["tags"]) == {"a": 1, "": 0}
    assert found["inner"]["items"] == [(Decimal(7), {"sizes": [(-1, b"x")]})]
    assert read(compile_proto(ENTRIES, (("item.proto", ITEM),)), "pm.Order.Last").index == (0, 2)


@pytest.mark.parametrize(
    ("field", "entry", "reason"),
    [
        ("E v = 1;", "string key = 1; int32 value = 2;", "v: an entry of a map, E, that is not repeated"),
        ("repeated E v = 1;", "float key = 1; int32 value = 2;", "message E says map_entry, and is no entry"),
        ("repeated E v = 1;", "string key = 1;", "message E says map_entry, and is no entry"),
    ],
)
def test_a_message_that_only_says_that_it_is_an_entry_is_refused(field, entry, reason):
    with pytest.raises(SchemaUnsupported, match=reason):
        Case(f'syntax = "proto3"; message M {{ {field} message E {{ option map_entry = true; {entry} }} }}')


@pytest.mark.parametrize(
    ("name", "header", "field"),
    [
        (None, b"\x00", "a"),
        ("shop.A", b"\x02\x00", "a"),
        ("shop.A.B", b"\x04\x00\x00", "b"),
        ("shop.A.B.C", b"\x06\x00\x00\x00", "c"),
        ("shop.D", b"\x02\x02", "d"),
    ],
)
def test_the_message_is_found_by_its_index(name, header, field):
    case = Case(NESTED, name)
    causes, rows = case.decode(b"\x08\x05", header=header)
    assert (causes, rows.to_pylist()) == ([None], [{field: 5}])


def test_another_message_of_the_schema_is_the_wrong_type():
    case = Case(NESTED, "shop.D")
    assert case.refused(b"\x08\x05", header=b"\x00") == (
        "wrong_message_type",
        "the value: message index [0] of the schema, the table is for shop.D",
    )
    assert case.refused(b"\x08\x05", header=b"\x04\x00\x00")[0] == "wrong_message_type"
    assert case.refused(b"", header=b"") == (
        "undecodable",
        "the value: no message index follows the schema id",
    )
    assert case.refused(b"", header=b"\x80")[0] == "undecodable"


FAULTS = [
    ("int32", b"\x08", "undecodable", "the value: the bytes are no shop.M"),
    ("int32", b"\xff" * 12, "undecodable", "the value: the bytes are no shop.M"),
    ("string", b"\x0a\x05ab", "undecodable", "the value: the bytes are no shop.M"),
    ("string", b"\x0a\x01\xff", "undecodable", "the value: the bytes are no shop.M"),
    ("int32", b"\x08\x01\x98\x06\x01", "invalid_against_schema", "the value: fields that the schema's shop.M does not have: 99 (wire type 0)"),
    ("int32", b"\x0a\x01a", "invalid_against_schema", "the value: fields that the schema's shop.M does not have: 1 (wire type 2)"),
    ("Point", b"\x0a\x02\x38\x01", "invalid_against_schema", "v: fields that the schema's shop.Point does not have: 7"),
    ("repeated Point", b"\x0a\x02\x38\x01", "invalid_against_schema", "v.element: fields that the schema's shop.Point does not have: 7"),
    ("map<string, Point>", b"\x0a\x04\x12\x02\x38\x01", "invalid_against_schema", "v.value: fields that the schema's shop.Point does not have: 7"),
    ("Nothing", b"\x0a\x02\x38\x01", "invalid_against_schema", "v: fields that the schema's shop.Nothing does not have: 7"),
    ("google.protobuf.Int64Value", b"\x0a\x02\x38\x01", "invalid_against_schema", "v: fields that"),
    ("google.protobuf.Duration", b"\x0a\x02\x38\x01", "invalid_against_schema", "v: fields that"),
    ("google.protobuf.Timestamp", b"\x0a\x02\x10\x80", "undecodable", "the value: the bytes are no"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "payload", "cause", "detail"), FAULTS)
def test_a_fault_is_refused_with_its_path(kind, payload, cause, detail):
    found = one(kind).refused(payload)
    assert (found[0], found[1][: len(detail)]) == (cause, detail)


NO_UTF8 = [
    ("optional string", b"\x0a\x01\xff", "v"),
    ("repeated string", b"\x0a\x01a\x0a\x01\xff", "v.element"),
    ("map<int32, string>", b"\x0a\x05\x08\x01\x12\x01\xff", "v.value"),
    ("map<string, int32>", b"\x0a\x05\x0a\x01\xff\x10\x01", "v.key"),
    ("optional N", b"\x0a\x03\x0a\x01\xff", "v.s"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "payload", "place"), NO_UTF8)
def test_a_string_of_proto2_that_is_no_utf8_is_named(kind, payload, place):
    """Protobuf lets it in; behind a fault of another kind it is not told, but where a key cannot be looked up."""
    case = Case(
        f'syntax = "proto2"; message M {{ {kind} v = 1; optional int32 n = 2; }} message N {{ optional string s = 1; }}'
    )
    assert case.refused(payload) == ("undecodable", f"{place}: no UTF-8")
    far = payload + b"\x10" + b"\xff" * 9 + b"\x00"
    assert case.refused(far)[0] == ("undecodable" if place == "v.key" else "value_out_of_range")


@pytest.mark.parametrize(
    "parts", [{"seconds": 253402300800}, {"seconds": -62135596801}, {"nanos": -1}, {"nanos": 10**9}]
)
def test_a_time_out_of_range_is_refused(parts):
    case = one("google.protobuf.Timestamp")
    found = case.refused(case.make(v=parts).SerializeToString())
    assert found[0] == "value_out_of_range"
    assert found[1].startswith("v: ")


def test_one_bad_value_costs_one_row():
    case = one("int32")
    causes, rows = case.decode(*(case.make(v=n).SerializeToString() for n in range(20)), b"\x0a\x01a", None)
    assert causes == [None] * 20 + ["invalid_against_schema", None]
    assert [row and row["v"] for row in rows.to_pylist()] == [*range(20), None, None]


def test_a_column_that_the_writer_lacks_is_null_and_wider_types_take_it():
    old = Case(f"{HEAD} message M {{ int32 a = 1; float f = 2; }}")
    new = Case(f"{HEAD} message M {{ int64 a = 1; double f = 2; repeated int32 b = 3; }}")
    causes, rows = rows_of(old.schema, arrow_type(new.columns))(
        [b"\0" + old.make(a=-5, f=1.5).SerializeToString()]
    )
    assert (causes, rows.to_pylist()) == ([None], [{"a": -5, "f": 1.5, "b": None}])


REFUSED = [
    (f"{HEAD} message M {{ M m = 1; }}", "m", "message shop.M contains itself"),
    (f"{HEAD} message N {{ repeated M ms = 1; }} message M {{ map<string, N> n = 1; }}", "ms.element.n.value", "contains itself"),
    (f"{HEAD} message M {{}}", "", "has no field to store"),
    (f"{HEAD} enum E {{ A = 0; }}", "", "the schema has no message"),
    (f"{HEAD} message M {{ int32 a = 1; int32 A = 2; }}", "A", "but for case"),
    (f"{HEAD} message M {{ int32 _kafka = 1; }}", "_kafka", "reserved"),
    (f"{HEAD} message M {{ int32 _pos = 1; }}", "_pos", "reserved"),
    (f'{HEAD} import "nowhere.proto"; message M {{ int32 a = 1; }}', "", "nowhere.proto: File not found"),
    ('syntax = "proto2"; message M { optional int32 a_b = 1; optional int32 aB = 2; }', "", "duplicate json_name"),
    ("message {", "", "protoc: tidemark_value.proto:1:9: Expected message name"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "reason"), REFUSED)
def test_what_cannot_be_columns_is_refused_with_its_path(text, path, reason):
    with pytest.raises(SchemaUnsupported) as refused:
        Case(text)
    assert refused.value.path == path
    assert reason in refused.value.reason


def test_a_message_that_is_not_there_is_refused_by_name():
    with pytest.raises(SchemaUnsupported, match=r"no message shop.X: shop.A, shop.A.B, shop.A.B.C, shop.D"):
        Case(NESTED, "shop.X")


def test_comments_become_column_comments_and_declared_rules_are_named():
    text = f"{HEAD} {WELL_KNOWN} message M {{\n// of the \ud83d order\nint32 a = 1;\ngoogle.protobuf.Timestamp at = 2; message N {{\n// inner\nint32 b = 1; }} N n = 3;\nint32 c = 4; // behind\n// above\nint32 d = 5; // not both\n}}"
    case = Case(text)
    assert case.columns.fields[0].doc == "of the ? order"
    assert "finer digits are left out" in case.columns.fields[1].doc
    assert case.columns.fields[2].type.fields[0].doc == "inner"
    assert [field.doc for field in case.columns.fields[3:]] == ["behind", "above"]
    assert [note.path for note in case.schema.notes] == ["at"]


@pytest.mark.parametrize(
    "name",
    [
        *("HasField", "IsInitialized", "FindInitializationErrors", "DESCRIPTOR", "Clear", "ClearField"),
        *("ByteSize", "FromString", "ListFields", "SerializeToString", "WhichOneof", "UnknownFields", "None"),
    ],
)
def test_a_field_may_be_named_as_what_pythons_messages_have(name):
    """Of what stands on a message, protobuf gives the field, and no longer the method."""
    inside = f"optional int32 {name} = 1; optional int32 other = 2; int32 unset = 3;"
    case = Case(f"{HEAD} message M {{ {inside} repeated N n = 4; }} message N {{ {inside} }}")
    nested = b"\x10\x06"
    causes, rows = case.decode(b"\x08\x05\x10\x06\x22\x02" + nested, b"")
    assert causes == [None, None]
    inner = {name: None, "other": 6, "unset": 0}
    assert rows.to_pylist() == [
        {name: 5, "other": 6, "unset": 0, "n": [inner]},
        {name: None, "other": None, "unset": 0, "n": []},
    ]
    assert case.refused(b"\x08\x05\xf8\x01\x01") == (
        "invalid_against_schema",
        "the value: fields that the schema's shop.M does not have: 31 (wire type 0)",
    )


@pytest.mark.parametrize("name", ["IsInitialized", "FindInitializationErrors"])
def test_a_missing_required_field_is_found_whatever_its_neighbours_are_named(name):
    case = Case(f'syntax = "proto2"; message M {{ required int32 need = 1; optional int32 {name} = 2; }}')
    assert case.refused(b"\x10\x01") == (
        "invalid_against_schema",
        "the value: required and missing: need",
    )


@pytest.mark.parametrize(("variants", "kind"), [(False, "string"), (True, "variant")])
def test_json_in_a_message_is_no_other_text(variants, kind):
    """A table's text column goes on when the table becomes format 3: text and VARIANT hold the same JSON."""
    text = f"{HEAD}{WELL_KNOWN} message M {{ string a = 1; google.protobuf.Value b = 2; repeated google.protobuf.Struct c = 3; google.protobuf.Timestamp t = 4; }}"
    found = Case(text, variants=variants, nanos=True).columns
    assert str(found.field("b").type) == kind
    assert [field.meaning for field in found.fields] == [
        "",
        "canonical JSON as text",
        "canonical JSON as text",
        "nanoseconds since 1970-01-01T00:00:00Z",
    ]


def tagged(number, body):
    """A field of varints as its bytes, however many."""
    out = bytearray()
    for part in (number << 3, body & (1 << 64) - 1):
        rest = part
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def framed_in(number, inner):
    return bytes([number << 3 | 2, len(inner)]) + inner


BEYOND = [
    ("int32", tagged(1, 2**32 + 5), "v: 4294967301 in a number"),
    ("int32", tagged(1, -(2**31) - 1), "v: -2147483649 in a number"),
    ("sint32", tagged(1, 2 * (2**31)), "v: 2147483648 in a number"),
    ("uint32", tagged(1, 2**40 + 7), "v: 1099511627783 in a number"),
    ("optional int32", tagged(1, 2**33), "v: 8589934592 in a number"),
    ("repeated int32", framed_in(1, tagged(0, 2**33)[1:]), "v.element: 8589934592 in a number"),
    ("map<int32, int32>", framed_in(1, tagged(1, 2**33)), "v.key: 8589934592 in a number"),
    ("map<string, uint32>", framed_in(1, tagged(2, 2**33)), "v.value: 8589934592 in a number"),
    ("google.protobuf.Int32Value", framed_in(1, tagged(1, 2**33)), "v: 8589934592 in a number"),
    ("google.protobuf.Duration", framed_in(1, tagged(2, 2**33)), "v: 8589934592 in a number"),
    ("google.protobuf.Timestamp", framed_in(1, tagged(2, 2**33)), "v: 0 s, 8589934592 ns is no time"),
]


@pytest.mark.parametrize(("kind", "payload", "detail"), BEYOND, ids=[f"{b[0]} {b[2][:14]}" for b in BEYOND])
def test_a_number_of_more_bits_than_its_type_is_out(kind, payload, detail):
    """Decoders keep the low 32 bits in silence."""
    cause, said = one(kind).refused(payload)
    assert (cause, said[: len(detail)]) == ("value_out_of_range", detail)


def test_a_wider_column_does_not_let_such_a_number_in():
    old, new = (Case(f"{HEAD} message M {{ {kind} a = 1; }}") for kind in ("int32", "int64"))
    causes, rows = rows_of(old.schema, arrow_type(new.columns))(
        [b"\0" + tagged(1, 2**33), b"\0" + tagged(1, 7)]
    )
    assert (causes, rows.to_pylist()) == (["value_out_of_range", None], [None, {"a": 7}])


def test_an_enums_number_of_more_bits_is_unknown():
    causes, rows = one("Color").decode(tagged(1, 2**32 + 5), tagged(1, -1))
    assert (causes, [row["v"] for row in rows.to_pylist()]) == ([None, None], ["4294967301", "-1"])


@pytest.mark.parametrize(
    "names",
    [
        [""],
        ["."],
        ["a", "a/b.proto"],
        ["a/b.proto", "a"],
        ["a", "a/b/c.proto"],
        ["a\0.proto"],
        ["x" * 300],
        ["\udc00"],
    ],
)
def test_an_import_that_no_file_can_be_named_as_is_a_schema_that_is_not_read(names):
    """Given a registry that lets references have any name, when one is no file's, then that version is unsupported, and its words can be stored."""
    imports = tuple((name, 'syntax = "proto3";') for name in names)
    with pytest.raises(SchemaUnsupported, match="no file can be named as the import") as told:
        compile_proto('syntax = "proto3"; message A { int32 a = 1; }', imports)
    assert str(told.value).isascii()


def test_a_schema_that_protoc_does_not_end_with_is_not_read(monkeypatch):
    monkeypatch.setattr(protoc, "TIMEOUT", 0)
    with pytest.raises(SchemaUnsupported, match="protoc did not end within 0 seconds"):
        compile_proto('syntax = "proto3"; message Endless { int32 a = 1; }')
