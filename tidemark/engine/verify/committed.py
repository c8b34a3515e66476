"""The committed records of a topic as offsets, read by a consumer of our own: no Spark, no group, nothing committed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tidemark.domain.config.platform import KafkaCluster
from tidemark.domain.errors import NO_TABLE, Outage, Stopped, TidemarkError
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.verify.marks import Offsets

BATCH = 20_000
PATIENCE = 60
"""Times one second without any record before the broker counts as down."""


@dataclass(frozen=True, slots=True)
class Read:
    """Records of one partition: offsets with a value, and tombstones. `upto`: all before it has been read.

    `old`: those of them whose record time lies before the one that was asked for.
    """

    partition: int
    values: Offsets
    tombstones: Offsets
    upto: int
    old: Offsets


def read_committed(
    cluster: KafkaCluster, topic: str, ranges: Mapping[int, OffsetRange], before: datetime | None
) -> Iterator[Read]:
    """Every committed record of `ranges`, partitions mixed, each in order.

    Raises:
        Outage: `kafka_down`.
        Stopped: `permission_denied`.
        TidemarkError: `failed`: Kafka deleted records while they were read.
    """
    open_ones = {p: each for p, each in ranges.items() if len(each)}
    if not open_ones:
        return
    consumer = Consumer(_properties(cluster))
    try:
        consumer.assign([TopicPartition(topic, p, each.start) for p, each in open_ones.items()])
        silent = 0
        while open_ones:
            messages = consumer.consume(BATCH, timeout=1.0)
            silent = 0 if messages else silent + 1
            if silent > PATIENCE:
                raise Outage("kafka_down", NO_TABLE, f"nothing came from {topic} for {PATIENCE} s")
            for read in _sorted(messages, open_ones, int(before.timestamp() * 1000) if before else 0):
                yield read
                if read.upto >= open_ones[read.partition].end:
                    del open_ones[read.partition]
                    consumer.pause([TopicPartition(topic, read.partition)])
    finally:
        consumer.close()


def _sorted(messages: list[Message], ranges: Mapping[int, OffsetRange], before: int) -> Iterator[Read]:
    old: dict[int, list[int]] = defaultdict(list)
    values: dict[int, list[int]] = defaultdict(list)
    tombstones: dict[int, list[int]] = defaultdict(list)
    upto: dict[int, int] = {}
    for message in messages:
        partition, offset = message.partition(), message.offset()
        if message.error() is not None:
            offset = _at_end(message) - 1
        elif len(message) or message.value() is not None:
            values[partition].append(offset)
        else:
            tombstones[partition].append(offset)
        if before and message.error() is None and 0 <= message.timestamp()[1] < before:
            old[partition].append(offset)
        upto[partition] = offset + 1
    for partition in upto.keys() & ranges.keys():
        end = ranges[partition].end
        yield Read(
            partition,
            _below(values[partition], end),
            _below(tombstones[partition], end),
            min(upto[partition], end),
            _below(old[partition], end),
        )


def _below(offsets: list[int], end: int) -> Offsets:
    found = np.asarray(offsets, dtype=np.int64)
    return found[found < end]


def _at_end(message: Message) -> int:
    """The offset at which a partition ends; holes by transactions and compaction lie before it."""
    error = message.error()
    code = error.code() if error else None
    if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
        return int(message.offset() or 0)
    if code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
        raise TidemarkError(
            f"Kafka deleted records of {message.topic()} while they were counted",
            next_step="count again",
            state="failed",
        )
    if code in {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}:
        raise Stopped("permission_denied", NO_TABLE, str(error))
    raise Outage("kafka_down", NO_TABLE, str(error))


def _properties(cluster: KafkaCluster) -> dict[str, object]:
    return {
        **cluster.client_properties(),
        "group.id": f"{cluster.group_id_prefix}-reconcile",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "queued.max.messages.kbytes": 32_768,
        "fetch.message.max.bytes": 4_194_304,
        "log_level": 0,
    }
