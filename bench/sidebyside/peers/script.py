"""PyIceberg by hand, and the limits that librdkafka, decoding and Arrow set: all run script_job.py.

Avro is decoded by pyruhvro, JSON by Arrow, Protobuf by its own library.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.sidebyside.ground import PARTITIONS, Ground, Topic
from bench.sidebyside.meter import Cost, Meter
from bench.sidebyside.workload import Workload
from tidemark.services.catalog import NAME, LocalCatalog

JOB = Path(__file__).with_name("script_job.py")
ARROW = {"long": "int64", "int": "int32", "double": "double", "boolean": "bool", "string": "string"}


class Script:
    """`mode` table is a peer; consume, decode and parquet are limits, the last two the CPU of that part alone."""

    def __init__(self, name: str, mode: str) -> None:
        self.name, self._mode = name, mode
        self.writes = mode == "table"
        self.kinds = frozenset({"avro", "json", "protobuf", *({"upsert"} if mode == "consume" else ())})

    def prepare(self, ground: Ground) -> None:
        """Nothing: pyruhvro is in the dependency group `bench`."""

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """One process of Python."""
        if self.writes:
            ground.create_table(table, topic.workload)
        unique = table.split(".")[1]
        settings, folder = ground.home / f"{unique}.json", ground.home / f"{unique}.parts"
        answer = folder / "cpu"
        folder.mkdir()
        job = {
            "mode": self._mode,
            "topic": topic.name,
            "table": table,
            "records": topic.count,
            "partitions": PARTITIONS,
            "cores": os.cpu_count() or 2,
            "format": topic.workload.value_format,
            "schema": schema_of(topic.workload),
            "folder": str(folder),
            "answer": str(answer),
            "catalog": {"name": NAME, "properties": LocalCatalog(ground.home).pyiceberg()},
            "consumer": {
                "bootstrap.servers": ground.bootstrap,
                "group.id": unique,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": 16 * 1024 * 1024,
                "fetch.max.bytes": 64 * 1024 * 1024,
                "queued.max.messages.kbytes": 256 * 1024,
            },
        }
        settings.write_text(json.dumps(job))
        with Meter(ground.home / f"{unique}.log") as meter:
            meter.run([sys.executable, JOB, settings])
            cost = meter.stop()
        return Cost(float(answer.read_text()), 0.0, cost.memory) if answer.exists() else cost


def schema_of(workload: Workload) -> Any:
    """What the script's decoder of the format takes."""
    match workload.value_format:
        case "avro":
            return workload.avro
        case "protobuf":
            return workload.descriptors
        case _:
            return {
                name: ARROW[kind] if isinstance(kind, str) else None for name, kind in workload.fields.items()
            }
