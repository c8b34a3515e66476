"""The program of the Spark peer, run in a process of its own: `python spark_job.py SETTINGS.json`."""

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import proto_arrow
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro
from spark_session import opened


def main() -> None:
    """Stream topics into tables: until they are empty, until they are full, or for ever."""
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = opened(job)
    with ThreadPoolExecutor(job["parallel"]) as pool:
        list(pool.map(lambda each: stream(spark, each), job["streams"]))


def stream(spark: SparkSession, job: dict[str, Any]) -> None:
    """One query."""
    spark.table(job["table"])  # loads the catalog; toTable alone does not find one that nobody has used
    raw = spark.readStream.format("kafka").options(**job["source"]).load()
    if "key" in job:
        merge(raw, job)
        return
    rows = decoded(raw, job, *([kafka_struct()] if job["kafka"] else []))
    writer = rows.writeStream.format("iceberg").option("checkpointLocation", job["checkpoint"])
    writer = writer.option("fanout-enabled", "true")
    if job["trigger"] == "availableNow":
        writer.trigger(availableNow=True).toTable(job["table"]).awaitTermination()
        return
    query = writer.trigger(processingTime=job["trigger"]).toTable(job["table"])
    if not job["records"]:
        query.awaitTermination()
    while spark.table(job["table"]).count() < job["records"]:
        time.sleep(0.5)
    query.stop()


def merge(raw: DataFrame, job: dict[str, Any]) -> None:
    """Every batch's newest record per key, merged into the table: what one writes by hand."""
    key = job["key"]

    def merged(batch: DataFrame, _: int) -> None:
        place = Window.partitionBy(key).orderBy(F.desc("offset"))
        newest = batch.withColumn("place", F.row_number().over(place)).where("place = 1")
        newest.drop("place", "offset").createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            f"MERGE INTO {job['table']} t USING changes s ON t.{key} = s.{key} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    rows = decoded(raw, job, "offset")
    writer = rows.writeStream.foreachBatch(merged).option("checkpointLocation", job["checkpoint"])
    writer.trigger(availableNow=True).start().awaitTermination()


def decoded(raw: DataFrame, job: dict[str, Any], *more: str | Column) -> DataFrame:
    """The columns of the table, and more of Kafka's."""
    if "descriptors" in job:
        return raw.select("value").mapInArrow(from_protobuf(job["descriptors"]), job["ddl"])
    if "avro" in job:
        value = from_avro(F.expr("substring(value, 6, length(value) - 5)"), job["avro"])
    else:
        value = F.from_json(raw.value.cast("string"), job["ddl"])
    both = raw.select(value.alias("v"), *more)
    return both.select("v.*", *(name for name in both.columns if name != "v"))


def kafka_struct() -> Column:
    """Where a row comes from, as Tidemark says it; of schema ids and epochs there is one, which is given."""
    parts = {
        **{name: F.col(name) for name in ("topic", "partition", "offset", "timestamp")},
        "timestamp_type": F.col("timestampType"),
        **{name: F.col(name) for name in ("key", "headers")},
        "schema_id": F.lit(1),
        "tombstone": F.col("value").isNull(),
        "epoch": F.lit(0),
    }
    return F.struct(*(column.alias(name) for name, column in parts.items())).alias("_kafka")


def from_protobuf(descriptors: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Decoding in Python: Spark's own from_protobuf is in a jar that is not to be had."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kind = proto_arrow.message_class(base64.b64decode(descriptors))
        for batch in batches:
            yield from proto_arrow.to_arrow(kind, batch.column(0).to_pylist()).to_batches()

    return rows


if __name__ == "__main__":
    main()
