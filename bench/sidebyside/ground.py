"""What all peers share in one measurement: a broker, a schema registry, a catalog, and one way to look at a table."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.table import Table

from bench.sidebyside.columns import Columns
from bench.sidebyside.encodings import avro_schema, proto_schema
from bench.sidebyside.workload import Sums, Workload
from tidemark.services.catalog import NAME, LocalCatalog
from tidemark.services.download import fetch
from tidemark.services.java import find_java
from tidemark.services.kafka import Kafka
from tidemark.services.launch import Launch
from tidemark.services.manifest import CORE
from tidemark.services.ports import Ports, without_proxy
from tidemark.services.progress import silent
from tidemark.services.registry import Registry
from tidemark.services.service import Place
from tidemark.services.spark import MEMORY, PATIENT_COMPILER
from tidemark.services.stack import Stack

NAMESPACE = "bench"
PARTITIONS = 4
PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.distribution-mode": "none",
    "format-version": "2",
}
"""Of every table, Tidemark's included."""
CHANGING = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.upsert.enabled": "true",
}
"""Of a table that is written by key: the first three are Spark's, the last is Flink's."""
FETCHES = {
    "max.poll.records": "20000",
    "max.partition.fetch.bytes": str(2 * 1024 * 1024),
    "fetch.max.bytes": str(16 * 1024 * 1024),
    "receive.buffer.bytes": str(1024 * 1024),
}
"""Of every Java consumer: what Tidemark asks Spark for, too (its own reader takes 500 records at once)."""
JVM = (
    *MEMORY,
    "-Duser.timezone=UTC",
    *PATIENT_COMPILER,
)
"""Of every peer that is a JVM: heap, collector, compilers and time zone of Tidemark's Spark server."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A filled topic: `count` records of a workload."""

    name: str
    workload: Workload
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Stream:
    """What a peer is told to do: bring the records of a topic into a table."""

    topic: str
    table: str
    workload: Workload


@dataclass(frozen=True, slots=True)
class Look:
    """What a table holds now: its sums, and how it is stored."""

    sums: Sums
    files: int
    bytes: int
    commits: int
    reading: float = 0.0


class Ground:
    """One temporary home with its services; `home` is also the home that Tidemark finds."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.java = find_java()
        self._topics: dict[tuple[str, int], Topic] = {}
        self._tables = 0

    def up(self) -> None:
        """Start broker and registry, which every peer uses; no Spark."""
        fetch(CORE)
        LocalCatalog(self.home).create()
        Launch((Kafka(), Registry()), self._place(), silent).run()
        self.catalog: Catalog = load_catalog(NAME, **LocalCatalog(self.home).pyiceberg())
        with suppress(NamespaceAlreadyExistsError):
            self.catalog.create_namespace(NAMESPACE)

    def down(self) -> None:
        """Stop all services of this home."""
        Stack(self.home).down()

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return Kafka().bootstrap_servers(self._place())

    @property
    def registry(self) -> str:
        """The registry's Confluent-compatible URL."""
        return Registry().url(self._place())

    def topic(self, workload: Workload, count: int) -> Topic:
        """A topic with so many records, filled once."""
        key = (workload.name, count)
        if key not in self._topics:
            self._topics[key] = self._filled(workload, count)
        return self._topics[key]

    def make_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        """An empty topic."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result()

    def declare(self, workload: Workload, name: str, partitions: int = PARTITIONS) -> int:
        """An empty topic with its schema registered; gives the schema id, 0 for JSON."""
        self.make_topic(name, partitions)
        schemas = {"avro": avro_schema, "protobuf": proto_schema}
        if workload.value_format not in schemas:
            return 0
        url = f"{self.registry}/subjects/{name}-value/versions"
        schema = schemas[workload.value_format](workload.fields)
        said = {"schema": schema, "schemaType": workload.value_format.upper()}
        answer = httpx.post(url, json=said, trust_env=False, timeout=30).raise_for_status()
        return int(answer.json()["id"])

    def new_table(self, peer: str) -> str:
        """A name that no table has."""
        self._tables += 1
        words = re.sub(r"\W+", "_", peer)
        return f"{NAMESPACE}.{words}_{self._tables}"

    def create_table(self, name: str, workload: Workload, *, kafka: bool = False) -> None:
        """The table as every peer finds it; with `kafka`, as Tidemark makes it."""
        schema, spec = Columns(workload, kafka=kafka).iceberg()
        self.catalog.create_table(name, schema, partition_spec=spec, properties=properties_of(workload))

    def rows(self, table: str) -> int:
        """How many rows another process can read now."""
        snapshot = self.catalog.load_table(table).current_snapshot()
        summary = snapshot.summary if snapshot else None
        return int(summary["total-records"] or 0) if summary else 0

    def look(self, table: str) -> Look:
        """Count and add up all rows."""
        found = self.catalog.load_table(table)
        places = ("_kafka.partition", "_kafka.offset") if "_kafka" in found.schema().column_names else ()
        columns = found.scan(selected_fields=("order_id", "amount_cents", *places)).to_arrow()
        ids = columns["order_id"]
        distinct = [len(ids.unique()), *([_distinct_places(columns["_kafka"])] if places else [])]
        sums = Sums(
            len(columns),
            min(distinct),
            sum(chunk.to_numpy().sum().item() for chunk in ids.chunks),
            sum(chunk.to_numpy().sum().item() for chunk in columns["amount_cents"].chunks),
        )
        return Look(sums, *stored(found))

    def drop(self, table: str) -> None:
        """Forget a table and remove its files."""
        location = self.catalog.load_table(table).location()
        self.catalog.drop_table(table)
        shutil.rmtree(location.removeprefix("file://"), ignore_errors=True)

    def jdbc(self) -> dict[str, str]:
        """The catalog for Iceberg's Java library."""
        prefix = f"spark.sql.catalog.{NAME}."
        spark = LocalCatalog(self.home).spark()
        found = {key.removeprefix(prefix): value for key, value in spark.items() if key.startswith(prefix)}
        # others have no jar of Tidemark
        return found | {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"}

    def _filled(self, workload: Workload, count: int) -> Topic:
        name = f"{workload.name}_{count}"
        schema_id = self.declare(workload, name)
        queue = {"queue.buffering.max.messages": 500_000, "linger.ms": 50, "batch.size": 1_000_000}
        producer, size = Producer({"bootstrap.servers": self.bootstrap, **queue}), 0
        for key, value in workload.records(count, schema_id):
            size += len(value)
            while True:
                try:
                    producer.produce(name, value, partition=key % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        return Topic(name, workload, count, size)

    def _place(self) -> Place:
        return Place(self.home, self.java, Ports(self.home / "ports.json"))


def _distinct_places(kafka: pa.ChunkedArray) -> int:
    """Places on the topic that rows say they come from."""
    parts = {name: pc.struct_field(kafka, name) for name in ("partition", "offset")}
    return int(pa.table(parts).group_by(list(parts)).aggregate([]).num_rows)


def properties_of(workload: Workload) -> dict[str, str]:
    """Of the table that a workload is brought into."""
    return {**PROPERTIES, **CHANGING} if workload.kind == "upsert" else PROPERTIES


def stored(table: Table) -> tuple[int, int, int]:
    """Files of data and of deletes, their bytes, and the snapshots that brought rows."""
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    commits = sum(bool(s.summary and int(s.summary["added-records"] or 0)) for s in table.metadata.snapshots)
    files = int(summary.get("total-data-files", 0)) + int(summary.get("total-delete-files", 0))
    return files, int(summary.get("total-files-size", 0)), commits


@contextmanager
def ground() -> Iterator[Ground]:
    """A ground in a temporary folder; nothing of it is left behind."""
    without_proxy(os.environ)
    home = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    found = Ground(home)
    try:
        found.up()
        yield found
    finally:
        found.down()
        shutil.rmtree(home, ignore_errors=True)
