"""Rule: what a pass counts by Kafka partition is exact, whoever reads which records, however many partitions there are."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tidemark.domain.formats.routes import UNROUTED
from tidemark.engine.access.spark import connect
from tidemark.engine.decode.working_columns import CAUSE, FATE
from tidemark.engine.ingest.observe import Counting, EventTime, Observed, evidence, observed


@pytest.mark.parametrize(("partitions", "tasks"), [(1, 5), (2, 3), (5, 7), (64, 16), (300, 40), (997, 9)])
def test_partitions_that_many_tasks_read_are_counted_one_by_one(stack, partitions, tasks):
    rows = connect(stack["spark"]["remote"]).range(0, 100_003, 1, tasks)
    fate = (
        F.when(F.col("id") % 7 == 0, "tombstone").when(F.col("id") % 5 == 0, "skipped").otherwise("written")
    )
    parts = {
        "partition": F.pmod(F.hash("id"), F.lit(partitions)),
        "timestamp": F.timestamp_millis("id"),
        "schema_id": F.lit(1),
    }
    rows = rows.select(
        F.struct(*(part.alias(name) for name, part in parts.items())).alias("_kafka"),
        fate.alias(FATE),
        F.when((fate == "skipped") & (F.col("id") % 2 == 0), UNROUTED).alias(CAUSE),
    )
    listed, observation = range(partitions), Observed(f"{partitions} by {tasks}")
    counting = Counting(listed, several_types=True)
    observed(rows, counting, observation).write.format("noop").mode("overwrite").save()

    seen = evidence(observation, counting)
    expected = {
        name: Counter(dict.fromkeys(listed, 0)) for name in ("read", "tombstone", "skipped", UNROUTED)
    }
    for p, its_fate, cause, count in (
        rows.groupBy("_kafka.partition", FATE, CAUSE).agg(F.count("*").alias("n")).collect()
    ):
        for name in {"read", its_fate, cause} & expected.keys():
            expected[name][p] += count
    assert seen.read == expected["read"]
    assert seen.tombstones == expected["tombstone"]
    assert seen.skipped == expected["skipped"]
    assert seen.unrouted == expected[UNROUTED]


@pytest.mark.parametrize("far", [106_751_992, -106_751_993, 2**31 - 1, -(2**31)])
def test_an_event_date_that_no_timestamp_holds_moves_no_watermark_and_stops_nothing(stack, far):
    rows = connect(stack["spark"]["remote"]).range(0, 3, 1, 1)
    kafka = {"partition": F.lit(0), "timestamp": F.timestamp_millis("id"), "schema_id": F.lit(1)}
    rows = rows.select(
        F.struct(*(part.alias(name) for name, part in kafka.items())).alias("_kafka"),
        F.lit("written").alias(FATE),
        F.lit(None).cast("string").alias(CAUSE),
        F.date_from_unix_date(F.when(F.col("id") == 0, 20000).when(F.col("id") == 1, far)).alias("d"),
    )
    observation = Observed(f"far {far}")
    event_time = EventTime(("d",), datetime(2020, 1, 1, tzinfo=UTC), day=True)
    counting = Counting([0], event_time=event_time)
    observed(rows, counting, observation).write.format("noop").mode("overwrite").save()
    seen = evidence(observation, counting)
    assert (seen.watermark, seen.late) == (20000 * 86_400_000_000, int(far < 0))


@pytest.mark.parametrize("known", [0, 1, 62, 63, 64, 200])
def test_schema_ids_that_are_known_are_told_and_others_are_not(stack, known):
    """Given records of every third known id, of ids that nobody knows and of none, when they are counted, then those known ones are told, however many are known."""
    ids = [7 * n + 100_000 for n in range(known)]
    there = sorted({*ids[::3], *ids[:1], *ids[-1:]})
    rows = connect(stack["spark"]["remote"]).range(0, 1000, 1, 3)
    listed = F.array(*map(F.lit, [*there, 5, 2**31 - 1, -(2**31)]), F.lit(None).cast("int"))
    kafka = {
        "partition": F.lit(0),
        "timestamp": F.timestamp_millis("id"),
        "schema_id": listed[F.pmod("id", F.size(listed)).cast("int")],
    }
    rows = rows.select(
        F.struct(*(part.alias(name) for name, part in kafka.items())).alias("_kafka"),
        F.lit("written").alias(FATE),
        F.lit(None).cast("string").alias(CAUSE),
    )
    counting, observation = Counting([0], ids), Observed(f"{known} ids")
    observed(rows, counting, observation).write.format("noop").mode("overwrite").save()
    assert evidence(observation, counting).schema_ids == set(there)
