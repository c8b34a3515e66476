"""One offset of a topic, as Kafka shows it now: read by a consumer of our own, nothing committed."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidemark.domain.config.platform import KafkaCluster
from tidemark.domain.ledger.fate import Seen
from tidemark.domain.ledger.guard import Topic

PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Peek:
    """What stands at the offset; key, value and time where there is a committed record."""

    seen: Seen
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int | None = None
    """Microseconds since 1970."""


def peek(cluster: KafkaCluster, topic: Topic | None, partition: int, offset: int) -> Peek:
    """Look at one offset; `unanswered` when Kafka does not answer."""
    if topic is None or partition not in topic.end:
        return Peek("unanswered")
    if offset < topic.log_start[partition]:
        return Peek("gone")
    try:
        committed = _read(cluster, topic.name, partition, offset, "read_committed")
        if committed is not None:
            value = committed.value()
            at = committed.timestamp()[1]
            return Peek(
                "tombstone" if value is None else "record",
                committed.key(),
                value,
                at * 1000 if at >= 0 else None,
            )
        return Peek(
            "hole" if _read(cluster, topic.name, partition, offset, "read_uncommitted") is None else "aborted"
        )
    except (KafkaException, TimeoutError):
        return Peek("unanswered")


def _read(cluster: KafkaCluster, topic: str, partition: int, offset: int, isolation: str) -> Message | None:
    """The record at the offset; None when the next one that is shown lies beyond it.

    Raises:
        TimeoutError: nothing came.
    """
    consumer = Consumer(
        {
            **cluster.client_properties(),
            "group.id": f"{cluster.group_id_prefix}-where",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "queued.min.messages": 1,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message if message.offset() == offset else None
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
                return None
            raise KafkaException(error)
    finally:
        consumer.close()
    raise TimeoutError(f"nothing came from {topic} within {PATIENCE:.0f} s")
