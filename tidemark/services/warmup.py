"""Walk once through what every batch does, so that the first real one is not slow: `python -m … REMOTE`.

Loads and compiles the classes of Iceberg's writes and branches and of Avro. Leaves files of a namespace that is gone,
for whoever started it to remove. What only some
tables need, like MERGE, is left to their first run: a server that nobody merges on would start a fifth slower for it.
"""

import sys
import uuid

from pyspark.sql import SparkSession


def warm_up(spark: SparkSession) -> None:
    """Create, append, branch, append there, drop, in a namespace that nobody else uses."""
    namespace = f"lake.warmup_{uuid.uuid4().hex[:12]}"
    table = f"{namespace}.t"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    try:
        spark.sql(f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP, v STRING) PARTITIONED BY (days(at))")
        _write(spark, table)
        _decode(spark)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")  # to PURGE is a job of Spark's own, a third of all this
        spark.sql(f"DROP NAMESPACE {namespace}")


def _write(spark: SparkSession, table: str) -> None:
    rows = spark.sql("SELECT id, timestamp_seconds(id) AS at, CAST(id AS STRING) AS v FROM range(20)")
    rows.writeTo(table).option("snapshot-property.warmup", "1").append()
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH stage")
    rows.writeTo(f"{table}.branch_stage").append()
    spark.sql(f"ALTER TABLE {table} DROP BRANCH stage")


def _decode(spark: SparkSession) -> None:
    """`from_avro` compiles its decoder."""
    schema = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}'
    spark.sql(f"SELECT from_avro(X'02', '{schema}', map()) AS r").collect()


def main() -> None:
    """One argument: the Spark Connect URL."""
    spark = SparkSession.builder.remote(sys.argv[1]).create()
    try:
        warm_up(spark)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
