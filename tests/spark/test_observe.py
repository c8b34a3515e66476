"""Rule: what a pass counts by Kafka partition is exact, whoever reads which records, however many partitions there are."""

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from tidemark.engine.access.spark import connect
from tidemark.engine.ingest.observe import _counts, _per_partition


@pytest.mark.parametrize(("partitions", "tasks"), [(1, 5), (2, 3), (5, 7), (64, 16), (300, 40), (997, 9)])
def test_partitions_that_many_tasks_read_are_counted_one_by_one(stack, partitions, tasks):
    rows = (
        connect(stack["spark"]["remote"])
        .range(0, 200_003, 1, tasks)
        .select(F.pmod(F.hash("id"), F.lit(partitions)).alias("p"))
    )
    listed, observation = range(partitions), Observation(f"{partitions} by {tasks}")
    first, none = (F.when(which, F.col("p")) for which in (F.col("p") == 0, F.col("p") < 0))
    counted = rows.observe(
        observation,
        _per_partition(F.col("p"), listed).alias("all"),
        _per_partition(first, listed).alias("first"),
        _per_partition(none, listed).alias("none"),
    )
    counted.write.format("noop").mode("overwrite").save()
    expected = {row["p"]: row["count"] for row in rows.groupBy("p").count().collect()}
    seen = observation.get
    assert _counts(seen["all"], listed) == expected
    assert _counts(seen["first"], listed) == {p: expected[0] if p == 0 else 0 for p in listed}
    assert _counts(seen["none"], listed) == dict.fromkeys(listed, 0)
