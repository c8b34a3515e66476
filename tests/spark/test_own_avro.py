"""The Avro decoder in `tidemark/jvm` beside Spark's own `from_avro`: the same answer to whatever comes."""

from random import Random
from typing import Any

import pytest
from damage import damaged
from decoding import encoded, record, schema_of
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro
from random_avro import Maker
from seeds import first

from tidemark.domain.formats.avro_decoder import AVRO_OPTIONS, SENTINEL, decoder_schema

LEFT_TO_SPARK = {**AVRO_OPTIONS, "recursiveFieldMaxDepth": "-1"}
"""The same in other words, which no rule replaces."""
EVERY_TYPE = record(
    ("flag", "boolean"),
    ("small", "int"),
    ("big", "long"),
    ("single", "float"),
    ("twice", "double"),
    ("text", "string"),
    ("raw", "bytes"),
    ("maybe", ["null", "string"]),
    ("number", ["int", "long"]),
    ("real", ["float", "double"]),
    ("several", ["null", "string", "long", {"type": "array", "items": "int"}]),
    ("symbol", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("four", {"type": "fixed", "name": "F", "size": 4}),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    (
        "wide",
        {"type": "fixed", "name": "W", "size": 17, "logicalType": "decimal", "precision": 38, "scale": 5},
    ),
    ("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("lists", {"type": "array", "items": {"type": "array", "items": ["null", "double"]}}),
    (
        "pairs",
        {"type": "map", "values": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}},
    ),
)


def told_apart(spark: SparkSession, schema: dict[str, Any], values: list[bytes]) -> list[str]:
    """The values, in hex, of which the two make something else; texts tell NaN and -0.0, hashes what types hide."""
    text = decoder_schema(schema_of(schema).root, 0)
    rows = [Row(value=value) for value in values]
    payload = F.concat(F.col("value"), F.lit(SENTINEL))
    once = F.when(F.spark_partition_id() >= 0, payload)
    ours, theirs = (from_avro(once, text, options) for options in (AVRO_OPTIONS, LEFT_TO_SPARK))
    read = spark.createDataFrame(rows, "value binary").select(
        "value", ours.alias("ours"), theirs.alias("theirs")
    )
    alike = F.lit(True)
    for same in (lambda one: one.cast("string"), F.xxhash64):
        alike &= same(F.col("ours")).eqNullSafe(same(F.col("theirs")))
    return [row["value"] for row in read.where(~alike).select(F.hex("value").alias("value")).collect()]


def test_the_server_reads_avro_with_our_decoder(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the comparison would be of Spark with itself."""
    text = decoder_schema(schema_of(EVERY_TYPE).root, 0)
    for options, replaced in ((AVRO_OPTIONS, True), (LEFT_TO_SPARK, False)):
        raw = spark.range(1).select(F.col("id").cast("string").cast("binary").alias("value"))
        raw.select(from_avro(F.when(F.spark_partition_id() >= 0, F.col("value")), text, options)).explain(
            mode="extended"
        )
        optimized = capsys.readouterr().out.partition("== Optimized Logical Plan ==")[2]
        assert ("invoke(from_avro.decode(" in optimized) == replaced, optimized


def test_every_type_is_read_alike(spark: SparkSession) -> None:
    """Good values, and a few thousand damaged ones: what one refuses the other refuses."""
    chance = Random(7)
    maker = Maker(chance)
    good = [encoded(EVERY_TYPE, maker.value(EVERY_TYPE)) for _ in range(200)]
    values = good + [damaged(chance, chance.choice(good)) for _ in range(3000)] + [b""]
    assert not told_apart(spark, EVERY_TYPE, values)


def test_values_that_end_in_the_sentinel_or_in_a_part_of_it_are_read_alike(spark: SparkSession) -> None:
    chance = Random(8)
    maker = Maker(chance)
    good = [encoded(EVERY_TYPE, maker.value(EVERY_TYPE)) for _ in range(20)]
    values = [value + SENTINEL[:size] for value in good for size in range(len(SENTINEL) + 1)]
    values += [value[:-size] + SENTINEL for value in good for size in range(1, 2 * len(SENTINEL))]
    values += [value + bytes(size) for value in good for size in range(1, 2 * len(SENTINEL))]
    assert not told_apart(spark, EVERY_TYPE, values)


@pytest.mark.parametrize(("behind", "told"), [(SENTINEL, True), (SENTINEL[:-1], False)])
def test_bytes_behind_a_value_are_told_where_a_last_field_has_their_length(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], behind: bytes, told: bool
) -> None:
    """Given other bytes, they are put there, and the last field takes one of the value's."""
    text = decoder_schema(schema_of(record(("raw", "bytes"))).root, 0)
    raw = spark.range(2).select(F.when(F.col("id") == 0, F.lit(bytes([2, 7]))).alias("value"))
    once = F.when(F.spark_partition_id() >= 0, F.concat(F.col("value"), F.lit(behind)))
    found = raw.select(from_avro(once, text, AVRO_OPTIONS).alias("found"))
    found.explain(mode="extended")
    optimized = (
        capsys.readouterr().out.partition("== Optimized Logical Plan ==")[2].partition("== Physical")[0]
    )
    decoded = optimized.partition(" AS found")[0]
    assert "invoke(from_avro.decode(" in decoded
    assert ("concat(" in decoded) != told
    ended, missing = (row["found"] for row in found.coalesce(1).collect())
    assert ended["sentinel"] == (SENTINEL if told else None)
    assert missing is None


@pytest.mark.parametrize("seed", first(6, of=12))
def test_random_schemas_are_read_alike(spark: SparkSession, seed: int) -> None:
    """Nested records, unions, lists and maps as they come."""
    chance = Random(seed)
    maker = Maker(chance)
    schema = maker.record(6, 3)
    good = [encoded(schema, maker.value(schema)) for _ in range(40)]
    values = good + [damaged(chance, chance.choice(good)) for _ in range(400)]
    assert not told_apart(spark, schema, values)


def test_numbers_of_too_many_bytes_are_refused_alike(spark: SparkSession) -> None:
    """Zigzag numbers of up to twelve bytes, also such as do not end."""
    schema = record(("small", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), ("big", "long"))
    values = [
        bytes([0, *[0x80 | n] * size, last])
        for size in range(12)
        for n in (0, 1, 127)
        for last in (0, 1, 2, 127)
    ]
    values += [bytes([*[0x80] * size, last, 0]) for size in range(8) for last in (0, 1, 2, 4, 127)]
    assert not told_apart(spark, schema, values)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"plain ascii of more than eight bytes",
        "é😀".encode(),
        b"\xff",
        b"12345678\xc3",
        b"1234567\xc3\xa9",
    ],
)
def test_valid_utf8_is_told_from_other_bytes(spark: SparkSession, text: bytes) -> None:
    """As Python tells it."""
    raw = spark.createDataFrame([Row(value=text)], "value binary")
    (row,) = raw.select(F.is_valid_utf8(F.col("value").cast("string")).alias("valid")).collect()
    assert row["valid"] == (text.decode(errors="replace").encode() == text)


def test_one_wrong_byte_is_seen_wherever_it_is(spark: SparkSession) -> None:
    """Given texts of 0 to 25 bytes with a byte in each place that is no UTF-8, when they are judged, then none is valid but those without it."""
    texts = [b"a" * size for size in range(26)]
    broken = [text[:at] + b"\xff" + text[at + 1 :] for text in texts for at in range(len(text))]
    raw = spark.createDataFrame([Row(value=text) for text in (*texts, *broken)], "value binary")
    judged = raw.select("value", F.is_valid_utf8(F.col("value").cast("string")).alias("valid"))
    assert {bytes(row.value) for row in judged.collect() if row.valid} == set(texts)
