"""Rule: what a pass counts by Kafka partition is exact, whoever reads which records, however many partitions there are."""

from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tidemark.domain.formats.routes import UNROUTED
from tidemark.engine.access.spark import connect
from tidemark.engine.decode.records import CAUSE, FATE
from tidemark.engine.ingest.observe import Observed, evidence, observed


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
    observed(rows, listed, observation, several_types=True).write.format("noop").mode("overwrite").save()

    seen = evidence(observation, listed)
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
