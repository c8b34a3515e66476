"""What cannot be decoded is quarantined with its cause, and the explanation says where and why."""

import struct
from typing import Any

import pytest
from decoding import columns_of, encoded, framed, record, rows_of, schema_of, source
from pyspark.sql import SparkSession

from tidemark.domain.columns.types import BINARY, LONG, STRING, Field, Struct
from tidemark.domain.formats.avro_default import zigzag
from tidemark.engine.access.spark_limits import missing_limits
from tidemark.engine.decode.decoding import Decoding
from tidemark.engine.decode.failures import Bounds, explain_failures
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import CAUSE, FATE, VALUE

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
TEXTS = {"type": "array", "items": ["null", "string"]}
COUNTS = {"type": "map", "values": "int"}


def keyed(key: Any) -> dict[str, Any]:
    """A map of this key to nothing."""
    pair = record(("key", key), ("value", "null"), name="Pair")
    return {"type": "array", "items": pair, "logicalType": "map"}


def octets(content: bytes) -> bytes:
    return encoded("bytes", content)


BEYOND = zigzag(3_000_000_000)
MINUS_ZERO, NAN = struct.pack("<d", -0.0), float("nan")
ITEM = record(("name", ["null", "string"]), name="Item")
ITEMS = {"type": "array", "items": ["null", record(("n", "int"), ("of", ITEM), name="Of")]}

FAULTS: list[tuple[str, Any, bytes, str, str, str]] = [
    ("truncated", "string", b"\x0aab", "undecodable", "undecodable", "v: truncated"),
    ("empty", "long", b"", "undecodable", "undecodable", "v: truncated"),
    ("trailing", "int", b"\x02\x00", "undecodable", "undecodable", "1 bytes follow"),
    ("utf8", "string", b"\x04\xc3\x28", "undecodable", "undecodable", "v: no UTF-8 at byte 0"),
    (
        "utf8 java",
        {"type": "string", "avro.java.string": "String"},
        b"\x02\xff",
        "undecodable",
        "undecodable",
        "v: no UTF-8",
    ),
    ("utf8 deep", TEXTS, b"\x02\x02\x02\xff\x00", "undecodable", "undecodable", "v.element: no UTF-8"),
    (
        "utf8 split",
        TEXTS,
        b"\x04\x02\x02\xc3\x02\x02\xa9\x00",
        "undecodable",
        "undecodable",
        "v.element: no UTF-8",
    ),
    (
        "utf8 in records",
        ITEMS,
        b"\x04\x00\x02\x02\x02\x02\xff\x00",
        "undecodable",
        "undecodable",
        "v.element.of.name: no UTF-8",
    ),
    ("utf8 key", COUNTS, b"\x02\x02\xff\x02\x00", "undecodable", "undecodable", "v.key: no UTF-8"),
    ("key twice", COUNTS, b"\x04\x02a\x02\x02a\x04\x00", "undecodable", "undecodable", "v: the map key"),
    *(
        (f"key {name}", keyed(kind), b"\x04" + body + b"\x00", cause, cause, says)
        for kind, ahead in (("double", b""), (["null", "double"], b"\x02"))
        for name, body, cause, says in (
            ("0 twice", ahead + bytes(8) + ahead + MINUS_ZERO, "undecodable", "v: the map key"),
            ("-0 twice", (ahead + MINUS_ZERO) * 2, "undecodable", "v: the map key"),
            ("NaN twice", (ahead + struct.pack("<d", NAN)) * 2, "undecodable", "v: the map key"),
            (
                "-0 that would be 0",
                ahead + struct.pack("<d", 1) + ahead + MINUS_ZERO,
                "value_out_of_range",
                "v: the map key -0.0",
            ),
        )
    ),
    (
        "key -0 of 32 bits",
        keyed("float"),
        b"\x02" + struct.pack("<f", -0.0) + b"\x00",
        "value_out_of_range",
        "value_out_of_range",
        "v: the map key -0.0",
    ),
    (
        "key of records twice",
        keyed(record(("x", "double"), name="X")),
        b"\x04" + MINUS_ZERO * 2 + b"\x00",
        "undecodable",
        "undecodable",
        "v: the map key",
    ),
    *(
        (
            f"int {name}",
            kind,
            body,
            "value_out_of_range",
            "value_out_of_range",
            f"{path}: 3000000000 in an int",
        )
        for name, kind, body, path in (
            ("of more than 32 bits", "int", BEYOND, "v"),
            ("in an optional", ["null", "int"], b"\x02" + BEYOND, "v"),
            ("in a union", ["null", "string", "int"], b"\x04" + BEYOND, "v.int"),
            (
                "in a list",
                {"type": "array", "items": ["null", "int"]},
                b"\x06\x00\x02\x02\x02" + BEYOND + b"\x00",
                "v.element",
            ),
            ("in a map", COUNTS, b"\x02\x02k" + BEYOND + b"\x00", "v.value"),
            ("as a key", keyed("int"), b"\x02" + BEYOND + b"\x00", "v.key"),
            ("in records of lists", ITEMS, b"\x02\x02" + BEYOND + b"\x00\x00", "v.element.n"),
            ("that is a date", {"type": "int", "logicalType": "date"}, BEYOND, "v"),
            ("that is a time", {"type": "int", "logicalType": "time-millis"}, BEYOND, "v"),
            (
                "in a list of dates",
                {"type": "array", "items": {"type": "int", "logicalType": "date"}},
                b"\x04\x02" + BEYOND + b"\x00",
                "v.element",
            ),
        )
    ),
    (
        "int below",
        "int",
        zigzag(-(2**31) - 1),
        "value_out_of_range",
        "value_out_of_range",
        "v: -2147483649 in an int",
    ),
    (
        "int of 64 bits",
        "int",
        zigzag(2**63 - 1),
        "value_out_of_range",
        "value_out_of_range",
        "v: 9223372036854775807 in an int",
    ),
    (
        "decimal key",
        keyed(DECIMAL),
        b"\x02" + octets(b"\x7f\xff") + b"\x00",
        "value_out_of_range",
        "value_out_of_range",
        "v.key: 5 digits",
    ),
    ("decimal", DECIMAL, octets(b"\x7f\xff"), "value_out_of_range", "value_out_of_range", "v: 5 digits"),
    (
        "decimal of 64 bits and more",
        DECIMAL,
        octets(b"\x01" + b"\0" * 7 + b"\x05"),
        "value_out_of_range",
        "value_out_of_range",
        "v: 20 digits",
    ),
    (
        "decimal beyond 38 digits",
        DECIMAL,
        octets(b"\x7f" * 17),
        "undecodable",
        "value_out_of_range",
        "v: 41 digits",
    ),
    ("wide decimal", WIDE, octets(b"\x7f" * 14), "undecodable", "value_out_of_range", "v: 34 digits"),
    (
        "timestamp",
        MILLIS,
        encoded("long", 2**62),
        "undecodable",
        "value_out_of_range",
        "v: 4611686018427387904 ms",
    ),
    (
        "enum",
        {"type": "enum", "name": "E", "symbols": ["A"]},
        b"\x02",
        "undecodable",
        "undecodable",
        "v: number 1 of 1 symbols",
    ),
    ("branch", ["null", "int"], b"\x04", "undecodable", "undecodable", "v: number 2 of 2 branches"),
    ("negative length", "bytes", b"\x01", "undecodable", "undecodable", "v: a length of -1"),
    ("endless number", "long", b"\xff" * 11, "undecodable", "undecodable", "v: no end of a long"),
]


@pytest.mark.parametrize(
    ("schema", "payload", "cause", "explained", "detail"),
    [fault[1:] for fault in FAULTS],
    ids=[f[0] for f in FAULTS],
)
def test_a_fault_is_quarantined_and_explained(
    spark: SparkSession, schema: Any, payload: bytes, cause: str, explained: str, detail: str
) -> None:
    written = schema_of(record(("v", schema)))
    decoding = Decoding("avro", columns_of(record(("v", schema))), 0, {3: written})
    decoded = decode(source(spark, [framed(3, payload)]), decoding)
    assert [tuple(row) for row in decoded.select(FATE, CAUSE).collect()] == [("quarantined", cause)]
    found = explain_failures(decoded, decoding)[0, 0]
    assert (found.cause, found.detail[: len(detail)]) == (explained, detail)


def test_texts_of_lists_may_be_null_or_missing(spark: SparkSession) -> None:
    schema = record(("texts", ["null", TEXTS]), ("items", ITEMS))
    values = [
        {"texts": None, "items": []},
        {"texts": ["é", None, ""], "items": [None, {"n": 1, "of": {"name": None}}]},
        {"texts": [], "items": [{"n": 2, "of": {"name": "日本"}}]},
    ]
    decoding = Decoding("avro", columns_of(schema), 0, {3: schema_of(schema)})
    decoded = decode(source(spark, [framed(3, encoded(schema, value)) for value in values]), decoding)
    assert [row[FATE] for row in decoded.collect()] == ["written"] * 3
    assert [{"texts": row["texts"], "items": as_dicts(row["items"])} for row in decoded.collect()] == values


def as_dicts(items: Any) -> Any:
    return [item and item.asDict(recursive=True) for item in items]


HUGE = zigzag(2**31 - 10)
LENGTHS = {"string": "string", "bytes": "bytes", "list": {"type": "array", "items": "int"}, "map": COUNTS}


@pytest.mark.parametrize("schema", LENGTHS.values(), ids=LENGTHS)
def test_a_damaged_length_does_not_take_the_server_down(spark: SparkSession, schema: Any) -> None:
    if missing_limits(spark):
        pytest.fail("start the server with tidemark.domain.spark_server.JVM_OPTIONS")
    whole = record(("v", schema))
    decoding = Decoding("avro", columns_of(whole), 0, {3: schema_of(whole)})
    rows = rows_of(spark, decoding, [framed(3, HUGE + b"abc"), framed(3, b"\x00")])
    assert [row[FATE] for row in rows] == ["quarantined", "written"]


@pytest.mark.parametrize("place", ["list", "record", "map", "union"])
def test_faults_are_found_at_any_depth(spark: SparkSession, place: str) -> None:
    """A decimal too wide and a text that is none, one record each, beside a good one."""
    inner = record(("d", DECIMAL), ("s", "string"), name="Inner")
    wrap = {
        "list": ({"type": "array", "items": inner}, lambda body: b"\x02" + body + b"\x00"),
        "record": (inner, lambda body: body),
        "map": ({"type": "map", "values": inner}, lambda body: b"\x02\x02k" + body + b"\x00"),
        "union": (["null", "int", inner], lambda body: b"\x04" + body),
    }
    schema, around = wrap[place]
    whole = record(("v", schema))
    bodies = [octets(b"\x01") + b"\x02a", octets(b"\x7f\xff") + b"\x02a", octets(b"\x01") + b"\x02\xff"]
    decoding = Decoding("avro", columns_of(whole), 0, {3: schema_of(whole)})
    decoded = decode(source(spark, [framed(3, around(body)) for body in bodies]), decoding).orderBy(
        "_kafka.offset"
    )
    causes = [row[CAUSE] for row in decoded.select(CAUSE).collect()]
    assert causes == [None, "value_out_of_range", "undecodable"]


def test_every_record_has_one_fate(spark: SparkSession) -> None:
    schema = record(("n", "int"))
    good = encoded(schema, {"n": 1})
    values = {
        framed(1, good): ("written", None),
        None: ("tombstone", None),
        b"": ("quarantined", "no_magic_byte"),
        b"\x00\x00\x00\x01": ("quarantined", "no_magic_byte"),
        b"\x01\x00\x00\x00\x01\x02": ("quarantined", "no_magic_byte"),
        b"{}": ("quarantined", "no_magic_byte"),
        framed(1, b""): ("quarantined", "undecodable"),
        framed(2, good): ("quarantined", "unknown_schema_id"),
        framed(2**31 - 1, good): ("quarantined", "unknown_schema_id"),
        struct.pack(">bI", 0, 2**32 - 1): ("quarantined", "unknown_schema_id"),
        framed(3, good): ("uncovered", None),
        framed(4, good): ("skipped", None),
    }
    decoding = Decoding(
        "avro",
        columns_of(schema),
        5,
        {1: schema_of(schema)},
        uncovered=frozenset({3}),
        skipped=frozenset({4}),
    )
    rows = rows_of(spark, decoding, values)
    assert [(row[FATE], row[CAUSE]) for row in rows] == list(values.values())
    assert [row[VALUE] for row in rows] == list(values)
    ids = [row["_kafka"]["schema_id"] for row in rows]
    assert ids == [1, None, None, None, None, None, 1, 2, 2**31 - 1, -1, 3, 4]
    assert [row["_kafka"]["tombstone"] for row in rows] == [value is None for value in values]
    assert {row["_kafka"]["epoch"] for row in rows} == {5}


def test_a_topic_without_any_covered_writer_is_all_uncovered_or_unknown(spark: SparkSession) -> None:
    decoding = Decoding("avro", columns_of(record(("n", "int"))), 0, uncovered=frozenset({3}))
    rows = rows_of(spark, decoding, [framed(3, b"\x02"), framed(4, b"\x02"), None])
    assert [row[FATE] for row in rows] == ["uncovered", "quarantined", "tombstone"]


def test_text_must_be_utf8(spark: SparkSession) -> None:
    decoding = Decoding("string", Struct((Field("value", STRING),)), 0)
    values = ["é😀".encode(), b"", b"\xc3\x28", None]
    decoded = decode(source(spark, values), decoding)
    rows = decoded.where("_tidemark_fate != 'quarantined'").orderBy("_kafka.offset").collect()
    assert [(row["value"], row[FATE]) for row in rows] == [
        ("é😀", "written"),
        ("", "written"),
        (None, "tombstone"),
    ]
    assert explain_failures(decoded, decoding)[0, 2].detail == "no UTF-8 at byte 0 of the value"


def test_raw_bytes_are_never_quarantined(spark: SparkSession) -> None:
    decoding = Decoding("raw", Struct((Field("value", BINARY),)), 0)
    rows = rows_of(spark, decoding, [b"\xff", b"", None])
    assert [(row["value"], row[FATE]) for row in rows] == [
        (b"\xff", "written"),
        (b"", "written"),
        (None, "tombstone"),
    ]


def test_text_and_bytes_land_in_their_column_beside_those_of_an_earlier_contract(spark: SparkSession) -> None:
    """The table was declared JSON before, or adopted: its first column is another."""
    for format_, kind, good in (("string", STRING, "a"), ("raw", BINARY, b"\xff")):
        table = Struct((Field("id", LONG), Field("value", kind), Field("bytes", BINARY)))
        values = [good.encode() if isinstance(good, str) else good, b"\xff", None]
        rows = rows_of(spark, Decoding(format_, table, 0), values)
        assert [row[FATE] for row in rows] == [
            "written",
            "quarantined" if kind == STRING else "written",
            "tombstone",
        ]
        assert (rows[0]["id"], rows[0]["value"], rows[0]["bytes"]) == (None, good, None)


def test_the_second_look_is_bounded(spark: SparkSession) -> None:
    schema = record(("s", "string"))
    decoding = Decoding("avro", columns_of(schema), 0, {1: schema_of(schema)})
    decoded = decode(source(spark, [framed(1, b"\x64" + b"x" * i) for i in range(20)]), decoding)
    assert len(explain_failures(decoded, decoding, Bounds(rows=5))) == 5
    assert len(explain_failures(decoded, decoding, Bounds(value_bytes=10))) == 5
    assert len(explain_failures(decoded, decoding, Bounds(total_bytes=20))) == 2


def test_a_record_is_decoded_once_whatever_is_asked_of_it(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Filters on the fate must not bring a second from_avro into the plan."""
    schema = record(("n", "int"), ("s", "string"), ("t", "string"))
    decoding = Decoding("avro", columns_of(schema), 0, {1: schema_of(schema)})
    raw = spark.range(10).selectExpr(
        "cast(null as binary) key",
        "cast(cast(id as string) as binary) value",
        "'t' topic",
        "0 partition",
        "id offset",
        "current_timestamp() timestamp",
        "0 timestampType",
        "cast(null as array<struct<key: string, value: binary>>) headers",
    )
    decoded = decode(raw, decoding)
    written = decoded.where("_tidemark_fate = 'written'").select("n", "s", "_kafka")
    for query in (decoded, written, written.where("n > 5"), decoded.groupBy(FATE).count()):
        query.explain()
        plan = capsys.readouterr().out
        assert plan.lower().count("from_avro") == 1, plan


@pytest.mark.parametrize("width", [60, 1_000])
def test_a_wide_table_decodes(spark: SparkSession, width: int) -> None:
    """A chain of a thousand checks would be a message that cannot be sent."""
    schema = record(*((f"c{number}", "string" if number % 2 else "int") for number in range(width)))
    value = {f"c{number}": "x" if number % 2 else number for number in range(width)}
    decoding = Decoding("avro", columns_of(schema), 0, {1: schema_of(schema)})
    rows = rows_of(spark, decoding, [framed(1, encoded(schema, value)), framed(1, b"\x00\x02\xff")])
    assert {name: rows[0][name] for name in value} == value
    assert [row[FATE] for row in rows] == ["written", "quarantined"]
