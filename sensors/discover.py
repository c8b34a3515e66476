"""Keeps the discovery file up to date with the topics that ticks see, and names those that no contract serves yet."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sensors.tick import Tick
from tidemark.domain.errors import TidemarkError
from tidemark.engine.config.discovery import Discovery, update

LIST_EVERY = timedelta(minutes=1)


def discover(tick: Tick, home: Path, served: Mapping[str, str]) -> str | None:
    """Write what is new, once a minute; the answer is a remark for the tick's reason, or None.

    `served`: digests of the columns that these definitions show, which are as old as the process that ticks.
    Clusters with a `topics:` contract are listed whole, of the others only the topics of contracts are kept.
    """
    before = tick.cache.listed_at
    if before is not None and tick.now - before < LIST_EVERY:
        return None
    tick.cache.listed_at = tick.now
    listed: dict[str, Mapping[str, int]] = {}
    for cluster in {pattern.cluster for pattern in tick.lake.configuration.patterns} & set(tick.topics):
        try:
            listed[cluster] = tick.lake.kafka(cluster).topics()
        except TidemarkError:
            continue
    update(home, lambda seen: _refreshed(seen, tick, listed).with_served(served))
    fresh = sorted(set(_unserved(tick, listed)))
    return f"new topics match a pattern, reload the definitions: {', '.join(fresh[:3])}" if fresh else None


def _refreshed(seen: Discovery, tick: Tick, listed: Mapping[str, Mapping[str, int]]) -> Discovery:
    for cluster, described in tick.topics.items():
        topics: dict[str, Mapping[str, Any]] = dict(seen.topics(cluster))
        if cluster in listed:
            topics = {name: {**topics.get(name, {}), "partitions": n} for name, n in listed[cluster].items()}
        topics |= {
            name: {"partitions": len(each.end), "id": each.topic_id} for name, each in described.items()
        }
        seen = seen.with_topics(cluster, topics)
    return seen


def _unserved(tick: Tick, listed: Mapping[str, Mapping[str, int]]) -> list[str]:
    configuration = tick.lake.configuration
    served = {(each.cluster, each.topic) for each in configuration.contracts}
    left_out = " ".join(problem.message for problem in configuration.left_out)
    return [
        topic
        for pattern in configuration.patterns
        for topic in listed.get(pattern.cluster, ())
        if re.fullmatch(pattern.topics, topic)
        and (pattern.cluster, topic) not in served
        and not re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-]|\.\w)", left_out)
    ]
