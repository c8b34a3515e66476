"""Topics as other people's producers fill them: Avro in the Confluent wire format, transactions, tombstones, raw bytes.

Nothing of the product is used here, so that a fault of it cannot hide itself.
"""

import io
import json
import os
import struct
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import fastavro
import httpx
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
BEGAN = 1_767_225_600_000_000  # 2026-01-01 in microseconds


def order(number: int) -> dict[str, Any]:
    """One order; every seventh customer is the same."""
    return {
        "id": number,
        "customer": f"c{number % 7}",
        "amount": number / 4,
        "at": BEGAN + number * 60_000_000,
    }


@dataclass(frozen=True)
class Cluster:
    """Where the broker and the registry answer."""

    bootstrap: str
    registry_url: str

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def register(
        self,
        subject: str,
        schema: Mapping[str, Any] | str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """The id of a schema, of Protobuf as its text."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = httpx.post(
            f"{self.registry_url}/subjects/{subject}/versions",
            json={"schema": text, "schemaType": kind, "references": list(references)},
            timeout=30,
            trust_env=False,
        )
        assert answer.is_success, answer.text
        return int(answer.json()["id"])

    def topic(
        self, name: str, partitions: int = 1, *, schema: Mapping[str, Any] = ORDER, **config: str
    ) -> "Topic":
        """A new topic whose name ends in a token of its own, with its value schema registered."""
        topic = self.bare_topic(name, partitions, **config)
        topic.use(schema)
        return topic

    def bare_topic(self, name: str, partitions: int = 1, **config: str) -> "Topic":
        """The same without a schema."""
        topic = Topic(self, f"{name}_{uuid.uuid4().hex[:6]}", {})
        topic.create(partitions, **config)
        return topic

    def compacted_topic(self, name: str) -> "Topic":
        """A new topic that Kafka compacts as soon as it may; the log cleaner waits for half a second, not for 15."""
        soon = ConfigEntry("log.cleaner.backoff.ms", "500", incremental_operation=AlterConfigOpType.SET)
        for broker in self.admin.list_topics(timeout=30).brokers:
            resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[soon])
            self.admin.incremental_alter_configs([resource])[resource].result(30)
        return self.topic(
            name,
            cleanup_policy="compact",
            segment_ms="100",
            min_cleanable_dirty_ratio="0.001",
            max_compaction_lag_ms="100",
            delete_retention_ms="600000",
        )


@dataclass
class Topic:
    """One topic. `send…` return when the broker has acknowledged everything."""

    cluster: Cluster
    name: str
    schema: Mapping[str, Any]
    schema_id: int = 0
    partitions: int = 0
    _parsed: Any = None
    _producer: Producer | None = field(default=None, repr=False)

    def use(self, schema: Mapping[str, Any]) -> None:
        """Write with `schema` from now on."""
        self.schema = schema
        self.schema_id = self.register(schema)
        self._parsed = fastavro.parse_schema(dict(schema), _write_hint=False)

    def register(
        self,
        schema: Mapping[str, Any] | str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """The id of a schema of its values."""
        return self.cluster.register(f"{self.name}-value", schema, kind, references)

    def create(self, partitions: int, **config: str) -> None:
        """With `config` in Kafka's words, `_` for `.`. By default Kafka keeps records of any age, as tests date them."""
        known = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
        request = NewTopic(
            self.name,
            num_partitions=partitions,
            replication_factor=1,
            config=known,
        )
        deadline = time.monotonic() + 30
        while True:  # the name of a topic that is being deleted stays taken for a moment
            try:
                self.cluster.admin.create_topics([request])[self.name].result(30)
                break
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.partitions = partitions
        self._producer = None
        self._await_metadata(partitions)

    def delete(self) -> None:
        self.cluster.admin.delete_topics([self.name])[self.name].result(30)
        self._producer = None

    def recreate(self, partitions: int) -> None:
        """Delete the topic and create it again under its old name."""
        self.delete()
        self.create(partitions)

    def grow(self, partitions: int) -> None:
        self.cluster.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(30)
        self.partitions = partitions
        self._producer = None
        self._await_metadata(partitions)

    def delete_records(self, before: Mapping[int, int]) -> None:
        """Move the log start, as retention does."""
        request = [TopicPartition(self.name, partition, offset) for partition, offset in before.items()]
        for future in self.cluster.admin.delete_records(request).values():
            future.result(30)

    def cut_off(self, data: Path, ends: Mapping[int, int]) -> None:
        """Let partitions end where a send began, as an unclean election does; `data` is of a broker that is down."""
        for partition, end in ends.items():
            [log] = (data / f"{self.name}-{partition}").glob("*.log")
            batches, at = log.read_bytes(), 0
            while at < len(batches) and (found := struct.unpack_from(">qi", batches, at))[0] < end:
                at += 12 + found[1]
            os.truncate(log, at)
        self._producer = None

    def encode(self, value: Mapping[str, Any]) -> bytes:
        """Magic byte, schema id, Avro."""
        out = io.BytesIO()
        out.write(struct.pack(">bI", 0, self.schema_id))
        fastavro.schemaless_writer(out, self._parsed, dict(value))
        return out.getvalue()

    def send(self, numbers: Iterable[int], partition: int | None = None) -> None:
        """One order per number; spread round-robin unless `partition` says otherwise."""
        self.send_raw(
            (str(n).encode(), self.encode(order(n)), n % self.partitions if partition is None else partition)
            for n in numbers
        )

    def send_tombstones(self, numbers: Iterable[int]) -> None:
        self.send_raw((str(n).encode(), None, n % self.partitions) for n in numbers)

    def send_raw(self, messages: Iterable[tuple[bytes | None, bytes | None, int]]) -> None:
        """(key, value, partition) as they are."""
        if self._producer is None:
            self._producer = self._new_producer()
        _produce(self._producer, self.name, messages)
        _flush(self._producer)

    def send_at(self, numbers: Iterable[int], at: datetime | int) -> None:
        """Orders whose Kafka time is `at` (milliseconds if a number), whatever the clock says."""
        producer, then = self._new_producer(), at if isinstance(at, int) else int(at.timestamp() * 1000)
        for n in numbers:
            producer.produce(
                self.name,
                self.encode(order(n)),
                str(n).encode(),
                n % self.partitions,
                on_delivery=_acknowledged,
                timestamp=then,
            )
        _flush(producer)

    @contextmanager
    def transaction(self, *, abort: bool = False) -> "Iterator[Transaction]":
        """What is sent inside becomes visible at its end, or never."""
        producer = self._new_producer(**{"transactional.id": f"{self.name}-{uuid.uuid4().hex[:6]}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        yield Transaction(self, producer)
        if abort:
            producer.flush(30)  # so that the records really are in the log
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        self._await_markers()

    def _await_markers(self) -> None:
        """The coordinator answers before the markers of the transaction's end are in the log."""
        partitions = [TopicPartition(self.name, p) for p in range(self._partitions())]
        deadline = time.monotonic() + 30
        while self._ends(partitions, IsolationLevel.READ_COMMITTED) != self._ends(
            partitions, IsolationLevel.READ_UNCOMMITTED
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"a transaction of {self.name} stays open")
            time.sleep(0.02)

    def _partitions(self) -> int:
        return len(self.cluster.admin.list_topics(self.name, timeout=10).topics[self.name].partitions)

    def _ends(self, partitions: list[TopicPartition], level: IsolationLevel) -> list[int]:
        wanted = dict.fromkeys(partitions, OffsetSpec.latest())
        found = self.cluster.admin.list_offsets(wanted, isolation_level=level, request_timeout=10)
        return [found[each].result().offset for each in partitions]

    def _new_producer(self, **config: Any) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "linger.ms": 5,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 500_000,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                **config,
            }
        )

    def _await_metadata(self, partitions: int) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            known = self.cluster.admin.list_topics(self.name, timeout=10).topics[self.name]
            if len(known.partitions) == partitions and all(p.leader >= 0 for p in known.partitions.values()):
                return
            time.sleep(0.1)
        raise TimeoutError(f"{self.name} did not get {partitions} partitions")


@dataclass(frozen=True)
class Transaction:
    """An open transaction of one producer."""

    topic: Topic
    producer: Producer

    def send(self, numbers: Iterable[int]) -> None:
        topic = self.topic
        messages = ((str(n).encode(), topic.encode(order(n)), n % topic.partitions) for n in numbers)
        _produce(self.producer, topic.name, messages)


def _produce(
    producer: Producer, topic: str, messages: Iterable[tuple[bytes | None, bytes | None, int]]
) -> None:
    for key, value, partition in messages:
        while True:
            try:
                producer.produce(topic, value=value, key=key, partition=partition, on_delivery=_acknowledged)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)


def _flush(producer: Producer) -> None:
    if producer.flush(60):
        raise TimeoutError("the broker did not acknowledge everything within a minute")


def _acknowledged(error: KafkaError | None, _message: Any) -> None:
    if error is not None:
        raise KafkaException(error)
