"""Avro orders on a topic of the embedded stack, for measurements: about 60 bytes and five fields each."""

import io
import json
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "customer_id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "status", "type": "string"},
        {"name": "ordered_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def create(stack: dict[str, Any], topic: str, partitions: int) -> int:
    """A topic, made unless it is there, with its schema registered; returns the schema id."""
    admin = AdminClient(stack["kafka"])
    if topic not in admin.list_topics(timeout=20).topics:
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result()
    url = f"{stack['schema_registry']['url']}/subjects/{topic}-value/versions"
    return int(httpx.post(url, json={"schema": json.dumps(SCHEMA)}).raise_for_status().json()["id"])


def produce(
    stack: dict[str, Any], topic: str, schema_id: int, first: int, count: int, partitions: int
) -> None:
    """Orders `first` to `first + count - 1`, spread over partitions and three days."""
    producer = Producer(
        {**stack["kafka"], "linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "log_level": 0}
    )
    schema = fastavro.parse_schema(SCHEMA)
    day = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(first, first + count):
        order = {
            "order_id": number,
            "customer_id": number * 7919 % 100_003,
            "amount": Decimal(number * 31 % 1_000_000) / 100,
            "status": ("NEW", "PAID", "SENT", "RETURNED")[number % 4],
            "ordered_at": day + timedelta(days=number % 3, milliseconds=number),
        }
        buffer = io.BytesIO()
        buffer.write(struct.pack(">bI", 0, schema_id))
        fastavro.schemaless_writer(buffer, schema, order)
        producer.produce(topic, buffer.getvalue(), key=str(number).encode(), partition=number % partitions)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
