"""The newest records of a topic: as offset ranges, and read by a consumer of our own that commits nothing."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated

PATIENCE = 20.0
"""Seconds that reading may take."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the sample."""

    key: bytes | None
    value: bytes | None


def newest(topic: Topic, records: int) -> dict[int, OffsetRange]:
    """The last offsets of each partition, `records` in all, fairly shared; what a partition lacks the others give."""
    left = {p: end - topic.log_start[p] for p, end in topic.end.items() if end > topic.log_start[p]}
    share = dict.fromkeys(left, 0)
    room = min(records, sum(left.values()))
    while room:
        unfilled = [p for p in sorted(left) if share[p] < left[p]]
        each = max(1, room // len(unfilled))
        for p in unfilled:
            more = min(each, left[p] - share[p], room)
            share[p] += more
            room -= more
    return {p: OffsetRange(topic.end[p] - taken, topic.end[p]) for p, taken in share.items() if taken}


def sampled(lake: Lake, topic: Topic, cluster: str, ranges: Mapping[int, OffsetRange]) -> list[Record]:
    """The committed records of `ranges`, as far as they come in time.

    Raises:
        Stopped, Outage: Kafka does not let us read a partition.
    """
    block = lake.platform.kafka[cluster]
    consumer = Consumer(
        {
            **block.client_properties(),
            "group.id": f"{block.group_id_prefix}-new",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    found: list[Record] = []
    with closing(consumer), translated(topic=topic.name, cluster=cluster):
        consumer.assign([TopicPartition(topic.name, p, each.start) for p, each in ranges.items()])
        open_, deadline = set(ranges), time.monotonic() + PATIENCE
        while open_ and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.5):
                partition, error = message.partition(), message.error()
                if partition not in ranges:  # of the group, which we do not need
                    continue
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                if error is None and message.offset() < ranges[partition].end:
                    found.append(Record(message.key(), message.value()))
                if error is not None or message.offset() >= ranges[partition].end - 1:
                    open_.discard(partition)
    return found
