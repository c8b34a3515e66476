"""The program of the Spark peer, run in a process of its own: `python spark_job.py SETTINGS.json`."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro


def main() -> None:
    """Stream topics into tables: until they are empty, until they are full, or for ever."""
    job = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder
    for key, value in job["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with ThreadPoolExecutor(job["parallel"]) as pool:
        list(pool.map(lambda each: stream(spark, each), job["streams"]))


def stream(spark: SparkSession, job: dict[str, Any]) -> None:
    """One query."""
    spark.table(job["table"])  # loads the catalog; toTable alone does not find one that nobody has used
    raw = spark.readStream.format("kafka").options(**job["source"]).load()
    writer = decoded(raw, job).writeStream.format("iceberg").option("checkpointLocation", job["checkpoint"])
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


def decoded(raw: DataFrame, job: dict[str, Any]) -> DataFrame:
    """The columns of the table."""
    if "avro" in job:
        value = from_avro(F.expr("substring(value, 6, length(value) - 5)"), job["avro"])
    else:
        value = F.from_json(raw.value.cast("string"), job["ddl"])
    return raw.select(value.alias("v")).select("v.*")


if __name__ == "__main__":
    main()
