"""The Spark of a job that runs in a process of its own."""

from typing import Any

from pyspark.sql import SparkSession


def opened(job: dict[str, Any]) -> SparkSession:
    """A session with the settings `conf` of the job, silent but for errors."""
    builder = SparkSession.builder
    for key, value in job["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
