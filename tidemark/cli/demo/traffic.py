"""Sample traffic: a thread that produces until it is told to stop."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

import httpx
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidemark.cli.demo.records import SCHEMAS, Make, makers, orders, rates
from tidemark.engine.access.kafka import KafkaAdmin

TOPICS = ("orders", "clicks", "audit_log", "sensors")
PARTITIONS = 3
TICK = 0.1
AT_ONCE = 5_000
"""Records of a burst that one tick sends."""


@dataclass(slots=True)
class Traffic:
    """Producers of all sample topics. `produced` counts what the broker has acknowledged since the topics began."""

    bootstrap: str
    registry: str
    produced: Counter[str] = field(default_factory=Counter)
    _makers: dict[str, Make] = field(default_factory=dict)
    _burst: Counter[str] = field(default_factory=Counter)
    _stop: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _thread: Thread | None = None

    def start(self) -> None:
        """Make topics and schemas where they are not there yet, and begin to produce."""
        self._make_topics()
        self._makers = makers({topic: self._register(topic, schema) for topic, schema in SCHEMAS.items()})
        topics = KafkaAdmin("demo", {"bootstrap.servers": self.bootstrap}).describe(TOPICS)
        for name, topic in topics.items():
            self.produced[name] = sum(topic.high_watermark.values())
        self._thread = Thread(target=self._produce, name="traffic", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, once everything that was sent is acknowledged."""
        self._stop.set()
        if self._thread:
            self._thread.join(15)

    def send(self, topic: str, value: bytes) -> None:
        """One record as it is; acknowledged when this returns."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        producer.produce(topic, value, key=b"by hand", on_delivery=self._acknowledged)
        producer.flush(15)

    def add(self, topic: str, count: int) -> None:
        """Send `count` records more than usual, as fast as it goes."""
        with self._lock:
            self._burst[topic] += count

    def write_orders_with(self, schema: Mapping[str, Any]) -> None:
        """From now on; the schema is registered first, as any producer would."""
        self._makers["orders"] = orders(self._register("orders", schema), schema)

    def send_orders_against_the_rules(self, schema: Mapping[str, Any], count: int) -> None:
        """Register a schema with the registry's check switched off for the moment, and write a few records with it."""
        rules = f"{self.registry}/config/orders-value"
        httpx.put(rules, json={"compatibility": "NONE"}, timeout=30, trust_env=False).raise_for_status()
        try:
            make = orders(self._register("orders", schema), schema)
        finally:
            httpx.put(
                rules, json={"compatibility": "BACKWARD"}, timeout=30, trust_env=False
            ).raise_for_status()
        for number in range(count):
            self.send("orders", make(number)[1])

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50, "log_level": 0})
        numbers, began = Counter(self.produced), time.monotonic()
        while not self._stop.wait(TICK):
            for topic, usual in rates(time.monotonic() - began).items():
                for _ in range(usual + self._more(topic)):
                    numbers[topic] += 1
                    key, value = self._makers[topic](numbers[topic])
                    producer.produce(topic, value, key=key, on_delivery=self._acknowledged)
            producer.poll(0)
        producer.flush(15)

    def _more(self, topic: str) -> int:
        with self._lock:
            now = min(self._burst[topic], AT_ONCE)
            self._burst[topic] -= now
        return now

    def _acknowledged(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            with self._lock:
                self.produced[message.topic()] += 1

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]).values():
            try:
                future.result(30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _register(self, topic: str, schema: Mapping[str, Any]) -> int:
        answer = httpx.post(
            f"{self.registry}/subjects/{topic}-value/versions",
            json={"schema": json.dumps(schema)},
            timeout=30,
            trust_env=False,
        )
        answer.raise_for_status()
        return int(answer.json()["id"])
