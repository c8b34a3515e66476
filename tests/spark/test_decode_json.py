"""Schemaless JSON through the real Spark: columns, fates and causes, evaluated once, kept by Iceberg."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from both_decoders import NAMED_BY
from decoding import rows_of, source
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from tidemark.domain.columns.spark_types import columns_ddl
from tidemark.domain.formats.json_columns import DOCUMENT, columns, declared
from tidemark.engine.decode.decoding import NO_ID, Decoding
from tidemark.engine.decode.failures import explain_failures
from tidemark.engine.decode.on_server import NAME
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import CAUSE, FATE, VALUE
from tidemark.engine.ingest.observe import Counting, Observed, evidence, observed

FIELDS = {
    "id": "bigint",
    "small": "int",
    "ok": "boolean",
    "ratio": "double",
    "price": "decimal(38,10)",
    "name": "string",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "tags": "array<string>",
    "counts": "map<string, bigint>",
    "lines": "array<struct<sku: string, price: decimal(10,2), at: array<timestamp>>>",
}
FULL = """{"id": 9223372036854775807, "small": -2147483648, "ok": false, "ratio": 0.1,
 "price": -1234567890123456789012345678.0123456789, "name": "é😀\\u0000", "day": "0001-01-01",
 "at": "9999-12-31T23:59:59.999999Z", "wall": "1582-10-10T03:04:05.000001", "tags": ["a", null, ""],
 "counts": {"": 0, "k": null}, "lines": [{"sku": "x", "price": 1.10, "at": ["2026-01-02T03:04:05+01:00"], "note": 1e2}],
 "later": {"deep": [0.10]}}""".encode()
EXPECTED = {
    "id": 2**63 - 1,
    "small": -(2**31),
    "ok": False,
    "ratio": 0.1,
    "price": Decimal("-1234567890123456789012345678.0123456789"),
    "name": "é😀\0",
    "day": date(1, 1, 1),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "wall": datetime(1582, 10, 10, 3, 4, 5, 1, tzinfo=UTC).replace(tzinfo=None),
    "tags": ["a", None, ""],
    "counts": [("", 0), ("k", None)],
    "lines": [
        {
            "sku": "x",
            "price": Decimal("1.10"),
            "at": [datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)],
            "_extra": '{"note":1E+2}',
        }
    ],
    "_extra": '{"later":{"deep":[0.10]}}',
}


def decoding_of(fields: dict[str, str] | None) -> Decoding:
    documents = declared(fields) if fields else DOCUMENT
    return Decoding("json", columns(documents), 3, {NO_ID: documents}, framing="bare")


def test_every_declared_type_goes_the_whole_way(spark: SparkSession) -> None:
    """Decoded, written by Spark into an Iceberg table, read back."""
    decoding = decoding_of(FIELDS)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.json_types")
    spark.sql("DROP TABLE IF EXISTS lake.json_types.everything PURGE")
    spark.sql(f"CREATE TABLE lake.json_types.everything ({columns_ddl(decoding.columns)}) USING iceberg")
    names = [field.name for field in decoding.columns.fields]
    decoded = decode(source(spark, [FULL, b"{}"]), decoding)
    decoded.orderBy("_kafka.offset").select(*names).writeTo("lake.json_types.everything").append()
    rows = spark.table("lake.json_types.everything").toArrow().to_pylist()
    spark.sql("DROP TABLE lake.json_types.everything PURGE")
    assert sorted(rows, key=lambda row: row["id"] is None) == [EXPECTED, dict.fromkeys(EXPECTED)]


def test_every_record_has_one_fate(spark: SparkSession) -> None:
    values = {
        b'{"id": 1}': ("written", None),
        b'{"id": null, "x": 1}': ("written", None),
        b'{"id": 1.5}': ("quarantined", "type_mismatch"),
        b'{"id": "12"}': ("quarantined", "type_mismatch"),
        b'{"id": 1180591620717411303424}': ("quarantined", "value_out_of_range"),
        b'{"id": 1, "id": 2}': ("quarantined", "undecodable"),
        b'{"id": 1} {}': ("quarantined", "undecodable"),
        b"[]": ("quarantined", "type_mismatch"),
        b"": ("quarantined", "undecodable"),
        None: ("tombstone", None),
    }
    decoding = decoding_of({"id": "bigint"})
    rows = rows_of(spark, decoding, values)
    assert [(row[FATE], row[CAUSE]) for row in rows] == list(values.values())
    assert [row[VALUE] for row in rows] == list(values)
    assert [row["_kafka"]["schema_id"] for row in rows] == [None] * len(values)
    assert [(row["id"], row["_extra"]) for row in rows[:2]] == [(1, None), (None, '{"x":1}')]
    found = explain_failures(decode(source(spark, values), decoding), decoding)
    assert {offset: each.cause for (_, offset), each in found.items()} == {
        offset: cause for offset, (fate, cause) in enumerate(values.values()) if fate == "quarantined"
    }
    assert found[0, 2].detail == "/id: 1.5 where an integer belongs"


def test_a_document_without_declared_columns_is_one_column(spark: SparkSession) -> None:
    rows = rows_of(spark, decoding_of(None), [b' {"a": 1.0} ', b"{", None, b"null"])
    assert [(row["value"], row[FATE]) for row in rows] == [
        (' {"a": 1.0} ', "written"),
        (None, "quarantined"),
        (None, "tombstone"),
        ("null", "written"),
    ]


def test_a_table_with_more_columns_reads_null_there(spark: SparkSession) -> None:
    narrow, wide = (
        decoding_of({"id": "bigint"}),
        decoding_of({"id": "bigint", "more": "struct<a: array<date>>"}),
    )
    decoding = Decoding("json", wide.columns, 0, narrow.writers, framing="bare")
    [row] = rows_of(spark, decoding, [b'{"id": 1, "more": {}}'])
    assert (row["id"], row["more"], row["_extra"]) == (1, None, '{"more":{}}')


@pytest.mark.parametrize(
    "evaluated",
    [("invoke(tidemark_decode.decode(",), ("ArrowEvalPython", f"{NAME}(")],
    ids=["server", "python"],
)
def test_a_batch_is_evaluated_once_and_counted_once(
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    evaluated: tuple[str, ...],
) -> None:
    """Filters on the fate and the counting beside a write must not bring a second evaluation."""
    raw = spark.range(10_000).selectExpr(
        "cast(null as binary) key",
        """cast(if(id % 10 = 0, 'x', concat('{"id": ', id, ', "more": 1}')) as binary) value""",
        "'t' topic",
        "0 partition",
        "id offset",
        "current_timestamp() timestamp",
        "0 timestampType",
        "cast(null as array<struct<key: string, value: binary>>) headers",
    )
    if "ArrowEvalPython" in evaluated:
        monkeypatch.setattr(NAMED_BY, lambda *_: NAME)
    decoding = decoding_of({"id": "bigint"})
    decoded = decode(raw, decoding)
    written = decoded.where("_tidemark_fate = 'written'").select("id", "_extra", "_kafka")
    for query in (decoded, written, written.where("id > 5"), decoded.groupBy(FATE).count()):
        query.explain()
        plan = capsys.readouterr().out
        assert [plan.count(each) for each in evaluated] == [1] * len(evaluated), plan
    observation = Observed("batch")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.json_types")
    spark.sql("DROP TABLE IF EXISTS lake.json_types.once PURGE")
    spark.sql(
        "CREATE TABLE lake.json_types.once (id bigint) USING iceberg TBLPROPERTIES ('write.distribution-mode'='none')"
    )
    counting = Counting([0])
    counted = observed(decoded, counting, observation).where("_tidemark_written")
    counted.select("id").writeTo("lake.json_types.once").append()
    seen = evidence(observation, counting)
    assert (seen.read, seen.unwritten) == ({0: 10_000}, 1_000)
    assert spark.table("lake.json_types.once").count() == 9_000
    spark.sql("DROP TABLE lake.json_types.once PURGE")


def test_a_value_is_decoded_where_no_session_is_the_active_one(spark: SparkSession, monkeypatch: Any) -> None:
    """Given a thread whose sessions are closed: PySpark would ask the active one what a DDL string means."""
    rows = source(spark, [b'{"id": 1, "later": 2}'])
    decoding = decoding_of(FIELDS)
    monkeypatch.setattr(ConnectSession, "_default_session", None)
    with ThreadPoolExecutor(1) as elsewhere:
        [row] = elsewhere.submit(lambda: decode(rows, decoding).collect()).result()
    assert (row[FATE], row["id"]) == ("written", 1)
