"""Apache Iceberg's Kafka Connect sink in a standalone worker."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.sidebyside import jars
from bench.sidebyside.ground import FETCHES, JVM, Ground, Stream, Topic
from bench.sidebyside.meter import Cost, Failed, Meter
from tidemark.services.catalog import NAME
from tidemark.services.ports import LOOPBACK, Ports

COMMIT_MS = 10_000
LOOK = 0.25
MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
AVRO = {
    "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
    "value.converter.apicurio.registry.as-confluent": "true",
    "value.converter.apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
    "value.converter.apicurio.registry.headers.enabled": "false",
}
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class Connect:
    """Two tasks, a commit every ten seconds; done when all rows are readable, for it never ends by itself."""

    name = "connect"
    kinds = frozenset({"avro", "json"})
    writes = True

    def prepare(self, ground: Ground) -> None:
        """Fetch the jars."""
        self._class_path = jars.fetched("connect")

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """Start a worker, look at the table until it is full."""
        ground.create_table(table, topic.workload)
        with Meter(ground.home / f"{table}.log") as meter:
            self._start(ground, [Stream(topic.name, table, topic.workload)], COMMIT_MS, 2, meter)
            while ground.rows(table) < topic.count:
                if not meter.alive():
                    raise Failed(meter.tail())
                time.sleep(LOOK)
            return meter.stop()

    @contextmanager
    def trickle(
        self, ground: Ground, streams: Sequence[Stream], seconds: int, meter: Meter
    ) -> Iterator[None]:
        """One worker with a sink of one task per topic."""
        self._start(ground, streams, seconds * 1000, 1, meter)
        yield

    def _start(
        self, ground: Ground, streams: Sequence[Stream], commit_ms: int, tasks: int, meter: Meter
    ) -> None:
        unique = streams[0].table.split(".")[1]
        worker, logging = ground.home / f"{unique}.worker", ground.home / f"{unique}.log4j2.yaml"
        ports = Ports(ground.home / "peer-ports.json")
        ports.settle(["connect"])
        _write(worker, self._worker(ground, unique, ports["connect"]))
        logging.write_text(LOGGING)
        sinks = []
        for each in streams:
            ground.make_topic(f"control-{each.table}", 1)
            sinks.append(ground.home / f"{each.table}.sink")
            _write(sinks[-1], self._sink(ground, each, commit_ms, tasks))
        options = [*JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", self._class_path]
        meter.start([ground.java, *options, MAIN, worker, *sinks])

    @staticmethod
    def _worker(ground: Ground, unique: str, port: int) -> dict[str, str]:
        return {
            "bootstrap.servers": ground.bootstrap,
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "offset.storage.file.filename": str(ground.home / f"{unique}.offsets"),
            "listeners": f"http://{LOOPBACK}:{port}",
            "plugin.discovery": "only_scan",
            "connector.client.config.override.policy": "All",
        }

    @staticmethod
    def _sink(ground: Ground, stream: Stream, commit_ms: int, tasks: int) -> dict[str, str]:
        root = ground.registry.removesuffix("/apis/ccompat/v7")
        converter = JSON
        if stream.workload.value_format == "avro":
            converter = {**AVRO, "value.converter.apicurio.registry.url": f"{root}/apis/registry/v2"}
        return {
            "name": stream.table,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(tasks),
            "topics": stream.topic,
            "iceberg.tables": stream.table,
            "iceberg.catalog": NAME,
            **{f"iceberg.catalog.{key}": value for key, value in ground.jdbc().items()},
            "iceberg.control.topic": f"control-{stream.table}",
            "iceberg.control.commit.interval-ms": str(commit_ms),
            **converter,
            **{f"consumer.override.{key}": value for key, value in FETCHES.items()},
            "consumer.override.auto.offset.reset": "earliest",
        }


LOGGING = """\
Configuration:
  status: error
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d{ISO8601} %p %c{1} - %m%n"}}
  Loggers:
    Root: {level: error, AppenderRef: {ref: out}}
"""


def _write(path: Path, properties: dict[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
