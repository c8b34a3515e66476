"""Walk once through what every batch does, so that the first real one is not slow: `python -m … REMOTE`.

Loads and compiles the classes of Iceberg writes, branches, MERGE, Kafka and Avro. Leaves nothing behind.
"""

import sys
import uuid

from pyspark.sql import SparkSession


def warm_up(spark: SparkSession) -> None:
    """Create, branch, append, publish, merge, drop, in a namespace that nobody else uses."""
    namespace = f"lake.warmup_{uuid.uuid4().hex[:12]}"
    table = f"{namespace}.t"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    try:
        spark.sql(f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP, v STRING) PARTITIONED BY (days(at))")
        _write(spark, namespace, table)
        _load_sources(spark)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
        spark.sql(f"DROP NAMESPACE {namespace}")


def _write(spark: SparkSession, namespace: str, table: str) -> None:
    rows = spark.sql("SELECT id, timestamp_seconds(id) AS at, CAST(id AS STRING) AS v FROM range(20)")
    rows.writeTo(table).option("snapshot-property.warmup", "1").append()
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH stage")
    rows.writeTo(f"{table}.branch_stage").append()
    short = namespace.removeprefix("lake.")
    spark.sql(f"CALL lake.system.fast_forward('{short}.t', 'main', 'stage')")
    spark.sql(f"ALTER TABLE {table} DROP BRANCH stage")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT id, timestamp_seconds(id) AS at, 'm' AS v FROM range(5)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.table(table).groupBy("v").count().collect()


def _load_sources(spark: SparkSession) -> None:
    """An empty assignment reads nothing, yet loads the Kafka source; from_avro compiles its decoder."""
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
