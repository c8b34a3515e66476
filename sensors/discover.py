"""Keeps the discovery file up to date with the topics that ticks see, and names those that no contract serves yet."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sensors.tick import Tick
from tidemark.domain.config.configuration import Configuration
from tidemark.engine.config.discovery import Discovery, update
from tidemark.engine.look.topics import Listed, dropped, list_topics, with_listed

LIST_EVERY = timedelta(minutes=1)
_SHOWN = 3


def discover(tick: Tick, home: Path, shown_digests: Mapping[str, str]) -> str | None:
    """Write what is new, once a minute; the answer is a remark for the tick's reason, or None.

    `shown_digests`: digests of the columns that these definitions show, which are as old as the process that ticks.
    Clusters with a `topics:` contract are listed whole, of the others only the topics of contracts are kept.
    """
    before = tick.cache.listed_at
    if before is not None and tick.now - before < LIST_EVERY:
        return None
    tick.cache.listed_at = tick.now
    listed, _ = list_topics(tick.lake, tick.cache.down)
    absent = [each for each in tick.contracts if not tick.cache.entry(each.table).exists]
    gone = [] if tick.catalog_down else dropped(tick.lake, absent, listed)
    update(home, lambda seen: _refreshed(seen, tick, listed).without_topic(gone).with_served(shown_digests))
    return remark_on(tick.lake.configuration, listed)


def remark_on(configuration: Configuration, listed: Listed) -> str | None:
    """What a tick says of topics that are not served: yet, or because their table is another topic's or cannot be."""
    fresh = ", ".join(sorted(set(unserved(configuration, listed)))[:_SHOWN])
    left_out = [f"left out: {each.problem.message}" for each in configuration.left_out[:_SHOWN]]
    said = [f"new topics match a pattern, reload the definitions: {fresh}"] if fresh else []
    return "; ".join([*said, *left_out]) or None


def _refreshed(seen: Discovery, tick: Tick, listed: Listed) -> Discovery:
    seen = with_listed(seen, listed)
    for cluster, described in tick.topics.items():
        topics: dict[str, Mapping[str, Any]] = dict(seen.topics(cluster))
        topics |= {
            name: {"partitions": len(each.end), "id": each.topic_id} for name, each in described.items()
        }
        seen = seen.with_topics(cluster, topics)
    return seen


def unserved(configuration: Configuration, listed: Listed) -> list[str]:
    """Topics that match a `topics:` contract and have no table in these definitions yet."""
    known = {(each.cluster, each.topic) for each in configuration.contracts}
    known |= {(each.cluster, each.topic) for each in configuration.left_out}
    return [
        topic
        for pattern in configuration.patterns
        for topic in listed.get(pattern.cluster, ())
        if re.fullmatch(pattern.topics, topic) and (pattern.cluster, topic) not in known
    ]
