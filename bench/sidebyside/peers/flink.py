"""Flink SQL into Iceberg: a local mini cluster in one JVM."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc_tools

from bench.sidebyside import jars
from bench.sidebyside.columns import Columns
from bench.sidebyside.encodings import proto_schema
from bench.sidebyside.ground import FETCHES, JVM, Ground, Stream, Topic
from bench.sidebyside.meter import Cost, Failed, Meter
from bench.sidebyside.workload import WORKLOADS, Workload
from tidemark.services.catalog import NAME
from tidemark.services.spark import OPENED

SOURCE = Path(__file__).parent / "java" / "FlinkSql.java"
CHECKPOINT = 10
"""Seconds."""


class Flink:
    """A stream bounded by the end of the topic, a commit with every checkpoint; with `kafka` rows have `_kafka`."""

    writes = True

    def __init__(self, name: str, *, kafka: bool = False) -> None:
        self.name, self._kafka = name, kafka
        self.kinds = frozenset({"avro"} if kafka else {"avro", "json", "protobuf", "upsert"})

    def prepare(self, ground: Ground) -> None:
        """Fetch the jars, compile the little program."""
        self._class_path = jars.class_path([str(ground.home / "classes"), jars.fetched("flink")])
        compile_java(ground, [SOURCE], self._class_path)

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """One JVM."""
        if topic.workload.value_format == "protobuf":
            compile_java(ground, _message(ground), self._class_path)
        ground.create_table(table, topic.workload, kafka=self._kafka)
        with Meter(ground.home / f"{table}.log") as meter:
            stream = Stream(topic.name, table, topic.workload)
            meter.run(self._command(ground, [stream], CHECKPOINT, bounded=True))
            return meter.stop()

    @contextmanager
    def trickle(
        self, ground: Ground, streams: Sequence[Stream], seconds: int, meter: Meter
    ) -> Iterator[None]:
        """One job for all topics, a checkpoint every so many seconds."""
        meter.start(self._command(ground, streams, seconds, bounded=False))
        yield

    def _command(
        self, ground: Ground, streams: Sequence[Stream], seconds: int, *, bounded: bool
    ) -> list[str | Path]:
        script = ground.home / f"{streams[0].table}.sql"
        script.write_text(_sql(ground, streams, bounded=bounded, kafka=self._kafka))
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
        options = [*JVM, *opened, f"-Djava.io.tmpdir={ground.home}", "-cp", self._class_path]
        return [ground.java, *options, "FlinkSql", script, str(os.cpu_count() or 2), f"{seconds} s"]


def compile_java(ground: Ground, sources: Sequence[Path], class_path: str) -> None:
    """Into home/classes; raises Failed where the Java is no JDK."""
    compiler = ground.java.with_name("javac")
    try:
        subprocess.run([compiler, "-d", ground.home / "classes", "-cp", class_path, *sources], check=True)
    except FileNotFoundError as error:
        raise Failed(f"a JDK is needed: there is no {compiler}") from error


def _message(ground: Ground) -> list[Path]:
    """The message as Java, by protoc: Flink's format asks for a class."""
    folder, protoc = ground.home / "proto", ground.home / "protoc"
    (folder / "java").mkdir(parents=True, exist_ok=True)
    (folder / "order.proto").write_text(proto_schema(WORKLOADS["protobuf"].fields))
    shutil.copy(jars.single("protoc"), protoc)
    protoc.chmod(0o755)
    includes = (folder, Path(grpc_tools.__file__).parent / "_proto")
    flags = [*(f"-I{each}" for each in includes), f"--java_out={folder / 'java'}", "order.proto"]
    subprocess.run([protoc, *flags], check=True)
    return sorted((folder / "java").rglob("*.java"))


KAFKA = {
    "topic": ("STRING", "topic"),
    "partition": ("INT", "partition"),
    "offset": ("BIGINT", "offset"),
    "timestamp": ("TIMESTAMP_LTZ(3)", "timestamp"),
    "timestamp_type": ("STRING", "timestamp-type"),
}
"""Flink's types and names of what it tells of a record."""
TOLD = {
    "timestamp": "CAST({} AS TIMESTAMP_LTZ(6))",
    "timestamp_type": "CASE {} WHEN 'CreateTime' THEN 0 WHEN 'LogAppendTime' THEN 1 ELSE -1 END",
}
STRUCT = (
    "`topic` STRING, `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP_LTZ(6), `timestamp_type` INT, "
    "`key` BYTES, `headers` ARRAY<ROW<`key` STRING, `value` BYTES>>, `schema_id` INT, `tombstone` BOOLEAN, `epoch` INT"
)


def _kafka_columns() -> str:
    return ", ".join(f"`_{name}` {kind} METADATA FROM '{own}' VIRTUAL" for name, (kind, own) in KAFKA.items())


def _kafka_struct() -> str:
    """As Tidemark's; no record has a header, and of schema ids and epochs there is one, which is given."""
    told = [TOLD.get(name, "{}").format(f"`_{name}`") for name in KAFKA]
    headers = "CAST(NULL AS ARRAY<ROW<`key` STRING, `value` BYTES>>)"
    return f"CAST(ROW({', '.join([*told, '`_key`', headers, '1', 'FALSE', '0'])}) AS ROW<{STRUCT}>)"


def _sql(ground: Ground, streams: Sequence[Stream], *, bounded: bool, kafka: bool) -> str:
    catalog = {"type": "iceberg", **ground.jdbc()}
    statements = [f"CREATE CATALOG {NAME} WITH ({_options(catalog)})"]
    for number, each in enumerate(streams):
        columns, options = Columns(each.workload).flink(), _source(ground, each, bounded=bounded)
        names = ", ".join(_selected(name, each.workload) for name in each.workload.fields)
        if kafka:
            columns, names = f"{columns}, `_key` BYTES, {_kafka_columns()}", f"{names}, {_kafka_struct()}"
            options |= {"key.format": "raw", "key.fields": "_key", "value.fields-include": "EXCEPT_KEY"}
        statements += [
            f"CREATE TEMPORARY TABLE source_{number} ({columns}) WITH ({_options(options)})",
            f"INSERT INTO {NAME}.{each.table} SELECT {names} FROM source_{number}",
        ]
    return ";\n".join(statements)


def _selected(name: str, workload: Workload) -> str:
    if name != "ordered_at":
        return f"`{name}`"
    time = "`ordered_at`"
    if workload.value_format == "protobuf":
        time = f"TO_TIMESTAMP_LTZ({time}.`seconds` * 1000 + {time}.`nanos` / 1000000, 3)"
    return f"CAST({time} AS TIMESTAMP_LTZ(6))"


def _source(ground: Ground, stream: Stream, *, bounded: bool) -> dict[str, str]:
    value = {"value.format": "avro-confluent", "value.avro-confluent.url": ground.registry}
    if stream.workload.value_format == "json":
        value = {"value.format": "json", "value.json.timestamp-format.standard": "ISO-8601"}
    elif stream.workload.value_format == "protobuf":
        value = {"value.format": "protobuf", "value.protobuf.message-class-name": "bench.Order"}
    return {
        "connector": "kafka",
        "topic": stream.topic,
        "properties.bootstrap.servers": ground.bootstrap,
        "properties.group.id": stream.table,
        **{f"properties.{key}": text for key, text in FETCHES.items()},
        "scan.startup.mode": "earliest-offset",
        **({"scan.bounded.mode": "latest-offset"} if bounded else {}),
        **value,
    }


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
