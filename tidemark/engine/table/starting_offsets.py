"""Where the first load of a topic begins: `ingest.start` resolved once, then pinned in the first receipt."""

from collections.abc import Mapping
from datetime import datetime

from tidemark.domain.config.contract import Contract, StartOffsets
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.times import first_millisecond
from tidemark.engine.access.kafka import KafkaAdmin


def starting_offsets(kafka: KafkaAdmin, contract: Contract, topic: Topic) -> dict[int, int]:
    """The first offset to read per partition, by any form of `ingest.start` (docs/guide.md, Contracts).

    Named offsets and group commits that Kafka no longer holds are refused, never moved in silence; partitions that
    they do not name begin at the log start.

    Raises:
        Stopped: `misconfigured` when an offset lies outside the log, or the group has committed nothing.
    """
    start = contract.ingest.start
    if start == "earliest":
        return dict(topic.log_start)
    if start == "latest":
        return dict(topic.end)
    if isinstance(start, datetime):
        return kafka.offsets_at(topic.name, topic.end, first_millisecond(start))
    if isinstance(start, StartOffsets):
        return _within(contract, topic, start.offsets, "ingest.start.offsets")
    group = start.consumer_group
    committed = kafka.group_offsets(group, topic.name, topic.end)
    if not committed:
        raise Stopped(
            "misconfigured",
            contract.table,
            f"ingest.start: consumer group {group} has committed nothing for {topic.name}.",
        )
    return _within(contract, topic, committed, f"consumer group {group}")


def _within(contract: Contract, topic: Topic, named: Mapping[int, int], source: str) -> dict[int, int]:
    if fault := fault_of(topic, named):
        raise Stopped("misconfigured", contract.table, f"{source}: {fault}.")
    return {**topic.log_start, **named}


def fault_of(topic: Topic, named: Mapping[int, int]) -> str | None:
    """Why a load cannot begin at these offsets, or None."""
    for partition, offset in named.items():
        low, high = topic.log_start.get(partition), topic.high_watermark.get(partition)
        if low is None or high is None:
            return f"{topic.name} has no partition {partition}"
        if not low <= offset <= high:
            return f"offset {offset} of partition {partition} is outside of what Kafka holds, {low} to {high}"
    return None
