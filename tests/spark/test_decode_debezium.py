"""Debezium's records through the real Spark: each type exactly, each op its fate, keys where a row needs one."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import debezium
import pytest
from debezium import change, connect_field, framed, semantic, unscaled, with_schema
from decoding import SOURCE, schema_of, source
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from tidemark.domain.columns.types import BINARY, LONG, STRING, Field, Struct
from tidemark.domain.formats import avro
from tidemark.domain.formats.debezium import CDC, avro_columns, document_columns, json_documents
from tidemark.engine.decode.debezium import position
from tidemark.engine.decode.decoding import NO_ID, Decoding, KeyDecoding
from tidemark.engine.decode.failures import explain_failures
from tidemark.engine.decode.key import KEY_PAYLOAD
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.shipped import debezium_json as shipped
from tidemark.engine.decode.working_columns import CAUSE, DETAIL, FATE

TIME, DATA = debezium.TIME, debezium.DATA
ENVELOPE, KEY = 41, 42
COLUMNS = {
    "day": semantic("int", f"{TIME}Date"),
    "clock_ms": semantic("int", f"{TIME}Time"),
    "clock_us": semantic("long", f"{TIME}MicroTime"),
    "clock_ns": semantic("long", f"{TIME}NanoTime"),
    "at_ms": semantic("long", f"{TIME}Timestamp"),
    "at_us": semantic("long", f"{TIME}MicroTimestamp"),
    "at_ns": semantic("long", f"{TIME}NanoTimestamp"),
    "zoned": semantic("string", f"{TIME}ZonedTimestamp"),
    "price": debezium.decimal(2, 10),
    "wide": debezium.decimal(4),
    "digits": debezium.VARIABLE,
    "doc": semantic("string", f"{DATA}Json"),
    "guid": semantic("string", f"{DATA}Uuid"),
    "bits": semantic("bytes", f"{DATA}Bits", length="12"),
    "shape": debezium.GEOMETRY,
    "note": "string",
}
SCHEMA = debezium.envelope_schema(COLUMNS)
KEY_SCHEMA = {
    "type": "record",
    "name": "Key",
    "namespace": debezium.PREFIX,
    "fields": [{"name": "id", "type": "long"}],
}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    return spark


def key_of(number: int) -> bytes:
    return framed(KEY, KEY_SCHEMA, {"id": number})


def avro_decoding(**more: Any) -> Decoding:
    schema = avro.parse(json.dumps(SCHEMA), connect=True)
    keys = Decoding(
        "avro", Struct((Field("id", LONG),)), 0, {KEY: schema_of(KEY_SCHEMA)}, payload=KEY_PAYLOAD
    )
    given = {"envelope": "debezium", "key": KeyDecoding(keys, {"id": "id"}), "reader": schema, **more}
    return Decoding("avro", avro_columns(schema, "debezium").struct, 0, {ENVELOPE: schema}, **given)


def rows_of(
    spark: SparkSession, decoding: Decoding, records: list[tuple[bytes | None, bytes | None]]
) -> list[dict[str, Any]]:
    """Decoded rows in the order of the records; timestamps with zone come as UTC."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    source = [(key, value, "orders", 0, i, at, 0, None) for i, (key, value) in enumerate(records)]
    frame = decode(spark.createDataFrame(source, SOURCE), decoding)
    rows: list[dict[str, Any]] = frame.orderBy("_kafka.offset").toArrow().to_pylist()
    return rows


def avro_rows(spark: SparkSession, values: list[Any], **more: Any) -> list[dict[str, Any]]:
    framed_values = [(key_of(7), framed(ENVELOPE, SCHEMA, value)) for value in values]
    return rows_of(spark, avro_decoding(**more), framed_values)


def full(**more: Any) -> dict[str, Any]:
    """A row with every optional column."""
    return {"id": 7, **dict.fromkeys(COLUMNS), **more}


EDGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {
            "day": -719162,
            "clock_ms": 86_399_999,
            "clock_us": 86_399_999_999,
            "clock_ns": 86_399_999_999_999,
            "at_ms": -1,
            "at_us": -62_135_596_800_000_000,
            "at_ns": -(2**63),
            "zoned": "1582-10-10T03:04:05.000001+05:30",
            "price": unscaled(-9_999_999_999),
            "wide": unscaled(10**38 - 1),
            "digits": {"scale": 3, "value": unscaled(-5)},
            "doc": '{"a": 1.10}',
            "guid": "6b0f2a1e-0000-4000-8000-000000000001",
            "bits": b"\x01\x0f",
            "shape": {"wkb": b"\x01\x02", "srid": 4326},
            "note": "__debezium_unavailable_value",
        },
        {
            "day": date(1, 1, 1),
            "clock_ms": 86_399_999_000,
            "clock_us": 86_399_999_999,
            "clock_ns": 86_399_999_999_999,
            "at_ms": datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC).replace(tzinfo=None),
            "at_us": datetime(1, 1, 1),  # noqa: DTZ001 - no zone
            "at_ns": -(2**63),
            "zoned": datetime(1582, 10, 9, 21, 34, 5, 1, tzinfo=UTC),
            "price": Decimal("-99999999.99"),
            "wide": Decimal("9999999999999999999999999999999999.9999"),
            "digits": "-0.005",
            "doc": '{"a": 1.10}',
            "guid": "6b0f2a1e-0000-4000-8000-000000000001",
            "bits": b"\x01\x0f",
            "shape": {"wkb": b"\x01\x02", "srid": 4326},
            "note": "__debezium_unavailable_value",
        },
    ),
    (
        {
            "zoned": "9999-12-31T23:59:59.9999990Z",
            "digits": {"scale": -3, "value": unscaled(12)},
            "price": b"\x00",
        },
        {
            "zoned": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "digits": "12000",
            "price": Decimal("0.00"),
        },
    ),
    ({"digits": {"scale": 0, "value": unscaled(10**60)}}, {"digits": "1" + "0" * 60}),
]


def test_every_type_lands_exactly_and_null_is_null(spark: SparkSession) -> None:
    rows = avro_rows(spark, [change("c", after=full(**given)) for given, _ in EDGES])
    for row, (_, expected) in zip(rows, EDGES, strict=True):
        assert (row[FATE], row[CAUSE]) == ("written", None)
        assert {name: row[name] for name in ("id", *COLUMNS)} == full(**expected)


def test_the_change_itself_is_a_column(spark: SparkSession) -> None:
    transaction = {"id": "555:1", "total_order": 1, "data_collection_order": 2}
    created = change("c", after=full(), transaction=transaction)
    row, read = avro_rows(spark, [created, change("r", after=full(), source=debezium.source_block(None))])
    source, block = json.loads(row["_cdc"].pop("source")), json.loads(row["_cdc"].pop("transaction"))
    assert row["_cdc"] == {
        "op": "c",
        "ts": datetime(2023, 11, 14, 22, 13, 20, 456000, tzinfo=UTC),
        "pos": "00000000000024023128",
        "snapshot": "false",
    }
    assert (source, block) == (debezium.source_block(), transaction)
    assert (read["_cdc"]["pos"], read["_cdc"]["transaction"]) == (None, None)


@pytest.mark.parametrize(
    ("given", "cause", "place"),
    [
        ({"price": unscaled(10**10)}, "value_out_of_range", "price"),
        ({"wide": unscaled(10**38)}, "value_out_of_range", "wide"),
        ({"zoned": "2026-01-01T00:00:00.1234567Z"}, "value_out_of_range", "zoned"),
        ({"zoned": "2026-01-01T00:00:00"}, "value_out_of_range", "zoned"),
        ({"zoned": "2026-01-01T00:00:00Z\n"}, "value_out_of_range", "zoned"),
        ({"zoned": "+294247-01-10T04:00:54Z"}, "value_out_of_range", "zoned"),
        ({"digits": {"scale": 2, "value": b""}}, "undecodable", "digits"),
        ({"digits": {"scale": 2**30, "value": b"\1"}}, "value_out_of_range", "digits"),
    ],
)
def test_a_value_that_does_not_fit_is_out_with_its_place(
    spark: SparkSession, given: dict[str, Any], cause: str, place: str
) -> None:
    decoding = avro_decoding()
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = framed(ENVELOPE, SCHEMA, change("c", after=full(**given)))
    frame = decode(spark.createDataFrame([(None, value, "orders", 0, 0, at, 0, None)], SOURCE), decoding)
    explanation = explain_failures(frame, decoding)[0, 0]
    assert explanation.cause == cause
    assert f"after.{place}" in explanation.detail


def test_ops_have_their_fates(spark: SparkSession) -> None:
    """c, r, u from `after`; d from `before` and the key; t and m counted; what is no change is out by name."""
    values = [
        change("u", before=full(note="old"), after=full(note="new")),
        change("d", before=full(id=1, note="gone")),
        change("d"),
        change("t"),
        change("m"),
        change("c"),
        change("x", after=full()),
        change("u", after=full(), ts_ms=2**62),
    ]
    rows = avro_rows(spark, values)
    assert [row[FATE] for row in rows] == [*["written"] * 3, *["skipped"] * 2, *["quarantined"] * 3]
    assert [row[CAUSE] for row in rows[3:]] == ["truncate", None] + ["invalid_against_schema"] * 2 + [
        "value_out_of_range"
    ]
    assert [(row["id"], row["note"]) for row in rows[:3]] == [(7, "new"), (7, "gone"), (7, None)]
    assert rows[5][DETAIL] == "no change of a row: op c, after NULL"


def test_with_an_upsert_table_tombstones_and_truncations_are_rows(spark: SparkSession) -> None:
    values = [(key_of(9), None), (None, None), (b"garbage", None), (key_of(9)[:-1], None)]
    truncate = (None, framed(ENVELOPE, SCHEMA, change("t")))
    plain = rows_of(spark, avro_decoding(key=None), [*values, truncate])
    assert [row[FATE] for row in plain] == ["tombstone"] * 4 + ["skipped"]
    rows = rows_of(spark, avro_decoding(upserts=True, required=(("id",),)), [*values, truncate])
    assert [row[FATE] for row in rows] == ["written", "tombstone", *["quarantined"] * 2, "written"]
    assert [row[CAUSE] for row in rows] == [None, None, "undecodable", "undecodable", None]
    assert (rows[0]["id"], rows[0]["note"], rows[0]["_cdc"]) == (9, None, None)
    assert rows[0]["_kafka"]["tombstone"]
    assert rows[0]["_kafka"]["key"] == key_of(9)
    assert (rows[4]["id"], rows[4]["_cdc"]["op"]) == (None, "t")
    assert rows[1][DETAIL] is None
    assert rows[2][DETAIL] == "the Kafka key 0x67617262616765 does not decode"


def test_a_tombstone_that_names_no_row_says_no_more_than_its_delete(spark: SparkSession) -> None:
    """Given keys that the contract does not decode, when a delete and its tombstone come, then the delete is the row and the tombstone is counted; a delete that names no row is out."""
    told, untold = (framed(ENVELOPE, SCHEMA, change("d", **row)) for row in ({"before": full(id=3)}, {}))
    decoding = avro_decoding(key=None, upserts=True, required=(("id",),))
    rows = rows_of(spark, decoding, [(b"3", told), (b"3", None), (b"4", untold)])
    assert [(row[FATE], row["id"], row[CAUSE]) for row in rows] == [
        ("written", 3, None),
        ("tombstone", None, None),
        ("quarantined", None, "null_key"),
    ]


def test_a_key_that_nobody_declared_may_be_missing_where_the_row_has_its_columns(spark: SparkSession) -> None:
    """Tables without a primary key have no key; without a row before the change there is nothing to go by."""
    declared = avro_decoding().key
    assert declared is not None
    decoding = avro_decoding(key=KeyDecoding(declared.decoding, declared.columns, certain=False))
    gone = framed(ENVELOPE, SCHEMA, change("d", before=full(id=3)))
    rows = rows_of(
        spark, decoding, [(None, gone), (None, framed(ENVELOPE, SCHEMA, change("d"))), (key_of(8), gone)]
    )
    assert [(row[FATE], row["id"], row[CAUSE]) for row in rows] == [
        ("written", 3, None),
        ("quarantined", None, "null_key"),
        ("written", 8, None),
    ]


def test_flattened_records_keep_what_was_added_to_them(spark: SparkSession) -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "__op", "type": ["null", "string"], "default": None},
        {"name": "__source_ts_ms", "type": ["null", "long"], "default": None},
        {"name": "__lsn", "type": ["null", "long"], "default": None},
        {"name": "__deleted", "type": ["null", "string"], "default": None},
    ]
    schema = {"type": "record", "name": "Value", "namespace": debezium.PREFIX, "fields": fields}
    parsed = avro.parse(json.dumps(schema), connect=True)
    decoding = avro_decoding(envelope="debezium_flat", reader=parsed, upserts=True)
    struct_of = avro_columns(parsed, "debezium_flat").struct
    decoding = Decoding(
        "avro", struct_of, 0, {5: parsed}, envelope="debezium_flat", key=decoding.key, upserts=True
    )
    meta = {"__op": "u", "__source_ts_ms": 1000, "__lsn": 12, "__deleted": "false"}
    values: list[Any] = [
        {"id": 1, "note": "a", **meta},
        {"id": 2, "note": "b", **meta, "__op": "d", "__deleted": "true"},
        {"id": 3, "note": "c", **dict.fromkeys(meta)},
    ]
    rows = rows_of(
        spark, decoding, [(key_of(7), framed(5, schema, value)) for value in values] + [(key_of(4), None)]
    )
    assert [row[FATE] for row in rows] == ["written"] * 4
    assert [(row["id"], row["note"]) for row in rows] == [(1, "a"), (7, "b"), (3, "c"), (4, None)]
    assert [row["_cdc"] and row["_cdc"]["op"] for row in rows] == ["u", "d", "u", None]
    assert rows[0]["_cdc"]["ts"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert rows[0]["_cdc"]["pos"] == "00000000000000000012"
    assert json.loads(rows[0]["_cdc"]["source"]) == {n.removeprefix("__"): v for n, v in meta.items()}


@pytest.mark.parametrize("upserts", [True, False])
def test_a_null_in_place_of_a_flattened_record_is_its_delete(spark: SparkSession, upserts: bool) -> None:
    """Given NULLs of a schema that allows them, as Connect's of a row does, then deletes of what their keys name."""
    fields = [
        {"name": "id", "type": "long"},
        *({"name": name, "type": ["null", kind], "default": None} for name, kind in COLUMNS.items()),
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "__lsn", "type": ["null", "long"], "default": None},
    ]
    schema = ["null", {"type": "record", "name": "Value", "namespace": debezium.PREFIX, "fields": fields}]
    parsed = avro.parse(json.dumps(schema), connect=True)
    given = {"envelope": "debezium_flat", "key": avro_decoding().key, "reader": parsed, "upserts": upserts}
    struct_of = avro_columns(parsed, "debezium_flat").struct
    required = (("id",),) if upserts else ()
    decoding = Decoding("avro", struct_of, 0, {5: parsed}, required=required, **given)
    gone = framed(5, schema, None)
    there = framed(5, schema, {**full(), "tags": {"a": "b"}, "__lsn": 12})
    records = [(key_of(7), there), (key_of(7), gone), (key_of(7), gone + b"\0"), (None, gone)]
    rows = rows_of(spark, decoding, records)
    assert [(row[FATE], row[CAUSE]) for row in rows] == [
        ("written", None),
        ("written", None),
        ("quarantined", "undecodable"),
        ("quarantined", "null_key"),
    ]
    assert [row["_cdc"]["op"] for row in rows[:2]] == ["u", "d"]
    told = {name for name, value in rows[1].items() if value is not None} & {f.name for f in struct_of.fields}
    assert (told, rows[1]["id"]) == ({"id", "_cdc"}, 7)
    assert {name for name, value in rows[1]["_cdc"].items() if value is not None} == {"op"}


FIELDS = {
    "id": "bigint",
    "day": "date",
    "at_us": "timestamp_ntz",
    "zoned": "timestamp",
    "price": "decimal(10,2)",
    "digits": "string",
    "bits": "binary",
}
CONNECT_FIELDS = [
    {"type": "int64", "optional": False, "field": "id"},
    connect_field("day", "int32", f"{TIME}Date"),
    connect_field("at_us", "int64", f"{TIME}MicroTimestamp"),
    connect_field("zoned", "string", f"{TIME}ZonedTimestamp"),
    connect_field("price", "bytes", f"{debezium.CONNECT}Decimal", scale="2"),
    connect_field("digits", "struct", f"{DATA}VariableScaleDecimal"),
    connect_field("bits", "bytes", f"{DATA}Bits", length="12"),
]


def test_json_with_and_without_its_schema(spark: SparkSession) -> None:
    documents = json_documents(FIELDS, "debezium", truncates=True)
    decoding = Decoding(
        "json",
        document_columns(documents),
        0,
        {NO_ID: documents},
        framing="bare",
        envelope="debezium",
        upserts=True,
    )
    row = {
        "id": 7,
        "day": -719162,
        "at_us": -1,
        "zoned": "2026-01-01T00:00:00.5+05:30",
        "price": debezium.base64_of(-12345),
        "digits": {"scale": 1, "value": debezium.base64_of(25)},
        "bits": "AQ8=",
        "more": 1.50,
    }
    plain = {"id": 8, "day": "2026-01-31", "price": 1.25}
    values = [
        with_schema(CONNECT_FIELDS, change("c", after=row)),
        json.dumps(change("u", after=plain)).encode(),
        json.dumps(change("m")).encode(),
        json.dumps({"ts_ms": 5}).encode(),
        json.dumps(change("t")).encode(),
        json.dumps(change("c", after={"id": 1, "day": 5})).encode(),
        json.dumps(change("c")).encode(),
        b'{"id": 1}',
        None,
    ]
    rows = rows_of(spark, decoding, [(b"k", value) for value in values])
    assert [r[FATE] for r in rows] == [
        *["written"] * 2, "skipped", "skipped", "written", *["quarantined"] * 3, "written",
    ]  # fmt: skip
    without = replace(
        decoding, writers={NO_ID: json_documents(FIELDS, "debezium", truncates=False)}, upserts=False
    )
    [emptied] = rows_of(spark, without, [(None, values[4])])
    assert (emptied[FATE], emptied[CAUSE]) == ("skipped", "truncate")
    assert [r[CAUSE] for r in rows[5:8]] == [
        "type_mismatch",
        "invalid_against_schema",
        "invalid_against_schema",
    ]
    assert {name: rows[0][name] for name in (*FIELDS, "_extra")} == {
        "id": 7,
        "day": date(1, 1, 1),
        "at_us": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC).replace(tzinfo=None),
        "zoned": datetime(2025, 12, 31, 18, 30, 0, 500000, tzinfo=UTC),
        "price": Decimal("-123.45"),
        "digits": "2.5",
        "bits": b"\x01\x0f",
        "_extra": '{"more":1.5}',
    }
    assert (rows[1]["price"], rows[1]["_cdc"]["op"]) == (Decimal("1.25"), "u")
    assert json.loads(rows[1]["_cdc"]["source"]) == debezium.source_block()
    assert rows[1]["_cdc"]["pos"] == "00000000000024023128"


def test_a_snapshot_of_mysql_has_no_place_in_the_log(spark: SparkSession) -> None:
    """Given a source whose file has no name, then there is no place, which as text would be before all others."""
    bags = ({"file": "", "pos": 0, "row": 0}, {"file": "bin.1", "pos": 4, "row": 2})
    places = [position({name: lit(value) for name, value in bag.items()}) for bag in bags]
    assert list(spark.range(1).select(*places).collect()[0]) == [shipped.position(bag) for bag in bags]
    assert shipped.position(bags[0]) is None


def test_keys_of_text_and_bytes(spark: SparkSession) -> None:
    """Text keys are read in their one spelling; raw ones are text or bytes."""
    fields = {"n": LONG, "s": STRING}
    table = Struct(tuple(Field(name, kind) for name, kind in {**fields, "value": BINARY}.items()))

    def keyed(form: Any, column: str, keys: list[bytes | None]) -> list[tuple[Any, Any]]:
        whole = Decoding(form, Struct((Field("value", fields[column]),)), 0, payload=KEY_PAYLOAD)
        decoding = Decoding("raw", table, 0, key=KeyDecoding(whole, {column: "value"}), upserts=True)
        return [(row[column], row[CAUSE]) for row in rows_of(spark, decoding, [(key, None) for key in keys])]

    numbers = [
        b"42",
        b"-9223372036854775808",
        b"42\n",
        b"43\r\n",
        b"44\xc2\x85",
        b"042",
        b"1.0",
        b"9223372036854775808",
        b"\xff",
        None,
        b"",
    ]
    assert keyed("string", "n", numbers) == [
        (42, None),
        (-(2**63), None),
        *[(None, "type_mismatch")] * 6,
        (None, "undecodable"),
        (None, "null_key"),
        (None, "type_mismatch"),
    ]
    assert keyed("raw", "s", ["é".encode(), b"", b"\xff"]) == [("é", None), ("", None), (None, "undecodable")]


def test_what_is_wrong_with_a_key_is_asked_once_however_often_it_is_used(spark: SparkSession) -> None:
    """Given a key of text for a number, when rows are chosen by their fate, then the plan does not spell out the key's checks for each mention: Spark could not compile that."""
    whole = Decoding("string", Struct((Field("value", LONG),)), 0, payload=KEY_PAYLOAD)
    table = Struct((Field("id", LONG), Field("value", BINARY)))
    key = KeyDecoding(whole, {"id": "value"})
    decoding = Decoding("raw", table, 0, key=key, upserts=True, required=(("id",),))
    decoded = decode(source(spark, [b"x", None]).repartition(1), decoding)

    def checks(rows: DataFrame) -> int:
        *_, optimized = rows._explain_string(extended=True).partition("== Optimized Logical Plan ==")
        return optimized.count(".Matches")

    failed = decoded.where((col(FATE) == "quarantined") & (col(CAUSE) == "type_mismatch"))
    assert 0 < checks(failed) <= 2 * checks(decoded)


def test_cdc_is_the_last_column() -> None:
    assert avro_decoding().columns.fields[-1] == CDC


@pytest.mark.parametrize("certain", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_key_of_many_columns_of_the_types_that_take_most_to_decode(
    spark: SparkSession, *, certain: bool
) -> None:
    """Given a primary key of eight columns of Debezium's own types, when decoded, then rows and deletes are there."""
    columns = {
        "digits": debezium.VARIABLE,
        "day": semantic("int", f"{TIME}Date"),
        "zoned": semantic("string", f"{TIME}ZonedTimestamp"),
        "at_us": semantic("long", f"{TIME}MicroTimestamp"),
        "price": debezium.decimal(2, 10),
        "guid": semantic("string", f"{DATA}Uuid"),
        "bits": "bytes",
        "at_ms": semantic("long", f"{TIME}Timestamp"),
    }
    written = debezium.envelope_schema(columns)
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    key_schema = {"type": "record", "name": "Key", "namespace": debezium.PREFIX, "fields": fields}
    schema = avro.parse(json.dumps(written), connect=True)
    own = avro_columns(schema, "debezium").struct
    key_columns = Struct(tuple(field for field in own.fields if field.name in columns))
    keys = Decoding(
        "avro",
        key_columns,
        0,
        {KEY: avro.parse(json.dumps(key_schema), connect=True)},
        payload=KEY_PAYLOAD,
    )
    decoding = Decoding(
        "avro",
        own,
        0,
        {ENVELOPE: schema},
        envelope="debezium",
        upserts=True,
        key=KeyDecoding(keys, {name: name for name in columns}, certain=certain),
        reader=schema,
        required=tuple((name,) for name in columns),
    )
    values = {
        "digits": {"scale": 1, "value": unscaled(15)},
        "day": -1,
        "zoned": "2026-01-01T00:00:00.123456+02:00",
        "at_us": -1,
        "price": unscaled(-150),
        "guid": "6b0f2a1e-0000-4000-8000-000000000001",
        "bits": b"x",
        "at_ms": -1,
    }
    key = framed(KEY, key_schema, values)
    rows = rows_of(
        spark,
        decoding,
        [
            (key, framed(ENVELOPE, written, change("c", after={"id": 7, **values}))),
            (key, framed(ENVELOPE, written, change("d"))),
            (key, None),
            (key, framed(ENVELOPE, written, change("u", after={"id": 7, **values, "day": None}))),
            (None, None),
        ],
    )
    assert [(row[FATE], row[CAUSE]) for row in rows] == [
        *[("written", None)] * 3,
        ("quarantined", "null_key"),
        ("tombstone", None),
    ]
    known = {
        "digits": "1.5",
        "day": date(1969, 12, 31),
        "zoned": datetime(2025, 12, 31, 22, 0, 0, 123456, tzinfo=UTC),
        "at_us": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC).replace(tzinfo=None),
        "price": Decimal("-1.50"),
        "guid": "6b0f2a1e-0000-4000-8000-000000000001",
        "bits": b"x",
        "at_ms": datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC).replace(tzinfo=None),
    }
    assert [{name: row[name] for name in known} for row in rows[:3]] == [known] * 3
