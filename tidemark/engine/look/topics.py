"""Which topics there are where a `topics:` contract may take them: asked of Kafka, kept in the discovery file."""

from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped, TidemarkError
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.config.discovery import Discovery, update

Listed = Mapping[str, Mapping[str, int]]


def list_topics(lake: Lake, down: Container[str] = ()) -> tuple[Listed, Mapping[str, TidemarkError]]:
    """Numbers of partitions by cluster and topic, of clusters with a `topics:` contract; and why others do not answer.

    All are asked at once: one that does not answer takes ten seconds. Those that are known to be `down` are not asked.
    """
    clusters = sorted({p.cluster for p in lake.configuration.patterns if p.cluster not in down})

    def ask(cluster: str) -> Mapping[str, int] | TidemarkError:
        try:
            return lake.kafka(cluster).topics()
        except TidemarkError as error:
            return error

    if not clusters:
        return {}, {}
    with ThreadPoolExecutor(len(clusters)) as pool:
        found = dict(zip(clusters, pool.map(ask, clusters), strict=True))
    faults = {cluster: each for cluster, each in found.items() if isinstance(each, TidemarkError)}
    return {cluster: each for cluster, each in found.items() if not isinstance(each, TidemarkError)}, faults


def with_listed(seen: Discovery, listed: Listed) -> Discovery:
    """What was seen before, with these lists in place of those of the same clusters."""
    for cluster, partitions in listed.items():
        known = seen.topics(cluster)
        topics = {name: {**known.get(name, {}), "partitions": n} for name, n in partitions.items()}
        seen = seen.with_topics(cluster, topics)
    return seen


def dropped(lake: Lake, contracts: Iterable[Contract], listed: Listed) -> list[str]:
    """Tables that the catalog has no more, of topics that are no longer listed: nothing is left of what was loaded.

    Those of a catalog that does not answer are not among them.
    """
    found: list[str] = []
    with suppress(Outage):  # a catalog that hangs is not asked for each of them
        for each in contracts:
            if each.topic not in listed.get(each.cluster, {each.topic: 0}):
                with suppress(Stopped), translated(each.table):
                    found += [] if lake.catalog.table_exists(each.table) else [each.table]
    return found


def refresh_topics(lake: Lake, home: Path) -> bool:
    """List the topics anew; returns whether anything was not known: the configuration is then to be loaded again.

    Raises:
        Outage, Stopped: a cluster does not answer, and no table is known from before.
    """
    if not lake.configuration.patterns:
        return False
    listed, faults = list_topics(lake)
    if faults and not listed and not lake.configuration.contracts:
        raise next(iter(faults.values()))
    gone = dropped(lake, lake.configuration.contracts, listed)
    return update(home, lambda seen: with_listed(seen, listed).without_topic(gone))
