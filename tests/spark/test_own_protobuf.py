"""The Protobuf decoder in `tidemark/jvm` beside the Python one: the same cause or row for whatever comes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import permutations
from random import Random
from typing import Any

import both_decoders
import pytest
from both_decoders import in_python, on_server
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from random_protobuf import Schemas, payloads_of, sized, tag, varint
from seeds import first

from tidemark.domain.columns.evolution import extended
from tidemark.domain.formats.protobuf_columns import ProtobufMessage, columns
from tidemark.engine.decode.protobuf_fields import fields_of
from tidemark.engine.schema.protobuf import read
from tidemark.engine.schema.protoc import compile_proto

WELL_KNOWN = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("timestamp", "duration", "wrappers", "struct", "any", "empty")
)
FIRST = b"\0"
"""The message index of a schema's first message."""
EVERY_TYPE = f"""
syntax = "proto3"; {WELL_KNOWN}
message M {{
  bool flag = 1; int32 i32 = 2; sint32 s32 = 3; sfixed32 sf32 = 4; uint32 u32 = 5; fixed32 f32 = 6;
  int64 i64 = 7; sint64 s64 = 8; sfixed64 sf64 = 9; uint64 u64 = 10; fixed64 f64 = 11;
  float single = 12; double twice = 13; string text = 14; bytes raw = 15; Color color = 16;
  Point point = 300; google.protobuf.Timestamp at = 5000; google.protobuf.Duration lasts = 536870911;
  google.protobuf.Empty nothing = 20; Bare bare = 21;
  optional int32 maybe = 22; optional string maybe_text = 23; optional Color maybe_color = 24;
  oneof one {{ int32 one_number = 25; string one_text = 26; Point one_point = 27; Bare one_bare = 28;
    google.protobuf.Timestamp one_at = 29; google.protobuf.StringValue one_wrapped = 30; }}
  google.protobuf.BoolValue w_bool = 31; google.protobuf.Int32Value w_i32 = 32; google.protobuf.UInt32Value w_u32 = 33;
  google.protobuf.Int64Value w_i64 = 34; google.protobuf.UInt64Value w_u64 = 35; google.protobuf.FloatValue w_f = 36;
  google.protobuf.DoubleValue w_d = 37; google.protobuf.StringValue w_s = 38; google.protobuf.BytesValue w_b = 39;
}}
message Point {{ int32 x = 1; optional string y = 2; Inner inner = 3; }}
message Inner {{ sint64 z = 1; repeated int32 many = 2; }}
message Bare {{}}
enum Color {{ option allow_alias = true; RED = 0; BLUE = 5; AZURE = 5; MINUS = -3; FAR = 70000; }}
"""
LISTS = f"""
syntax = "proto3"; {WELL_KNOWN}
message M {{
  repeated bool flag = 1; repeated int32 i32 = 2; repeated sint32 s32 = 3 [packed = false]; repeated sfixed32 sf32 = 4;
  repeated uint32 u32 = 5; repeated fixed32 f32 = 6; repeated int64 i64 = 7; repeated sint64 s64 = 8;
  repeated sfixed64 sf64 = 9; repeated uint64 u64 = 10; repeated fixed64 f64 = 11; repeated float single = 12;
  repeated double twice = 13; repeated string text = 14; repeated bytes raw = 15; repeated Color color = 16;
  repeated Point point = 17; repeated google.protobuf.Timestamp at = 18; repeated google.protobuf.Duration lasts = 19;
  repeated google.protobuf.Empty nothing = 20; repeated google.protobuf.UInt32Value wrapped = 21;
}}
message Point {{ int32 x = 1; optional string y = 2; repeated Point2 more = 3; }}
message Point2 {{ repeated Color colors = 1; bytes b = 2; }}
enum Color {{ RED = 0; BLUE = 5; MINUS = -3; }}
"""
MAPS = f"""
syntax = "proto3"; {WELL_KNOWN}
message M {{
  map<string, int32> by_text = 1; map<int32, string> by_i32 = 2; map<sint32, bytes> by_s32 = 3;
  map<uint32, double> by_u32 = 4; map<uint64, float> by_u64 = 5; map<bool, bool> by_flag = 6;
  map<fixed64, Color> by_f64 = 7; map<sfixed32, uint64> by_sf32 = 8; map<string, Point> points = 9;
  map<int64, google.protobuf.Timestamp> times = 10; map<string, google.protobuf.Int32Value> wrapped = 11;
  map<string, Nested> nested = 12; map<fixed32, google.protobuf.Duration> lasts = 13; map<sint64, Bare> bare = 14;
}}
message Point {{ int32 x = 1; optional string y = 2; }}
message Nested {{ map<string, Point> inner = 1; int32 z = 2; }}
message Bare {{}}
enum Color {{ RED = 0; BLUE = 5; MINUS = -3; }}
"""
ENTRIES = """
syntax = "proto3";
message M { repeated .M.AEntry a = 1; repeated .M.BEntry b = 2;
  message AEntry { option map_entry = true; string key = 1; int32 value = 2; }
  message BEntry { option map_entry = true; uint64 key = 1; .M.Part value = 2; }
  message Part { repeated .M.Part.CEntry c = 1; int32 x = 2;
    message CEntry { option map_entry = true; sint32 key = 1; string value = 2; } } }
"""
"""Maps as Confluent's serializer for Java registered them."""
PROTO2 = """
syntax = "proto2";
message M {
  required int32 id = 1; optional string text = 2 [default = "none"]; optional int32 number = 3 [default = 7];
  optional Color color = 4 [default = BLUE]; repeated int32 packed = 5 [packed = true]; repeated Color colors = 6;
  optional Part part = 7; repeated Part parts = 8; map<string, Part> by_text = 9; map<int32, Shade> shades = 10;
  map<string, int32> numbers = 11; repeated string texts = 12; optional bool last = 13 [default = true];
  oneof one { Part one_part = 14; string one_text = 15; uint32 one_number = 16; }
  extensions 100 to 200;
}
message Part { required string name = 1; optional int32 x = 2; optional Part2 deeper = 3; }
message Part2 { required fixed32 must = 1; optional string text = 2; map<string, string> texts = 3; }
enum Color { BLUE = 5; RED = 1; MINUS = -3; }
enum Shade { DARK = 0; LIGHT = 1; }
extend M { optional int32 more = 100; }
"""


def schema_of(text: str, name: str | None = None, **how: bool) -> ProtobufMessage:
    return read(compile_proto(text), name, **how)


def compared(
    spark: SparkSession,
    writers: Mapping[int, ProtobufMessage],
    values: Iterable[tuple[int, bytes | None]],
    header: int = 0,
) -> tuple[list[Any], Counter[str | None]]:
    """As `both_decoders.compared`, into a table of all that the writers have."""
    assert all(fields_of(schema) for schema in writers.values())
    table = columns(next(iter(writers.values())))
    for schema in writers.values():
        table = extended(table, columns(schema))
    return both_decoders.compared(spark, writers, table, values, header)


def told_apart(spark: SparkSession, schema: ProtobufMessage, payloads: Iterable[bytes]) -> list[Any]:
    """Of values of the schema's first message."""
    return compared(spark, {1: schema}, [(1, FIRST + payload) for payload in payloads])[0]


def test_the_server_reads_protobuf_with_our_decoder(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the comparison would be of Python with itself."""
    schema = schema_of(EVERY_TYPE)
    for decode, replaced in ((on_server, True), (in_python, False)):
        raw = spark.range(1).select(
            F.col("id").cast("int").alias("id"), F.col("id").cast("string").cast("binary").alias("value")
        )
        raw.select(decode({0: schema}, columns(schema))).explain(mode="extended")
        optimized = capsys.readouterr().out.partition("== Optimized Logical Plan ==")[2]
        assert ("invoke(tidemark_decode.decode(" in optimized) == replaced, optimized


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        (EVERY_TYPE, False),
        (EVERY_TYPE, True),
        (LISTS, False),
        (MAPS, True),
        (ENTRIES, False),
        (PROTO2, False),
    ],
    ids=["types", "types_nanos", "lists", "maps", "entries", "proto2"],
)
def test_every_type_is_read_alike(spark: SparkSession, text: str, nanos: bool) -> None:
    """Good values, and thousands that are odd or damaged."""
    schema = schema_of(text, nanos=nanos)
    payloads = payloads_of(schema, Random(7), 200, 1500)
    apart, causes = compared(spark, {1: schema}, [(1, FIRST + each) for each in payloads])
    assert not apart, apart[:3]
    assert {None, "undecodable", "invalid_against_schema", "value_out_of_range"} == set(causes)
    assert causes[None] > 200


@pytest.mark.parametrize("seed", first(6, of=12))
def test_random_schemas_are_read_alike(spark: SparkSession, seed: int) -> None:
    """Messages in messages, lists, maps and oneofs as they come."""
    chance = Random(seed)
    schema = schema_of(Schemas(chance).text())
    apart = told_apart(spark, schema, payloads_of(schema, chance, 60, 300))
    assert not apart, apart[:3]


SOME = """
syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M {
  int32 a = 1; Part part = 2; map<string, Part> parts = 3; repeated Part list = 4; google.protobuf.Timestamp at = 5;
  google.protobuf.Int32Value wrapped = 6; string text = 7; int32 z = 8; oneof one { Part first = 9; Part second = 10; }
  map<string, int32> numbers = 11; repeated int32 packed = 12; bool flag = 13; E e = 14; uint32 u = 15; bytes raw = 16;
}
message Part { int32 x = 1; string y = 2; repeated int32 many = 3; map<int32, int32> map = 4; Part2 deeper = 5; }
message Part2 { int32 x = 1; }
enum E { A = 0; B = 1; }
"""
FAR = varint(1 << 31)
UNKNOWN = tag(99, 0) + b"\1"
PARTS = [
    tag(2, 2) + sized(part)
    for part in (
        b"",
        tag(1, 0) + b"\1",
        tag(1, 0) + FAR,
        tag(2, 2) + sized(b"a"),
        tag(3, 2) + sized(b"\1\2"),
        tag(3, 0) + b"\3",
        tag(4, 2) + sized(b"\x08\1\x10\2"),
        tag(5, 2) + sized(b"\x08\1"),
        tag(5, 2) + sized(b""),
        UNKNOWN,
    )
]
FAULTS = [
    tag(1, 0) + FAR,
    tag(2, 2) + sized(UNKNOWN),
    tag(3, 2) + sized(tag(1, 2) + sized(b"k") + UNKNOWN),
    tag(3, 2) + sized(tag(1, 2) + sized(b"k") + tag(2, 2) + sized(tag(1, 0) + FAR)),
    tag(3, 2) + sized(tag(1, 2) + sized(b"k") + tag(2, 2) + sized(UNKNOWN)),
    tag(3, 2) + sized(tag(1, 2) + sized(b"k")),
    tag(4, 2) + sized(tag(1, 0) + FAR),
    tag(5, 2) + sized(tag(2, 0) + b"\1" + UNKNOWN),
    tag(5, 2) + sized(tag(1, 0) + varint(1 << 60)),
    tag(5, 2) + sized(tag(2, 0) + varint(1_000_000_000)),
    tag(5, 2) + sized(tag(2, 0) + varint(-1)),
    tag(6, 2) + sized(UNKNOWN),
    tag(6, 2) + sized(tag(1, 0) + FAR),
    tag(7, 2) + sized(b"\xff"),
    tag(7, 0) + b"\1",
    tag(8, 0) + varint(-(1 << 31) - 1),
    tag(9, 2) + sized(tag(1, 0) + FAR),
    tag(10, 2) + sized(UNKNOWN),
    tag(11, 2) + sized(tag(1, 2) + sized(b"k") + tag(2, 0) + FAR),
    tag(11, 2) + sized(tag(1, 2) + sized(b"k") + tag(2, 0) + b"\1"),
    tag(12, 2) + sized(FAR),
    tag(13, 0) + varint(1 << 63, 9),
    tag(14, 0) + FAR,
    tag(15, 0) + varint(-1),
]


def test_faults_go_before_faults_alike(spark: SparkSession) -> None:
    """Any two, in either order, and each twice: the last one of a field counts, and what is gone is no fault."""
    values = [
        *FAULTS,
        *(one + other for one, other in permutations(FAULTS, 2)),
        *(each * 2 for each in FAULTS),
    ]
    good = [tag(1, 0) + b"\1", tag(8, 0) + b"\1", tag(10, 2) + sized(b"")]
    values += [one + other for one in FAULTS for other in good]
    apart = told_apart(spark, schema_of(SOME), values)
    assert not apart, apart[:3]


@pytest.mark.parametrize("number", [2, 9])
def test_messages_said_again_are_merged_alike(spark: SparkSession, number: int) -> None:
    """Of a field, and of a oneof, in which another one may come in between."""
    parts = [tag(number, 2) + part[1:] for part in PARTS]
    values = [b"".join(some) for some in permutations(parts, 2)]
    values += [one + tag(10, 2) + sized(tag(1, 0) + b"\5") + other for one, other in permutations(parts, 2)]
    values += [tag(3, 2) + sized(one + other) for one, other in permutations(PARTS, 2)]
    apart = told_apart(spark, schema_of(SOME), values)
    assert not apart, apart[:3]


def test_varints_and_tags_of_too_many_bytes_are_read_alike(spark: SparkSession) -> None:
    """Of up to twelve bytes, in tags, sizes and numbers."""
    endings = [(size, last) for size in range(12) for last in (0, 1, 2, 15, 16, 127)]
    values = [
        tag(number, 0) + b"\x80" * size + bytes([last]) for size, last in endings for number in (1, 13, 14)
    ]
    values += [tag(12, 2) + sized(b"\xff" * size + bytes([last])) for size, last in endings]
    values += [bytes([0x88, *[0x80] * size, last]) + b"\1" for size, last in endings]
    values += [tag(7, 2) + bytes([0x81, *[0x80] * size, last]) + b"a" for size, last in endings]
    apart = told_apart(spark, schema_of(SOME), values)
    assert not apart, apart[:3]


def test_groups_and_depth_are_read_alike(spark: SparkSession) -> None:
    """Whatever the schema does not have is looked through for its end, to protobuf's depth of a hundred."""
    groups = [tag(20, 3) * depth + tag(20, 4) * depth for depth in (1, 2, 98, 99, 100, 101, 102, 5000)]
    groups += [
        tag(20, 3),
        tag(20, 4),
        tag(20, 3) + tag(21, 4),
        tag(1, 3) + tag(1, 4),
        tag(20, 3) + b"\0" + tag(20, 4),
    ]
    groups += [
        tag(20, 3) + tag(0, 0) + b"\1" + tag(20, 4),
        tag(20, 3) + UNKNOWN + tag(20, 4) + tag(1, 0) + b"\1",
    ]
    groups += [tag(20, kind) + b"12345678" for kind in range(8)] + [
        tag(0, kind) + b"12345678" for kind in range(8)
    ]
    groups += [tag(1, kind) + b"12345678" for kind in range(8)] + [
        tag(20, 1) + b"1",
        tag(20, 5) + b"1",
        tag(20, 2) + b"5",
    ]
    outside = [lambda group: group]
    outside += [lambda group, number=number: tag(number, 2) + sized(group) for number in (2, 4, 5, 6, 9)]
    outside.append(lambda group: tag(3, 2) + sized(group))
    outside.append(lambda group: tag(3, 2) + sized(tag(2, 2) + sized(group)))
    outside.append(lambda group: tag(2, 2) + sized(tag(5, 2) + sized(group)) + tag(1, 0) + b"\1")
    apart = told_apart(spark, schema_of(SOME), [put(group) for put in outside for group in groups])
    assert not apart, apart[:3]


NAMES = [b"", b"a", b"\xff", b"\xed\xa0\x80", "é".encode(), b"12345678\xc3"]


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_text_that_is_no_utf8_is_read_alike(spark: SparkSession, syntax: str) -> None:
    """Of proto2 it is a fault behind all others, but for a key, which is one in its place."""
    label = "optional" if syntax == "proto2" else ""
    schema = schema_of(
        f"""syntax = "{syntax}"; message M {{ {label} string a = 1; {label} int32 b = 2; map<string, int32> c = 3;
        map<string, M2> d = 4; map<int32, string> e = 5; repeated string f = 6; {label} int32 g = 7; }}
        message M2 {{ {label} string a = 1; }}"""
    )
    some = [b"", tag(2, 0) + FAR, tag(7, 0) + FAR, UNKNOWN]
    for name in NAMES:
        text = sized(name)
        some += [tag(1, 2) + text, tag(3, 2) + sized(tag(1, 2) + text), tag(4, 2) + sized(tag(1, 2) + text)]
        some += [tag(5, 2) + sized(tag(2, 2) + text), tag(6, 2) + text]
        some += [tag(4, 2) + sized(tag(2, 2) + sized(tag(1, 2) + text))]
    apart = told_apart(spark, schema, [one + other for one, other in permutations(some, 2)])
    assert not apart, apart[:3]


INDEXED = """
syntax = "proto3";
message A { int32 x = 1; message B { int32 x = 1; } message C { int32 x = 1; message D { int32 y = 1; } } }
message E { int32 x = 1; }
"""


@pytest.mark.parametrize("name", ["A", "A.B", "A.C.D", "E"])
@pytest.mark.parametrize("header", [0, 5])
def test_message_indexes_are_read_alike(spark: SparkSession, name: str, header: int) -> None:
    """One's own as it is usually written, those of others, and what is none."""
    indexes = [
        *(b"", b"\0", b"\2", b"\2\0", b"\2\2", b"\4\0\0", b"\4\0\2", b"\6\0\2\0", b"\6\0\2\2", b"\1", b"\3"),
        *(
            b"\x80",
            b"\x80\0",
            b"\x82\0\0",
            b"\x20" + b"\0" * 16,
            b"\x22" + b"\0" * 17,
            b"\xff\xff\xff\xff\xff\1",
        ),
        *(
            b"\x80" * size + ending
            for size in (3, 4, 5, 9, 10, 30, 79, 80)
            for ending in (b"\0", b"\2\0", b"\1")
        ),
        *(b"\x20" + b"\x80" * size + b"\0" * 16 for size in (1, 62, 63, 64, 80)),
        *(b"\x82" + b"\x80" * size + b"\0\0" for size in (1, 3, 4, 5, 6, 9, 10, 11, 76, 77, 78)),
    ]
    values = [index + content for index in indexes for content in (b"", b"\x08\1", b"\x08")]
    schema = schema_of(INDEXED, name)
    apart, causes = compared(spark, {1: schema}, [(1, b"h" * header + value) for value in values], header)
    assert not apart, apart[:3]
    assert {None, "wrong_message_type", "undecodable"} == set(causes)
    short = [(1, b"h" * size) for size in range(header)]
    assert not short or not compared(spark, {1: schema}, short, header)[0]


def test_bare_messages_are_read_alike(spark: SparkSession) -> None:
    """Where values are the message alone."""
    schema = read(compile_proto(SOME))
    schema = ProtobufMessage(schema.descriptors, (), schema.root)
    payloads = payloads_of(schema, Random(3), 50, 100)
    apart, causes = compared(spark, {1: schema}, [(1, each) for each in payloads])
    assert not apart, apart[:3]
    assert causes[None] > 50


def test_writers_of_several_schemas_are_read_alike(spark: SparkSession) -> None:
    """Into one table, wider than each: fields of another, and types as wide as any has them."""
    old = """syntax = "proto3"; message M { int32 a = 1; float b = 2; Part p = 3; repeated int32 c = 4; map<int32, float> d = 5;
        optional int32 e = 6; repeated Part ps = 7; uint32 u = 8; } message Part { sint32 x = 1; sfixed32 y = 2; }"""
    new = """syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M { Part p = 1; string z = 2; int64 a = 3;
        double b = 4; repeated sint64 c = 5; map<int32, double> d = 6; google.protobuf.Int64Value e = 7; repeated Part ps = 8;
        int64 u = 9; } message Part { Deep w = 1; int64 y = 2; int64 x = 3; } message Deep { uint64 q = 1; }"""
    wrapped = """syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M {
        google.protobuf.Int32Value e = 1; google.protobuf.FloatValue b = 2; google.protobuf.UInt32Value u = 3; }"""
    chance = Random(5)
    writers = {number: schema_of(text) for number, text in enumerate((old, new, wrapped), 7)}
    values = [
        (number, FIRST + payload)
        for number, schema in writers.items()
        for payload in payloads_of(schema, chance, 100, 300)
    ]
    values += [(number, None) for number in writers]
    chance.shuffle(values)
    for order in ((8, 7, 9), (7, 8, 9)):
        apart, causes = compared(spark, {number: writers[number] for number in order}, values)
        assert not apart, apart[:3]
        assert causes["value_out_of_range"] > 20


@pytest.mark.parametrize(
    "text",
    [
        f'syntax = "proto3"; {WELL_KNOWN} message M {{ google.protobuf.Struct a = 1; }}',
        f'syntax = "proto3"; {WELL_KNOWN} message M {{ map<string, N> a = 1; }} message N {{ repeated google.protobuf.Any b = 1; }}',
        'syntax = "proto2"; message M { optional group G = 1 { optional int32 x = 1; } }',
        'edition = "2023"; message M { string a = 1; }',
    ],
)
def test_what_the_server_does_not_know_is_left_to_python(text: str) -> None:
    """JSON, groups, and editions."""
    assert fields_of(schema_of(text)) is None
