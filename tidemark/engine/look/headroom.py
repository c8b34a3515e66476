"""How long until Kafka may delete what was not read yet: retention.ms and the time of the oldest unread record."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidemark.domain.config.platform import KafkaCluster
from tidemark.domain.errors import NO_TABLE, Outage
from tidemark.engine.access.kafka import TIMEOUT

PATIENCE, PER_SECOND = 5.0, 500
"""Seconds for reading one record of each partition, and for so many of them one more; what has not come by then is
unknown."""
_FETCHES = (16 * 1024, 1024**2)
"""Bytes of a partition's fetch, first and for what has not come by half the time. Kafka ignores the bound for one
partition of an answer alone: where batches are larger, each answer brings a single one."""
Unread = tuple[str, Mapping[int, int]]
"""A topic, and by partition the offset from which on a table has not read it."""
_Place = tuple[str, int, int]
"""Topic, partition, offset."""


def headrooms(cluster: KafkaCluster, wanted: Mapping[str, Unread]) -> dict[str, float | None]:
    """Seconds until a record that a table (by its name) has not read may be deleted by age.

    None when the topic keeps records for ever, or when the time of a record could not be read. Deletion by size
    (retention.bytes) may come sooner. The age that Kafka goes by is the record timestamp.

    Raises:
        Outage: `kafka_down`.
    """
    limits = kept_for(cluster, {topic for topic, _ in wanted.values()})
    kept = {topic: limit for topic, limit in limits.items() if limit is not None}
    oldest = _oldest(cluster, {table: unread for table, unread in wanted.items() if unread[0] in kept})
    now = time.time()
    return {
        table: max(0.0, oldest[table] / 1000 + kept[topic] - now) if table in oldest else None
        for table, (topic, _) in wanted.items()
    }


def compacted(cluster: KafkaCluster, topic: str) -> bool | None:
    """Whether records of the topic may vanish because a newer one has their key; None where that may not be asked."""
    with suppress(Outage):
        return "compact" in _settings(cluster, [topic])[topic].get("cleanup.policy", "")
    return None


def kept_for(cluster: KafkaCluster, topics: Iterable[str]) -> dict[str, float | None]:
    """retention.ms in seconds; None for ever, also when the topic is only compacted.

    Raises:
        Outage: `kafka_down`.
    """
    limits: dict[str, float | None] = {}
    for topic, settings in _settings(cluster, topics).items():
        milliseconds = int(settings.get("retention.ms", -1))
        deleted = "delete" in settings.get("cleanup.policy", "delete")
        limits[topic] = milliseconds / 1000 if deleted and milliseconds >= 0 else None
    return limits


def _settings(cluster: KafkaCluster, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The topics' configuration as the broker says it; topics whose configuration is refused are absent."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    admin = AdminClient({**cluster.client_properties(), "log_level": 0})
    found: dict[str, dict[str, str]] = {}
    fault: Exception | None = None
    for resource, future in admin.describe_configs(resources, request_timeout=TIMEOUT).items():
        try:
            entries = future.result(TIMEOUT + 5)
        except (KafkaException, TimeoutError) as error:
            fault = error  # of this topic, perhaps: it may be read, and its configuration may not
            continue
        found[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    if not found:
        raise Outage("kafka_down", NO_TABLE, str(fault)) from fault
    return found


def _oldest(cluster: KafkaCluster, wanted: Mapping[str, Unread]) -> dict[str, int]:
    """The oldest timestamp (ms) among the first unread records of each table; one that lacks any of them is absent."""
    places = {
        table: {(topic, p, offset) for p, offset in offsets.items()}
        for table, (topic, offsets) in wanted.items()
    }
    waiting = {place for of_table in places.values() for place in of_table}
    times: dict[_Place, int] = {}
    for fetch in _FETCHES:
        if left := waiting - times.keys():
            times |= _first(cluster, left, fetch)
    read = {table: mine for table, mine in places.items() if mine and mine <= times.keys()}
    return {table: min(times[place] for place in mine) for table, mine in read.items()}


def _first(cluster: KafkaCluster, wanted: Collection[_Place], fetch: int) -> dict[_Place, int]:
    """The timestamp (ms) of the first record at or after each of these offsets; those not read in time are absent.

    A partition is read at one of its offsets after the other, the lowest first.
    """
    consumer = Consumer(
        {
            **cluster.client_properties(),
            "group.id": f"{cluster.group_id_prefix}-status",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1,
            "fetch.message.max.bytes": fetch,
            "log_level": 0,
        }
    )
    ahead: dict[tuple[str, int], list[int]] = defaultdict(list)
    for topic, p, offset in sorted(wanted, reverse=True):
        ahead[topic, p].append(offset)
    found: dict[_Place, int] = {}
    try:
        consumer.assign([TopicPartition(*where, offsets[-1]) for where, offsets in ahead.items()])
        until = time.monotonic() + _patience(len(wanted)) / len(_FETCHES)
        while len(found) < len(wanted) and time.monotonic() < until:
            for message in consumer.consume(1000, timeout=0.1):
                topic, p, at = message.topic(), message.partition(), message.timestamp()[1]
                offsets = ahead.get((topic, p))
                if message.error() is not None or at < 0 or not offsets or message.offset() < offsets[-1]:
                    continue
                while offsets and offsets[-1] <= message.offset():
                    found[topic, p, offsets.pop()] = at
                if offsets:
                    consumer.seek(TopicPartition(topic, p, offsets[-1]))
                else:
                    consumer.pause([TopicPartition(topic, p)])
    finally:
        consumer.close()
    return found


def _patience(places: int) -> float:
    return PATIENCE + places / PER_SECOND
