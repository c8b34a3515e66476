"""One row, one rule: what breaks it and what does not, without a broker."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from pyspark.sql.types import StructType

from tidemark.domain.columns.spark_types import spark_json
from tidemark.domain.columns.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    Field,
    MapType,
    Struct,
    decimal,
)  # fmt: skip
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.ledger.quality_results import Rules
from tidemark.engine.decode.quality_rows import BROKEN, judged
from tidemark.engine.decode.working_columns import CAUSE, FATE
from tidemark.engine.ingest.quality_stage import validate

COLUMNS = Struct(
    (
        Field("id", LONG),
        Field("part", INT),
        Field("money", decimal(38, 2)),
        Field("ratio", FLOAT),
        Field("exact", DOUBLE),
        Field("text", STRING),
        Field("raw", BINARY),
        Field("day", DATE),
        Field("at", TIMESTAMPTZ),
        Field("local", TIMESTAMP),
        Field("tags", MapType(STRING, STRING)),
        Field("_cdc", Struct((Field("op", STRING),))),
        Field("_kafka", Struct((Field("partition", INT), Field("offset", LONG), Field("tombstone", STRING)))),
    )
)
NAN = float("nan")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEEP = "a" * 400_000
"""Java takes a level of stack for each repetition of a group, and Spark ends its JVM where there is none left."""
CASES = [
    ({"check": "in_range", "column": "id", "min": 9007199254740993}, "id", [9007199254740993, None], [9007199254740992]),
    ({"check": "in_range", "column": "part", "max": 1.5}, "part", [1, -5], [2]),
    ({"check": "in_range", "column": "money", "max": "0.105"}, "money", [Decimal("0.10")], [Decimal("0.11")]),
    ({"check": "in_range", "column": "ratio", "max": 0.1}, "ratio", [0.1, -0.0], [0.2, NAN]),
    ({"check": "in_range", "column": "exact", "min": "-.inf"}, "exact", [float("-inf"), 1e308], [NAN]),
    ({"check": "in_range", "column": "text", "min": "b"}, "text", ["b", "ä"], ["B", ""]),
    ({"check": "in_range", "column": "day", "min": "1970-01-01"}, "day", [date(1970, 1, 1)], [date(1969, 12, 31)]),
    ({"check": "in_range", "column": "at", "max": "2026-01-01T13:00:00+01:00"}, "at", [NOON], [NOON.replace(microsecond=1)]),
    ({"check": "in_range", "column": "local", "max": "2026-01-01T12:00:00"}, "local", [datetime.fromisoformat("2026-01-01T12:00:00")], [datetime.fromisoformat("2026-01-01T12:00:01")]),
    ({"check": "in_set", "column": "exact", "values": [1, ".nan"]}, "exact", [1.0, NAN, None], [2.0]),
    ({"check": "in_set", "column": "money", "values": ["1.10", 2]}, "money", [Decimal("1.1"), Decimal(2)], [Decimal("1.11")]),
    ({"check": "not_in_set", "column": "text", "values": ["NO"]}, "text", ["no", None], ["NO"]),
    ({"check": "matches", "column": "text", "pattern": "a|b"}, "text", ["a", "b", None], ["ab", "a\n", ""]),
    ({"check": "matches", "column": "text", "pattern": r"(?:[a-z]|\d)*"}, "text", ["a" * 100, None], [DEEP]),
    ({"sql": "text rlike '^(?:[a-z]|[0-9])*$'", "name": "deep"}, "text", ["a" * 100, None], [DEEP]),
    ({"check": "length", "column": "text", "max": 2}, "text", ["äö", "\U0001f600\U0001f600"], ["abc"]),
    ({"check": "length", "column": "raw", "min": 1}, "raw", [b"\0"], [b""]),
    ({"check": "length", "column": "tags", "min": 1}, "tags", [{"a": None}, None], [{}]),
    ({"check": "not_null", "column": "tags"}, "tags", [{}], [None]),
    ({"sql": "10 / part > 1", "name": "divided"}, "part", [5, None], [0, 20]),
    ({"sql": "10 / part < 9", "name": "divided_too"}, "part", [5], [0, 1]),
    ({"sql": "cast(text as int) > 1", "name": "number"}, "text", ["2", None], ["two", "1"]),
    ({"sql": "map_keys(tags)[0] = 'a'", "name": "first"}, "tags", [{"a": "1"}], [{}, {"b": "1"}]),
]  # fmt: skip


def rows_of(spark, values):
    """One row per (column, value, op, tombstone); the offset is its place."""
    schema = StructType.fromJson(spark_json(COLUMNS))
    names = [field.name for field in COLUMNS.fields[:-2]]
    rows = [
        (*(value if name == column else None for name in names), (op,), (0, place, tombstone))
        for place, (column, value, op, tombstone) in enumerate(values)
    ]
    frame = spark.createDataFrame(rows, schema).repartition(
        1
    )  # what the client brings is judged by the planner
    kafka = F.struct(
        F.col("_kafka.partition"),
        F.col("_kafka.offset"),
        F.coalesce(F.col("_kafka.tombstone") == "yes", F.lit(False)).alias("tombstone"),
    )
    return frame.withColumns({"_kafka": kafka, FATE: F.lit("written"), CAUSE: F.lit(None).cast("string")})


def test_each_rule_is_broken_by_what_is_false_and_by_nothing_else(spark):
    rules = Rules(tuple(QualityRule.model_validate(said) for said, *_ in CASES), COLUMNS)
    values, good, bad = [], {}, {}
    for place, (_, column, kept, broken) in enumerate(CASES):
        good[place] = set(range(len(values), len(values) + len(kept)))
        values += [(column, value, "c", "no") for value in kept]
        bad[place] = set(range(len(values), len(values) + len(broken)))
        values += [(column, value, "c", "no") for value in broken]
    found = judged(rows_of(spark, values), rules).toArrow().to_pylist()
    for place, (said, *_) in enumerate(CASES):
        broke = {row["_kafka"]["offset"] for row in found if row[f"{BROKEN}{place}"]}
        assert broke & (good[place] | bad[place]) == bad[place], said


def test_deletes_are_not_judged(spark):
    rules = Rules((QualityRule(check="not_null", column="id"),), COLUMNS)
    values = [
        ("id", None, op, tombstone)
        for op, tombstone in (("d", "no"), ("t", "no"), ("u", "no"), (None, "no"), (None, "yes"))
    ]
    found = judged(rows_of(spark, values), rules).toArrow().to_pylist()
    assert [(row["_kafka"]["offset"], row[CAUSE]) for row in found if row[FATE] == "quarantined"] == [
        (2, "quality:not_null"), (3, "quality:not_null"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ([("u", "no"), ("u", "no")], 1),
        ([("u", "no"), ("d", "no"), (None, "yes")], 0),
        ([("d", "no"), (None, "yes")], 0),
        ([], 0),
    ],
)
def test_a_batch_without_a_row_that_holds_values_is_not_too_small(spark, changes, missing):
    """Given at least three rows as a rule, then deletes and tombstones count as rows; a batch of nothing but them, or one of which all was quarantined or skipped, is not judged."""
    rule = QualityRule(check="min_rows", min=3, on_failure="warn")
    rows = rows_of(spark, [("id", 1, *change) for change in [*changes, ("u", "no")]])
    rows = rows.where(f"_kafka.offset < {len(changes)}")
    [found] = validate(rows, Rules((rule,), COLUMNS), lambda: rows).values()
    assert found.failed == missing


UNKNOWN = "__debezium_unavailable_value"


def test_what_debezium_did_not_know_breaks_no_rule(spark):
    """Given an update that leaves large values out, then rules judge them as NULL is judged; as text of its own they are judged, and so is what only contains the words."""
    said = [
        {"check": "length", "column": "text", "max": 2},
        {"check": "matches", "column": "text", "pattern": "a|b"},
        {"check": "in_set", "column": "text", "values": ["a"]},
        {"check": "length", "column": "raw", "max": 2},
        {"check": "length", "column": "tags", "min": 2},
        {"sql": "length(text) < 3"},
    ]
    values = [
        ("text", UNKNOWN),
        ("raw", UNKNOWN.encode()),
        ("tags", {UNKNOWN: UNKNOWN}),
        ("text", UNKNOWN * 2),
    ]
    rows = rows_of(spark, [(*each, "u", "no") for each in values])
    plain = Struct(tuple(field for field in COLUMNS.fields if field.name != "_cdc"))
    broke = {}
    for columns in (COLUMNS, plain):
        rules = Rules(tuple(QualityRule.model_validate(each) for each in said), columns)
        found = judged(rows, rules).orderBy("_kafka.offset").toArrow().to_pylist()
        broke[columns] = [[n for n in range(len(said)) if row[f"{BROKEN}{n}"]] for row in found]
    assert broke[COLUMNS] == [[5], [], [], [0, 1, 2, 5]]
    assert broke[plain] == [[0, 1, 2, 5], [3], [4], [0, 1, 2, 5]]


def test_two_values_that_debezium_did_not_know_are_not_the_same(spark):
    rows = rows_of(spark, [("text", text, "u", "no") for text in (UNKNOWN, UNKNOWN, "a", "a", None, None)])
    rule = QualityRule(check="unique", column="text", on_failure="warn")
    [found] = validate(rows, Rules((rule,), COLUMNS), lambda: rows).values()
    assert (found.failed, [each.offset for each in found.samples]) == (2, [2])
