"""Every row of docs/types.md's Avro table, on the real Spark, with the values at which decoders slip."""

import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from decoding import (
    columns_of,
    encoded,
    exact,
    framed,
    landed,
    record,
    rows_of,
    schema_of,
    source,
)
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tidemark.domain.columns.spark_types import columns_ddl
from tidemark.domain.columns.types import (
    DOUBLE,
    KAFKA_COLUMN,
    LONG,
    Field,
    ListType,
    MapType,
    Struct,
    decimal,
)
from tidemark.domain.plan.meanings import MEANINGS, known, meanings_property
from tidemark.engine.access.iceberg_types import columns_of as table_columns
from tidemark.engine.decode.decoding import Decoding
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import CAUSE, FATE

NAN, INF = float("nan"), float("inf")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def logical(kind: str, name: str, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **attributes}


def local(*parts: int) -> datetime:
    """A wall clock time, as an Avro local-timestamp is."""
    return datetime(*parts)  # noqa: DTZ001


def fixed(size: int, **attributes: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"Fixed{size}", "size": size, **attributes}


def array(items: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **attributes}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


POINT = record(("x", "int"), ("y", ["null", "string"]), name="Point")
NOTHING = record(name="Nothing")
SCALARS: list[tuple[Any, str, list[tuple[Any, Any]]]] = [
    ("boolean", "boolean", [(True, True), (False, False)]),
    ("int", "int", [(n, n) for n in (0, -1, 2**31 - 1, -(2**31))]),
    ("long", "long", [(n, n) for n in (0, -1, 2**63 - 1, -(2**63))]),
    ("float", "float", [(x, x) for x in (0.0, -0.0, 1.5, 2.0**-149, NAN, INF, -INF)]),
    ("double", "double", [(x, x) for x in (0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, NAN, INF, -INF)]),
    ("string", "string", [(s, s) for s in ("", "é😀\u0000", " x ", "a" * 1_000_000)]),
    ("bytes", "binary", [(b, b) for b in (b"", b"\x00\xff", b"\xc3\x28")]),
    (fixed(3), "binary", [(b"\x00\xff\x10", b"\x00\xff\x10")]),
    (
        {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]},
        "string",
        [("BLUE", "BLUE"), ("RED", "RED")],
    ),
    (["null", "int"], "int", [(None, None), (0, 0)]),
    (["int", "null"], "int", [(None, None), (7, 7)]),
    (
        logical("bytes", "decimal", precision=10, scale=2),
        "decimal(10,2)",
        [(Decimal(d), Decimal(d)) for d in ("99999999.99", "-99999999.99", "0.00", "-0.01", "1.20")],
    ),
    (
        logical("bytes", "decimal", precision=38, scale=38),
        "decimal(38,38)",
        [(Decimal(d), Decimal(d)) for d in ("0." + "9" * 38, "-0." + "9" * 38)],
    ),
    (
        fixed(5, logicalType="decimal", precision=9, scale=0),
        "decimal(9,0)",
        [(Decimal(d), Decimal(d)) for d in ("999999999", "-999999999", "0")],
    ),
    (
        fixed(16, logicalType="decimal", precision=12, scale=3),
        "decimal(12,3)",
        [(Decimal(d), Decimal(d)) for d in ("999999999.999", "-0.001")],
    ),
    (
        logical("bytes", "decimal", precision=50, scale=4),
        "string",
        [
            (Decimal(d), d)
            for d in ("9" * 46 + ".9999", "-" + "9" * 46 + ".9999", "0.0000", "-0.0001", "10.0000")
        ],
    ),
    (logical("string", "uuid"), "string", [(uuid.UUID(int=5), str(uuid.UUID(int=5)))]),
    (
        logical("int", "date"),
        "date",
        [(d, d) for d in (date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(9999, 12, 31))],
    ),
    (logical("int", "time-millis"), "long", [(time(0), 0), (time(23, 59, 59, 999000), 86399999000)]),
    (logical("long", "time-micros"), "long", [(time(23, 59, 59, 999999), 86399999999)]),
    (
        logical("long", "timestamp-millis"),
        "timestamptz",
        [
            (t, t)
            for t in (datetime(1900, 1, 1, 0, 0, 0, 1000, UTC), EPOCH, datetime(9999, 12, 31, tzinfo=UTC))
        ],
    ),
    (
        logical("long", "timestamp-micros"),
        "timestamptz",
        [
            (t, t)
            for t in (
                datetime(1883, 11, 18, 1, 2, 3, 4, UTC),
                datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            )
        ],
    ),
    (
        logical("long", "local-timestamp-millis"),
        "timestamp",
        [(t, t) for t in (local(1900, 1, 1, 0, 0, 0, 1000), local(2026, 3, 29, 2, 30))],
    ),
    (
        logical("long", "local-timestamp-micros"),
        "timestamp",
        [(t, t) for t in (local(1582, 10, 10), local(2026, 3, 29, 2, 30, 0, 1))],
    ),
    (logical("long", "timestamp-nanos"), "long", [(n, n) for n in (-1, 1_700_000_000_123_456_789)]),
    (logical("long", "local-timestamp-nanos"), "long", [(n, n) for n in (-1, 1_700_000_000_123_456_789)]),
    (
        fixed(12, logicalType="duration"),
        "struct<months: long, days: long, millis: long>",
        [(struct.pack("<III", 1, 0, 2**32 - 1), {"months": 1, "days": 0, "millis": 2**32 - 1})],
    ),
    (NOTHING, "boolean", [({}, True)]),
    (["null", NOTHING], "boolean", [(None, None), ({}, True)]),
]
NESTED: list[tuple[Any, str, list[tuple[Any, Any]]]] = [
    (array(["null", "string"]), "list<string>", [([], []), (["a", None, ""], ["a", None, ""])]),
    (["null", array("int")], "list<int>", [(None, None), ([], [])]),
    (array("null"), "list<boolean>", [([None, None], [None, None])]),
    (array(NOTHING), "list<boolean>", [([{}], [True])]),
    (array(logical("int", "time-millis")), "list<long>", [([time(0, 0, 1)], [1_000_000])]),
    (
        array(logical("bytes", "decimal", precision=4, scale=1)),
        "list<decimal(4,1)>",
        [([Decimal("999.9"), Decimal("-0.1")], [Decimal("999.9"), Decimal("-0.1")])],
    ),
    (
        mapping(["null", "long"]),
        "map<string, long>",
        [({}, []), ({"": None, "a": 1}, [("", None), ("a", 1)])],
    ),
    (
        mapping(mapping(logical("long", "time-micros"))),
        "map<string, map<string, long>>",
        [({"a": {"b": time(0, 0, 1)}}, [("a", [("b", 1_000_000)])])],
    ),
    (
        array(record(("key", "int"), ("value", POINT), name="Entry"), logicalType="map"),
        "map<int, struct<x: int, y: string>>",
        [([{"key": 1, "value": {"x": 2, "y": None}}], [(1, {"x": 2, "y": None})]), ([], [])],
    ),
    (
        array(record(("key", "double"), ("value", "int"), name="Measured"), logicalType="map"),
        "map<double, int>",
        [
            (
                [{"key": key, "value": 1} for key in (0.0, -0.5, 5e-324, NAN, INF)],
                [(key, 1) for key in (0.0, -0.5, 5e-324, NAN, INF)],
            )
        ],
    ),
    (POINT, "struct<x: int, y: string>", [({"x": 1, "y": None}, {"x": 1, "y": None})]),
    (["null", POINT], "struct<x: int, y: string>", [(None, None), ({"x": 1, "y": ""}, {"x": 1, "y": ""})]),
    (
        array(["null", POINT]),
        "list<struct<x: int, y: string>>",
        [([None, {"x": 1, "y": "z"}], [None, {"x": 1, "y": "z"}])],
    ),
    (["int", "long"], "long", [(1, 1), (2**40, 2**40)]),
    (["null", "float", "double"], "double", [(None, None), (0.1, 0.1)]),
    (
        ["null", "string", "long", POINT, array("int"), mapping("int")],
        "struct<string: string, long: long, Point: struct<x: int, y: string>, array: list<int>, map: map<string, int>>",
        [
            (None, None),
            ("s", {"string": "s", "long": None, "Point": None, "array": None, "map": None}),
            (5, {"string": None, "long": 5, "Point": None, "array": None, "map": None}),
            (
                {"x": 1, "y": "b"},
                {"string": None, "long": None, "Point": {"x": 1, "y": "b"}, "array": None, "map": None},
            ),
            ([1, 2], {"string": None, "long": None, "Point": None, "array": [1, 2], "map": None}),
        ],
    ),
    (
        [logical("int", "date"), "long"],
        "struct<int: date, long: long>",
        [(date(1969, 1, 1), {"int": date(1969, 1, 1), "long": None}), (2**40, {"int": None, "long": 2**40})],
    ),
    (
        array(["string", NOTHING]),
        "list<struct<string: string, Nothing: boolean>>",
        [(["a", {}], [{"string": "a", "Nothing": None}, {"string": None, "Nothing": True}])],
    ),
]
CASES = SCALARS + NESTED
AT_ONCE = 8
"""Fields of one record: to plan a query costs more than its values."""


@pytest.mark.parametrize("first", range(0, len(CASES), AT_ONCE))
def test_a_value_lands_exactly(spark: SparkSession, first: int) -> None:
    """By itself, and inside a list, a map and an optional record."""
    land(spark, dict(enumerate(CASES[first : first + AT_ONCE])))


def land(spark: SparkSession, cases: dict[int, Any]) -> None:
    """Case `n` is the fields `v<n>` and `deep<n>`; whoever has fewer values than others has them again."""
    fields = [(f"v{n}", schema) for n, (schema, _, _) in cases.items()]
    inner = {n: record(("v", schema), name=f"Inner{n}") for n, (schema, _, _) in cases.items()}
    deep = [(f"deep{n}", array(mapping(["null", each]))) for n, each in inner.items()]
    whole = record(*fields, *deep, name="Outer")
    types = {field.name: str(field.type) for field in columns_of(whole).fields}
    assert {n: types[f"v{n}"] for n in cases} == {n: kind for n, (_, kind, _) in cases.items()}
    turns = range(max(len(values) for _, _, values in cases.values()))
    pairs = [{n: values[turn % len(values)] for n, (_, _, values) in cases.items()} for turn in turns]
    given = [
        {f"v{n}": value for n, (value, _) in pair.items()}
        | {f"deep{n}": [{"k": {"v": value}, "n": None}] for n, (value, _) in pair.items()}
        for pair in pairs
    ]
    try:
        rows = landed(spark, whole, given)
    except AssertionError as error:
        for n, case in cases.items() if len(cases) > 1 else ():
            land(spark, {n: case})
        raise AssertionError(f"not written: {[schema for schema, _, _ in cases.values()]}") from error
    for pair, row in zip(pairs, rows, strict=True):
        for n, (_, wanted) in pair.items():
            assert exact(row[f"v{n}"]) == exact(wanted), cases[n][0]
            assert exact(row[f"deep{n}"]) == exact([[("k", {"v": wanted}), ("n", None)]]), cases[n][0]


def test_instants_do_not_depend_on_the_zone_of_the_session(stack: dict[str, Any]) -> None:
    schema = record(
        ("instant", logical("long", "timestamp-micros")),
        ("local", logical("long", "local-timestamp-micros")),
        ("day", logical("int", "date")),
    )
    given = {
        "instant": datetime(2026, 3, 29, 1, 30, 0, 1, UTC),
        "local": local(2026, 3, 29, 2, 30, 0, 1),
        "day": date(1900, 1, 1),
    }
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        session = SparkSession.builder.remote(stack["spark"]["remote"]).create()
        session.conf.set("spark.sql.session.timeZone", zone)
        session.conf.set("spark.sql.avro.datetimeRebaseModeInRead", "LEGACY")
        assert landed(session, schema, [given]) == [given]
        session.stop()


def test_the_same_record_name_may_differ_from_place_to_place(spark: SparkSession) -> None:
    schema = record(
        ("a", record(("x", "int"), name="Part")),
        ("b", record(("y", "string"), ("x", "long"), name="Part")),
    )
    value = encoded("int", 5) + encoded("string", "s") + encoded("long", 6)
    rows = rows_of(spark, Decoding("avro", columns_of(schema), 0, {1: schema_of(schema)}), [framed(1, value)])
    assert (rows[0]["a"], rows[0]["b"]) == ({"x": 5}, {"y": "s", "x": 6})


def test_names_that_spark_would_refuse_are_kept(spark: SparkSession) -> None:
    schema = record(
        ("order.id", "int"),
        ("naïve 😀", record(("a`b", "int"), name="Inner")),
        ("status", {"type": "enum", "name": "Status", "symbols": ["in-progress", "done!"]}),
        ("either", ["int", {"type": "enum", "name": "Other", "symbols": ["x-y"]}]),
    )
    value = encoded("int", 1) + encoded("int", 2) + encoded("int", 1) + b"\x02\x00"
    rows = rows_of(
        spark,
        Decoding("avro", columns_of(schema), 0, {1: schema_of(schema)}),
        [framed(1, value), framed(1, b"\x02\x04\x04\x00\x02")],
    )
    assert rows[0]["order.id"] == 1
    assert rows[0]["naïve 😀"] == {"a`b": 2}
    assert rows[0]["status"] == "done!"
    assert rows[0]["either"] == {"int": None, "Other": "x-y"}
    assert rows[1][FATE] == "quarantined"


@pytest.mark.parametrize(
    ("schema", "value"),
    [("string", "text"), (["null", "long"], 5), (array("int"), [1, 2]), (mapping("int"), {})],
)
def test_what_is_no_record_becomes_one_column(spark: SparkSession, schema: Any, value: Any) -> None:
    wanted = list(value.items()) if isinstance(value, dict) else value
    assert landed(spark, schema, [value]) == [{"value": wanted}]


def test_narrow_writers_land_in_a_widened_table_beside_new_ones(spark: SparkSession) -> None:
    """Order of fields, missing fields and types differ; one pass decodes both."""
    amount = logical("bytes", "decimal", precision=6, scale=2)
    old = record(
        ("n", "int"), ("f", "float"), ("list", array("int")), ("map", mapping("float")), ("amount", amount)
    )
    inner = record(("i", "int"), name="In")
    old["fields"].append({"name": "rec", "type": ["null", inner]})
    wide = record(("j", "string"), ("i", "long"), name="In")
    new = record(
        ("rec", ["null", wide]),
        ("amount", logical("bytes", "decimal", precision=20, scale=2)),
        ("map", mapping("double")),
        ("list", array("long")),
        ("f", "double"),
        ("extra", "string"),
        ("n", "long"),
    )
    decoding = Decoding("avro", columns_of(new), 0, {1: schema_of(old), 2: schema_of(new)})
    written = {
        "n": 2**31 - 1,
        "f": 0.1,
        "list": [1],
        "map": {"k": 0.1},
        "amount": Decimal("9999.99"),
        "rec": {"i": 1},
    }
    newer = {
        "n": 2**40,
        "f": 0.1,
        "list": [2**40],
        "map": {},
        "amount": Decimal("1.00"),
        "rec": None,
        "extra": "e",
    }
    values = [framed(1, encoded(old, written)), framed(2, encoded(new, newer))]
    first, second = rows_of(spark, decoding, values)
    widened = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert (first["n"], first["f"], first["list"], first["map"]) == (
        2**31 - 1,
        widened,
        [1],
        [("k", widened)],
    )
    assert (first["amount"], first["rec"], first["extra"]) == (Decimal("9999.99"), {"j": None, "i": 1}, None)
    assert {name: second[name] for name in newer} == {**newer, "map": []}
    assert [row["_kafka"]["schema_id"] for row in (first, second)] == [1, 2]


def test_a_table_may_be_wider_than_every_writer(spark: SparkSession) -> None:
    schema = record(("n", "int"), ("l", array(record(("x", "float"), name="X"))), ("u", ["int", "string"]))
    table = Struct(
        (
            Field("later", MapType(LONG, LONG)),
            Field("l", ListType(Struct((Field("new", LONG), Field("x", DOUBLE))))),
            Field(
                "u",
                Struct(
                    (
                        Field("bytes", LONG),
                        Field("string", columns_of(record(("s", "string"))).fields[0].type),
                        Field("int", LONG),
                    )
                ),
            ),
            Field("n", LONG),
        )
    )
    assert landed(spark, schema, [{"n": 1, "l": [{"x": 0.5}], "u": 3}], table) == [
        {
            "later": None,
            "l": [{"new": None, "x": 0.5}],
            "u": {"bytes": None, "string": None, "int": 3},
            "n": 1,
        }
    ]


def test_a_missing_field_is_the_default_of_the_newest_schema(spark: SparkSession) -> None:
    """At the top and inside lists; a record that was decoded to nothing stays without."""
    old = record(("id", "int"), ("lines", array(record(("a", "int"), name="Line"))))
    line = record(
        ("a", "int"), ("b", logical("bytes", "decimal", precision=4, scale=2), "\u0001\u0000"), name="Line"
    )
    new = record(
        ("id", "int"),
        ("lines", ["null", array(["null", line])], None),
        ("day", logical("int", "date"), -1),
        ("tags", mapping("string"), {"k": "v"}),
        ("kind", ["string", "null"], "unset"),
        ("note", ["null", "string"], None),
        ("fee", ["null", "long"], None),
        ("ship", ["null", record(("to", "string"), name="Ship")], None),
        ("needed", "string"),
    )
    decoding = Decoding(
        "avro", columns_of(new), 0, {1: schema_of(old), 2: schema_of(new)}, reader=schema_of(new)
    )
    values = [framed(1, encoded(old, {"id": 1, "lines": [{"a": 2}]})), None]
    row, tombstone = rows_of(spark, decoding, values)
    assert row["lines"] == [{"a": 2, "b": Decimal("2.56")}]
    assert (row["day"], row["tags"], row["kind"]) == (date(1969, 12, 31), [("k", "v")], "unset")
    assert [row[name] for name in ("note", "fee", "ship", "needed")] == [None] * 4
    assert all(tombstone[field.name] is None for field in decoding.columns.fields)


def test_what_could_only_be_null_is_null_beside_later_types_and_defaults(spark: SparkSession) -> None:
    """A field of type null is there: no default of a newer schema takes its place, at the top and nested."""
    inner = record(("a", "null"), ("b", ["null"]), ("k", "int"), name="In")
    old = record(("n", "null"), ("m", ["null"]), ("list", array(["null"])), ("in", inner), ("s", ["null"]))
    later = record(("a", ["long", "null"], 1), ("b", ["null", "string"], None), ("k", "int"), name="In")
    new = record(
        ("n", ["string", "null"], "DEF"),
        ("m", "long", 77),
        ("list", array(["null", "boolean"])),
        ("in", later),
        ("s", ["null", "long", "string"], None),
    )
    reader = schema_of(new)
    decoding = Decoding("avro", columns_of(new), 0, {1: schema_of(old), 2: reader}, reader=reader)
    nothing = {"n": None, "m": None, "list": [None], "in": {"a": None, "b": None, "k": 1}, "s": None}
    told = {"n": "x", "m": 5, "list": [None, True], "in": {"a": 6, "b": "y", "k": 2}, "s": 7}
    first, second = rows_of(
        spark, decoding, [framed(1, encoded(old, nothing)), framed(2, encoded(new, told))]
    )
    assert {name: first[name] for name in nothing} == nothing
    assert {name: second[name] for name in told} == {**told, "s": {"long": 7, "string": None}}


def test_bare_values_have_no_header(spark: SparkSession) -> None:
    schema = record(("n", ["null", "int"]))
    decoding = Decoding("avro", columns_of(schema), 0, {9: schema_of(schema)}, framing="bare")
    rows = rows_of(spark, decoding, [encoded(schema, {"n": 5}), encoded(schema, {"n": None}), b"", None])
    assert [row[FATE] for row in rows] == ["written", "written", "quarantined", "tombstone"]
    assert [row["_kafka"]["schema_id"] for row in rows] == [9, 9, 9, None]


def test_decimals_of_a_table_may_have_more_digits(spark: SparkSession) -> None:
    schema = record(("d", logical("bytes", "decimal", precision=5, scale=2)))
    table = Struct((Field("d", decimal(38, 2)),))
    assert landed(spark, schema, [{"d": Decimal("-999.99")}], table) == [{"d": Decimal("-999.99")}]


def test_what_is_allowed_to_nest_can_be_sent(spark: SparkSession) -> None:
    """At the depth that schemas may have, with a value in need of conversion at the bottom."""
    for wrap, depth in (
        (lambda inner, _: array(inner), 19),
        (lambda inner, n: record(("v", inner), name=f"L{n}"), 9),
    ):
        schema: Any = [
            "null",
            logical("int", "time-millis"),
            "string",
            logical("bytes", "decimal", precision=5, scale=1),
        ]
        for level in range(depth):
            schema = wrap(schema, level)
        whole = record(("v", schema))
        decoding = Decoding("avro", columns_of(whole), 0, {1: schema_of(whole)})
        rows = rows_of(spark, decoding, [framed(1, b"\x00"), None])
        assert {row[FATE] for row in rows} <= {"written", "quarantined", "tombstone"}


def test_a_decimal_of_many_digits_needs_bytes(spark: SparkSession) -> None:
    whole = record(("v", logical("bytes", "decimal", precision=50, scale=2)))
    decoding = Decoding("avro", columns_of(whole), 0, {1: schema_of(whole)})
    rows = rows_of(spark, decoding, [framed(1, b"\x00"), framed(1, b"\x02\x00")])
    assert [(row[CAUSE], row["v"]) for row in rows][1] == (None, "0.00")
    assert rows[0][CAUSE] == "undecodable"


def test_a_default_stands_in_below_a_top_level_that_is_no_record(spark: SparkSession) -> None:
    older, newer = record(("a", "int")), record(("a", "int"), ("b", "int", 7))
    for old, new, given, wanted in (
        (array(older), array(newer), [{"a": 1}], [{"a": 1, "b": 7}]),
        (["null", older], ["null", newer], {"a": 1}, {"a": 1, "b": 7}),
    ):
        writers = {1: schema_of(old), 2: schema_of(new)}
        decoding = Decoding("avro", columns_of(new), 0, writers, reader=writers[2])
        [row] = rows_of(spark, decoding, [framed(1, encoded(old, given))])
        assert exact(row["value"]) == exact(wanted)


def test_what_takes_the_longest_expressions_can_be_sent_as_deep_as_it_is_allowed(spark: SparkSession) -> None:
    key: Any = logical("int", "time-millis")
    for level in range(9):
        key = record(("k", key), name=f"K{level}")
    maps: Any = {"type": "fixed", "size": 12, "name": "d", "logicalType": "duration"}
    for _ in range(5):
        maps = mapping(maps)
    pair = record(("key", key), ("value", "int"), name="Pair")
    wide = logical("bytes", "decimal", precision=39, scale=4)
    for schema, payload in (
        ({**array(pair), "logicalType": "map"}, b"\x00"),
        (maps, b"\x00"),
        (mapping(mapping(wide)), b"\x00"),
        (array(mapping(["null", record(("w", wide), name="W")])), b"\x00"),
        (record(("a", record(("b", record(("c", wide), name="C")), name="B")), name="A"), b"\x02\x00"),
    ):
        whole = record(("v", schema))
        decoding = Decoding("avro", columns_of(whole), 0, {1: schema_of(whole)})
        rows = rows_of(spark, decoding, [framed(1, payload), None])
        assert [row[FATE] for row in rows] == ["written", "tombstone"]


def test_an_iceberg_table_takes_every_type_as_it_is(spark: SparkSession, stack: dict[str, Any]) -> None:
    """CREATE TABLE from the columns, append, and PyIceberg finds the same columns and comments."""
    whole = record(*((f"c{number}", case[0]) for number, case in enumerate(CASES)))
    value = {f"c{number}": case[2][0][0] for number, case in enumerate(CASES)}
    columns = Struct((*columns_of(whole).fields, KAFKA_COLUMN))
    catalog = stack["catalog"]
    table = f"{catalog['name']}.decode_test.every_type"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog['name']}.decode_test")
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql(f"CREATE TABLE {table} ({columns_ddl(columns)}) USING iceberg")
    decoding = Decoding("avro", columns_of(whole), 0, {1: schema_of(whole)})
    decoded = decode(source(spark, [framed(1, encoded(whole, value))]), decoding).where(f"{FATE} = 'written'")
    decoded.select(*(field.name for field in columns.fields)).writeTo(table).append()
    stored = load_catalog(catalog["name"], **catalog["properties"]).load_table("decode_test.every_type")
    meanings = {MEANINGS: meanings_property(columns)}
    assert known(table_columns(stored.schema()), meanings) == columns
    row = stored.scan().to_arrow().to_pylist()[0]
    wanted = {f"c{number}": case[2][0][1] for number, case in enumerate(CASES)}
    assert {name: exact(row[name]) for name in wanted} == {
        name: exact(found) for name, found in wanted.items()
    }
    spark.sql(f"DROP TABLE {table}")
