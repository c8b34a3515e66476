"""`SamePartitionWriter` in `tidemark/jvm`: rows are in the files that Iceberg's own writer gives them to."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

DAY, HOUR = 86_400_000_000, 3_600_000_000
ENDS = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2]
"""Of Spark's timestamps; their days begin or end beyond."""
COLUMNS = "id BIGINT, at TIMESTAMP, wall TIMESTAMP_NTZ, inner STRUCT<at: TIMESTAMP>"


def times() -> list[int | None]:
    """In microseconds: runs within an hour, every side of a border in turn, gaps, and the ends of time."""
    random = Random(7)
    borders = [n * unit for unit in (DAY, HOUR) for n in (-2, -1, 0, 1, 2, 20_000)]
    sides = [border + off for border in borders for off in (-1, 0, 1, -1)]
    near = [random.randrange(-2 * DAY, 2 * DAY) for _ in range(500)]
    runs = [20_000 * DAY + n * 977_000_000 for n in range(500)]
    mixed = [*sides, *ENDS, *near, None, None]
    random.shuffle(mixed)
    return [*runs, None, *runs[:3], *sides, *ENDS, ENDS[0], ENDS[2], 0, *mixed, -1, -1, 0, 0]


def rows(spark: SparkSession) -> DataFrame:
    listed = ", ".join("NULL" if time is None else f"{time}L" for time in times()).replace(
        f"{-(2**63)}L", f"({-(2**63) + 1}L - 1L)"
    )
    made = spark.sql(
        f"SELECT id, timestamp_micros(element_at(array({listed}), CAST(id + 1 AS INT))) AS at, IF(id % 9 = 4, 'skipped', 'written') "
        f"AS fate FROM range(0, {len(times())}, 1, 1)"
    )
    wall = F.col("at").cast("timestamp_ntz")
    return made.select("id", "at", wall.alias("wall"), F.struct("at").alias("inner"), "fate")


@pytest.mark.parametrize(
    ("table", "parted"),
    [
        ("by_day", "day(at)"),
        ("by_hour", "hour(wall)"),
        ("by_month", "month(at)"),
        ("by_two", "day(at), bucket(2, id)"),
        ("by_inner", "day(inner.at)"),
        ("by_no_time", "truncate(10, id)"),
    ],
)
def test_rows_are_in_the_partitions_that_iceberg_gives_them(
    spark: SparkSession, stack: dict[str, Any], table: str, parted: str
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.partitions")
    for name in (table, f"{table}_theirs"):
        spark.sql(
            f"CREATE TABLE lake.partitions.{name} ({COLUMNS}) PARTITIONED BY ({parted}) TBLPROPERTIES "
            "('write.spark.fanout.enabled' = 'true', 'write.distribution-mode' = 'none')"
        )
    written = rows(spark).where("fate = 'written'").drop("fate")
    written.writeTo(f"lake.partitions.{table}_theirs").append()
    counted = rows(spark).observe(Observation(), F.count("*").alias("read"))
    kept = counted.where("fate = 'written'").drop("fate")
    kept.createOrReplaceTempView("kept_by_partition")
    (plan,) = spark.sql(
        f"EXPLAIN INSERT INTO lake.partitions.{table} SELECT * FROM kept_by_partition"
    ).collect()
    assert "by partition" in plan[0]
    kept.writeTo(f"lake.partitions.{table}").append()

    placed = "SELECT *, CAST(_partition AS STRING) AS partition FROM lake.partitions.{} ORDER BY id"
    ours, theirs = (spark.sql(placed.format(name)).toArrow() for name in (table, f"{table}_theirs"))
    assert len(ours) == len(times()) - len(times()[4::9])
    assert ours.equals(theirs)
    log = Path(stack["home"]) / "logs" / "spark.log"
    assert "asked about every row" not in log.read_text()
