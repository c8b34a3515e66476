"""Spark Structured Streaming into Iceberg: one driver, `local[cores]`, a checkpoint folder."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from bench.sidebyside.columns import Columns
from bench.sidebyside.ground import FETCHES, JVM, Ground, Stream, Topic
from bench.sidebyside.jars import class_path
from bench.sidebyside.meter import Cost, Meter
from bench.sidebyside.workload import KEY
from tidemark.services.catalog import NAME
from tidemark.services.manifest import classpath
from tidemark.services.ports import LOOPBACK
from tidemark.services.spark import LOCAL_FILES, OPENED

JOB = Path(__file__).with_name("spark_job.py")
ENVIRON = {
    "SPARK_LOCAL_IP": LOOPBACK,
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(JOB.parent),  # for the workers, too
}


class SparkStreaming:
    """`trigger` is availableNow, or the time of a processing-time trigger; with `kafka` rows have a `_kafka`."""

    writes = True

    def __init__(self, name: str, trigger: str, most: int, *, kafka: bool = False) -> None:
        self.name, self._trigger, self._most, self._kafka = name, trigger, most, kafka
        merges = {"upsert"} if trigger == "availableNow" else set()
        self.kinds = frozenset({"avro"} if kafka else {"avro", "json", "protobuf", *merges})

    def prepare(self, ground: Ground) -> None:
        """Nothing: the jars are those of the embedded stack."""

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """One process of Python and its driver."""
        ground.create_table(table, topic.workload, kafka=self._kafka)
        streams = [Stream(topic.name, table, topic.workload)]
        with Meter(ground.home / f"{table}.log") as meter:
            meter.run(*self._command(ground, streams, self._trigger, 1, topic.count))
            return meter.stop()

    def drain(self, ground: Ground, streams: Sequence[Stream], parallel: int) -> Cost:
        """One query per topic in one driver, so many at once."""
        with Meter(ground.home / "drain.log") as meter:
            meter.run(*self._command(ground, streams, "availableNow", parallel, 0))
            return meter.stop()

    @contextmanager
    def trickle(
        self, ground: Ground, streams: Sequence[Stream], seconds: int, meter: Meter
    ) -> Iterator[None]:
        """One query per topic, all in one driver."""
        meter.start(*self._command(ground, streams, f"{seconds} seconds", len(streams), 0))
        yield

    def _command(
        self, ground: Ground, streams: Sequence[Stream], trigger: str, parallel: int, records: int
    ) -> tuple[list[str | Path], dict[str, str]]:
        settings = ground.home / f"{streams[0].table}.job.json"
        jobs = [{**self._stream(ground, s), "trigger": trigger, "records": records} for s in streams]
        conf = spark_conf(ground, str(settings.with_suffix(".scratch")))
        settings.write_text(json.dumps({"conf": conf, "parallel": parallel, "streams": jobs}))
        return [sys.executable, JOB, settings], ENVIRON

    def _stream(self, ground: Ground, stream: Stream) -> dict[str, Any]:
        workload = stream.workload
        decoding = {"ddl": Columns(workload).spark()}
        if workload.value_format == "avro":
            decoding = {"avro": workload.avro}
        elif workload.value_format == "protobuf":
            decoding["descriptors"] = workload.descriptors
        if workload.kind == "upsert":
            decoding["key"] = KEY
        return {
            "table": f"{NAME}.{stream.table}",
            "checkpoint": str(ground.home / f"{stream.table}.checkpoint"),
            "kafka": self._kafka,
            **decoding,
            "source": {
                "kafka.bootstrap.servers": ground.bootstrap,
                "subscribe": stream.topic,
                "startingOffsets": "earliest",
                "includeHeaders": str(self._kafka).lower(),
                "maxOffsetsPerTrigger": str(self._most),
                **{f"kafka.{key}": value for key, value in FETCHES.items()},
            },
        }


def spark_conf(ground: Ground, scratch: str) -> dict[str, str]:
    """Of a driver that is its own cluster."""
    catalog = f"spark.sql.catalog.{NAME}"
    opened = " ".join(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED)
    cores = os.cpu_count() or 2
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "1536m",
        "spark.driver.extraJavaOptions": " ".join([*(o for o in JVM if "-Xm" not in o), opened]),
        "spark.driver.extraClassPath": class_path(classpath("spark")),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": scratch,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{catalog}.{key}": value for key, value in ground.jdbc().items()},
    }
