"""PyIceberg and pyruhvro by hand, and the limits that librdkafka, Rust and Arrow set: all run script_job.py."""

import json
import os
import sys
from pathlib import Path

from bench.sidebyside.ground import PARTITIONS, Ground, Topic
from bench.sidebyside.meter import Cost, Meter
from tidemark.services.catalog import NAME, LocalCatalog

JOB = Path(__file__).with_name("script_job.py")


class Script:
    """`mode` table is a peer; consume, decode and parquet are limits, the last two the CPU of that part alone."""

    formats = frozenset({"avro"})

    def __init__(self, name: str, mode: str) -> None:
        self.name, self._mode = name, mode
        self.writes = mode == "table"

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
            "avro": topic.workload.avro,
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
