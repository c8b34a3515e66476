"""How long until Kafka may delete what was not read yet: retention.ms and the time of the oldest unread record."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidemark.domain.config.platform import KafkaCluster
from tidemark.domain.errors import NO_TABLE, Outage
from tidemark.engine.access.kafka import TIMEOUT

PATIENCE, PER_SECOND = 5.0, 500
"""Seconds for reading one record of each partition, and for so many partitions one more; what has not come by then is
unknown."""
_FETCHES = (16 * 1024, 1024**2)
"""Bytes of a partition's fetch, first and for what has not come by half the time. Kafka ignores the bound for one
partition of an answer alone: where batches are larger, each answer brings a single one."""


def headrooms(cluster: KafkaCluster, wanted: Mapping[str, Mapping[int, int]]) -> dict[str, float | None]:
    """Seconds until a record at or after these offsets (topic -> partition -> offset) may be deleted by age.

    None when the topic keeps records for ever, or when the time of a record could not be read. Deletion by size
    (retention.bytes) may come sooner. The age that Kafka goes by is the record timestamp.

    Raises:
        Outage: `kafka_down`.
    """
    kept = {topic: limit for topic, limit in kept_for(cluster, wanted).items() if limit is not None}
    oldest = _oldest(cluster, {topic: wanted[topic] for topic in kept})
    now = time.time()
    return {
        topic: max(0.0, oldest[topic] / 1000 + kept[topic] - now)
        if topic in kept and topic in oldest
        else None
        for topic in wanted
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


def _oldest(cluster: KafkaCluster, wanted: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """The oldest timestamp (ms) among the first records at these offsets; topics that could not be read are absent."""
    waiting = {(topic, p): offset for topic, offsets in wanted.items() for p, offset in offsets.items()}
    times: dict[str, int] = {}
    for fetch in _FETCHES:
        if waiting:
            for (topic, p), at in _first(cluster, waiting, fetch).items():
                times[topic] = min(times.get(topic, at), at)
                del waiting[topic, p]
    unread = {topic for topic, _ in waiting}
    return {topic: at for topic, at in times.items() if topic not in unread}


def _first(
    cluster: KafkaCluster, wanted: Mapping[tuple[str, int], int], fetch: int
) -> dict[tuple[str, int], int]:
    """The timestamp (ms) of the first record at or after these offsets; partitions not read in time are absent."""
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
    found: dict[tuple[str, int], int] = {}
    try:
        consumer.assign([TopicPartition(topic, p, offset) for (topic, p), offset in wanted.items()])
        until = time.monotonic() + _patience(len(wanted)) / len(_FETCHES)
        while len(found) < len(wanted) and time.monotonic() < until:
            for message in consumer.consume(1000, timeout=0.1):
                where, at = (message.topic(), message.partition()), message.timestamp()[1]
                if message.error() is None and at >= 0 and where in wanted and where not in found:
                    found[where] = at
                    consumer.pause([TopicPartition(*where)])
    finally:
        consumer.close()
    return found


def _patience(partitions: int) -> float:
    return PATIENCE + partitions / PER_SECOND
