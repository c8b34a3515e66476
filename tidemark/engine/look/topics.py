"""Which topics there are where a `topics:` contract may take them: asked of Kafka, kept in the discovery file."""

from collections.abc import Container, Mapping
from pathlib import Path

from tidemark.domain.errors import TidemarkError
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.discovery import Discovery, update

Listed = Mapping[str, Mapping[str, int]]


def list_topics(lake: Lake, down: Container[str] = ()) -> Listed:
    """Numbers of partitions by cluster and topic, of clusters with a `topics:` contract that answer now.

    Those that are known to be `down` are not asked: that takes ten seconds each.
    """
    listed: dict[str, Mapping[str, int]] = {}
    for cluster in sorted({pattern.cluster for pattern in lake.configuration.patterns}):
        if cluster in down:
            continue
        try:
            listed[cluster] = lake.kafka(cluster).topics()
        except TidemarkError:
            continue
    return listed


def with_listed(seen: Discovery, listed: Listed) -> Discovery:
    """What was seen before, with these lists in place of those of the same clusters."""
    for cluster, partitions in listed.items():
        known = seen.topics(cluster)
        topics = {name: {**known.get(name, {}), "partitions": n} for name, n in partitions.items()}
        seen = seen.with_topics(cluster, topics)
    return seen


def refresh_topics(lake: Lake, home: Path) -> bool:
    """List the topics anew; returns whether anything was not known: the configuration is then to be loaded again."""
    listed = list_topics(lake) if lake.configuration.patterns else {}
    return bool(listed) and update(home, lambda seen: with_listed(seen, listed))
