"""Rows of a decoder that become the table's as they are, and texts that lie in the record until then: `tidemark/jvm`
beside Spark's own decoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from decoding import encoded, record, schema_of
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from pyspark.sql.avro.functions import from_avro

from tidemark.domain.formats.avro_decoder import AVRO_OPTIONS, SENTINEL, decoder_schema
from tidemark.engine.access.conditions import kept_apart

ROWS = 3000
LEFT_TO_SPARK = {**AVRO_OPTIONS, "recursiveFieldMaxDepth": "-1"}
"""The same in other words, which no rule replaces."""
TEXTS = [b"", b"x", "é😀".encode(), b"12345678", b"1234567\xff", b"of more than eight bytes", b"\xc3"]


def order(text: str) -> dict[str, Any]:
    """A writer's schema; given `bytes`, texts may be anything, and are encoded alike."""
    return record(
        ("id", "long"),
        ("text", ["null", text]),
        ("small", "int"),
        ("ratio", "double"),
        ("word", text),
        ("inner", record(("a", text), ("b", ["null", "int"]), name="Inner")),
        ("texts", {"type": "array", "items": ["null", "string"]}),
        ("pairs", {"type": "map", "values": "string"}),
    )


def older(text: str) -> dict[str, Any]:
    """A version with one field less, one more, and others in front."""
    return record(("gone", text), ("word", text), ("id", "long"), ("ratio", "double"))


def values() -> list[bytes]:
    found = []
    for number, (text, word) in enumerate(product((*TEXTS, None), TEXTS)):
        inner = {"a": TEXTS[number % 4], "b": number % 3 or None}
        pairs = {f"k{n}": "é" * n for n in range(number % 3)}
        row = {"id": number, "text": text, "small": number - 30, "ratio": number / 4, "word": word}
        texts = [None, "", "t" * number][: number % 4]
        found.append(encoded(order("bytes"), {**row, "inner": inner, "texts": texts, "pairs": pairs}))
    return [*found, found[3][:-2], found[4] + b"\0", b""]


def older_values() -> list[bytes]:
    return [
        encoded(older("bytes"), {"gone": b"g", "word": word, "id": n, "ratio": n / 2})
        for n, word in enumerate(TEXTS)
    ]


def payload(which: list[bytes]) -> Column:
    return F.element_at(F.array(*map(F.lit, which)), (F.col("n") % len(which) + 1).cast("int"))


def decoded(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Columns n, d and e: a third of the records is of the older version, and one of thirteen of neither."""
    rows = spark.range(0, ROWS, 1, 1).toDF("n")
    parts = {}
    for name, schema, found, wrote in (
        ("d", order("string"), values(), F.expr("n % 3 > 0 AND n % 13 > 0")),
        ("e", older("string"), older_values(), F.expr("n % 3 = 0 AND n % 13 > 0")),
    ):
        once = F.when(kept_apart(wrote), F.concat(payload(found), F.lit(SENTINEL)))
        parts[name] = from_avro(once, decoder_schema(schema_of(schema).root, 0), options)
    return rows.withColumns(parts)


FIELDS = {
    name: f"d.value.{name}" for name in ("id", "text", "small", "ratio", "word", "inner", "texts", "pairs")
}
CASES: dict[str, tuple[dict[str, str], bool]] = {
    "as they are": (FIELDS, True),
    "an int again": ({**FIELDS, "small": "try_cast(d.value.small AS INT)"}, True),
    "one in place of another": ({**FIELDS, "ratio": "d.value.small", "small": "d.value.ratio"}, True),
    "NULL in place of one": ({**FIELDS, "word": "nullif(d.value.text, 'x')"}, True),
    "reordered": (dict(reversed(FIELDS.items())), False),
    "one between": ({"id": "d.value.id", "new": "'added'", **FIELDS}, True),
    "one left out": ({name: FIELDS[name] for name in FIELDS if name != "text"}, True),
    "fewer": ({name: FIELDS[name] for name in ("id", "text")}, True),
    "used once more": (
        {**FIELDS, "both": "concat(d.value.text, d.value.word)", "inner_a": "d.value.inner.a"},
        True,
    ),
    "by a lambda": ({**FIELDS, "sizes": "transform(d.value.texts, each -> length(each))"}, True),
    "the row as a column": ({**FIELDS, "whole": "d.value"}, False),
    "the row in a struct": ({**FIELDS, "held": "named_struct('row', d.value)"}, False),
    "the row in a list": ({**FIELDS, "listed": "array(d.value)"}, False),
    "the row of a choice": ({**FIELDS, "chosen": "IF(n % 2 = 0, d.value, NULL)"}, False),
    "two writers": (
        {
            "id": "coalesce(d.value.id, e.value.id)",
            "text": "d.value.text",
            "word": "coalesce(d.value.word, e.value.word)",
            "gone": "e.value.gone",
            "ratio": "coalesce(d.value.ratio, e.value.ratio)",
        },
        True,
    ),
}
FATE = f"""
CASE WHEN n % 13 = 0 THEN 'unknown'
  WHEN n % 3 = 0 THEN CASE
    WHEN NOT (e.sentinel <=> X'{SENTINEL.hex()}') THEN 'undecodable'
    WHEN NOT is_valid_utf8(e.value.gone) OR NOT is_valid_utf8(e.value.word) THEN 'undecodable' ELSE 'written' END
  WHEN NOT (d.sentinel <=> X'{SENTINEL.hex()}') THEN 'undecodable'
  WHEN NOT is_valid_utf8(d.value.text) OR (NOT is_valid_utf8(d.value.word) OR NOT is_valid_utf8(d.value.inner.a))
  THEN 'undecodable' ELSE 'written' END
"""


def rows(spark: SparkSession, options: dict[str, str], columns: dict[str, str]) -> DataFrame:
    """The columns, n and the record's fate."""
    chosen = [F.expr(made).alias(name) for name, made in columns.items()]
    return decoded(spark, options).select(*chosen, "n", F.expr(FATE).alias("fate"))


def counted(columns: dict[str, str]) -> list[Column]:
    """Of every row, those that are not written included; `inner` is copied first, before anybody asks for its text."""
    hashes = [F.bit_xor(F.xxhash64(name)).alias(name) for name in columns]
    kept = [F.sort_array(F.collect_list("inner")).alias("kept")] if "inner" in columns else []
    return [*kept, F.count("*").alias("read"), *hashes]


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    yield
    spark.conf.unset(key)


def append(spark: SparkSession, table: str, columns: dict[str, str]) -> str:
    """Appends what our decoder makes of the records, counted on the way; it is what Spark's makes. Gives the plan."""
    ours, theirs = (rows(spark, options, columns) for options in (AVRO_OPTIONS, LEFT_TO_SPARK))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.records")
    ours.drop("fate").where("false").writeTo(f"lake.records.{table}").create()
    for _ in range(3):  # counts may be lost on their way from the server
        counts = Observation()
        kept = ours.observe(counts, *counted(columns)).where("fate = 'written'").drop("fate")
        kept.createOrReplaceTempView("kept")
        (plan,) = spark.sql(f"EXPLAIN INSERT INTO lake.records.{table} SELECT * FROM kept").collect()
        spark.sql(f"DELETE FROM lake.records.{table}")
        kept.writeTo(f"lake.records.{table}").append()
        if counts.get:
            break
    assert counts.get == theirs.agg(*counted(columns)).first().asDict()
    expected = theirs.where("fate = 'written'").drop("fate").orderBy("n").toArrow()
    found = spark.table(f"lake.records.{table}").orderBy("n").toArrow()
    assert 0 < len(found) < ROWS
    assert repr(found.to_pylist()) == repr(expected.to_pylist())
    return plan[0]


@pytest.mark.parametrize("case", CASES)
def test_the_rows_of_a_decoder_are_written_as_they_are(spark: SparkSession, case: str) -> None:
    """Where columns are fields of the record at the same place, others are put into its row, but for one that holds it."""
    columns, handed = CASES[case]
    plan = append(spark, case.replace(" ", "_"), columns)
    assert ("_decoded_row" in plan) == handed, plan


@pytest.mark.parametrize(("code", "many"), [("false", "100"), ("true", "15")])
def test_rows_are_taken_apart_where_the_decoder_is_no_part_of_the_code(
    spark: SparkSession, code: str, many: str
) -> None:
    """No code at all, and none for what has so many fields as the record has beside the others."""
    with (
        setting(spark, "spark.sql.codegen.wholeStage", code),
        setting(spark, "spark.sql.codegen.maxFields", many),
    ):
        plan = append(spark, f"code_{code}", FIELDS)
    assert "_decoded_row" in plan
    assert ("*(2) Records" in plan) == (code == "true"), plan


@pytest.mark.parametrize("options", [AVRO_OPTIONS, LEFT_TO_SPARK], ids=["ours", "spark"])
def test_texts_of_a_struct_are_judged_together(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], options: dict[str, str]
) -> None:
    """Three of them, also NULL: the answers are those of AND, OR and NOT for what Spark says of each alone."""
    schema, alike = (record(*((name, ["null", kind]) for name in "abc")) for kind in ("string", "bytes"))
    found = [
        encoded(alike, dict(zip("abc", three, strict=True))) for three in product((None, *TEXTS), repeat=3)
    ]
    whole = decoder_schema(schema_of(schema).root, 0)
    raw = spark.range(len(found)).toDF("n").withColumn("value", payload(found))
    once = F.when(kept_apart(F.col("n") != 7), F.concat("value", F.lit(SENTINEL)))
    read = raw.withColumn("d", from_avro(once, whole, options))
    ours = [f"is_valid_utf8(d.value.{name})" for name in "abc"]
    theirs = [
        f"IF(d.value.{name} IS NULL, NULL, try_validate_utf8(d.value.{name}) IS NOT NULL)" for name in "abc"
    ]
    forms = ("{} AND {} AND {}", "NOT {} OR (NOT {} OR NOT {})", "{} OR {} AND {}", "NOT ({} AND {}) OR {}")
    chosen = [
        F.expr(form.format(*names)).alias(f"{who}{place}")
        for place, form in enumerate(forms)
        for who, names in (("ours", ours), ("theirs", theirs))
    ]
    judged = read.select("n", *chosen)
    judged.explain(mode="extended")
    optimized = capsys.readouterr().out.partition("== Optimized Logical Plan ==")[2]
    assert "invoke([0, 1, 2].areValid(" in optimized, optimized
    for place in range(len(forms)):
        other = judged.where(~F.col(f"ours{place}").eqNullSafe(F.col(f"theirs{place}")))
        assert other.collect() == []
    assert {row.ours0 for row in judged.select("ours0").distinct().collect()} == {True, False, None}
