"""The same orders as topics of every format, for measurements: a thousand values each, sent again and again."""

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fastavro
import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from formats import FIELDS, PROTO, SCHEMA, message_class

from tidemark.engine.schema import protobuf
from tidemark.engine.schema.protoc import compile_proto

VALUES = 1000
ORDER = {
    "type": "record",
    "name": "Value",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "customer_id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "status", "type": "string"},
        {"name": "ordered_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop",
    "fields": [
        {"name": "before", "type": ["null", ORDER], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


def order(number: int) -> dict[str, Any]:
    return {
        "order_id": number,
        "customer_id": number * 7919 % 100_003,
        "amount": number * 31 % 1_000_000 / 100,
        "status": ("NEW", "PAID", "SENT", "RETURNED")[number % 4],
        "ordered_at": 1_767_323_045_678 + number,
    }


def document(number: int) -> dict[str, Any]:
    return {**order(number), "ordered_at": f"2026-01-02T03:04:05.{number % 1000:03}Z"}


def change(row: dict[str, Any]) -> dict[str, Any]:
    source = {"connector": "postgresql", "table": "orders", "lsn": row["order_id"]}
    return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1_767_323_045_678}


def avro(schema: dict[str, Any]) -> Callable[[Any], bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))

    def encode(value: Any) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, value)
        return sink.getvalue()

    return encode


def proto() -> Callable[[Any], bytes]:
    make = message_class(protobuf.read(compile_proto(PROTO)).descriptors)

    def encode(row: Any) -> bytes:
        message = make(**{name: value for name, value in row.items() if name != "ordered_at"})
        message.ordered_at.FromMilliseconds(row["ordered_at"])
        return b"\0" + bytes(message.SerializeToString())

    return encode


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


@dataclass(frozen=True)
class Case:
    """How values are made of an order's number, what is registered, and the contract's `value`."""

    made: Callable[[int], bytes]
    value: dict[str, Any] = field(default_factory=dict)
    schema: Any = None
    kind: str = "AVRO"


def cases() -> dict[str, Case]:
    plain, envelope, message = avro(ORDER), avro(ENVELOPE), proto()
    declared = {"format": "json", "fields": FIELDS}
    return {
        "avro": Case(lambda n: plain(order(n)), schema=ORDER),
        "debezium avro": Case(lambda n: envelope(change(order(n))), {"envelope": "debezium"}, ENVELOPE),
        "debezium json": Case(lambda n: as_json(change(document(n))), {**declared, "envelope": "debezium"}),
        "protobuf": Case(lambda n: message(order(n)), schema=PROTO, kind="PROTOBUF"),
        "json_schema": Case(lambda n: as_json(document(n)), schema=SCHEMA, kind="JSON"),
        "json, declared": Case(lambda n: as_json(document(n)), declared),
        "json, whole": Case(lambda n: as_json(document(n)), {"format": "json"}),
        "string": Case(lambda n: as_json(document(n)), {"format": "string"}),
        "raw": Case(lambda n: as_json(document(n)), {"format": "raw"}),
    }


def fill(stack: dict[str, Any], topic: str, case: Case, records: int, partitions: int = 4) -> int:
    """Make the topic, register its schema, send the values; gives the bytes of one, on average."""
    admin = AdminClient(stack["kafka"])
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result()
    head = b"" if case.schema is None else struct.pack(">bI", 0, _registered(stack, topic, case))
    values = [head + case.made(number) for number in range(VALUES)]
    producer = Producer({**stack["kafka"], "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(topic, values[number % VALUES], partition=number % partitions)
        if number % VALUES == 0:
            producer.poll(0)
    producer.flush()
    return sum(map(len, values)) // VALUES


def _registered(stack: dict[str, Any], topic: str, case: Case) -> int:
    text = case.schema if isinstance(case.schema, str) else json.dumps(case.schema)
    url = f"{stack['schema_registry']['url']}/subjects/{topic}-value/versions"
    answer = httpx.post(url, json={"schema": text, "schemaType": case.kind}, trust_env=False, timeout=30)
    return int(answer.raise_for_status().json()["id"])
