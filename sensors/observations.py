"""What ticks tell Dagster beside their decision, within the event budget: topics that moved, freshness that changed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import dagster as dg

from assets.checks.freshness import freshness_evaluation
from assets.checks.repeated import left_planned
from assets.names import topic_key
from assets.runs.report import is_unreported, published
from sensors.cursor import CATALOG, Entry
from sensors.merge_tick import MergeTick
from sensors.tick import HANGS, Tick
from tidemark.domain.cadence.freshness import GRADES, Judgement, judge, judge_unseen, of_paused
from tidemark.domain.cadence.lag import Lag
from tidemark.domain.cadence.reading import READS
from tidemark.domain.cadence.request import Ask, why_another_topic
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped, TidemarkError
from tidemark.domain.ledger.guard import Topic
from tidemark.engine.look.upserts import lateness

TickEvent = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def topic_observations(tick: Tick, decision: Ask, every: timedelta) -> Iterator[dg.AssetObservation]:
    """One observation per topic that moved since the last one, or has been caught up with since.

    Each asks Kafka for the newest record's time: as many as a tick has time for, those first that waited longest.
    """
    tables: dict[tuple[str, str], list[Contract]] = defaultdict(list)
    for contract in tick.contracts:
        tables[contract.cluster, contract.topic].append(contract)
    told, began = 0, monotonic()
    never = datetime.fromtimestamp(0, UTC)
    turn = sorted(tables.items(), key=lambda each: tick.cache.entry(each[1][0].table).observed_at or never)
    for (cluster, name), served in turn:
        topic = tick.topics.get(cluster, {}).get(name)
        entry = tick.cache.entry(served[0].table)
        if topic is None or (entry.observed_at is not None and tick.now - entry.observed_at < every):
            continue
        end = sum(topic.end.values())
        lag = _furthest([decision.lags.get(each.table, Lag(0, 0.0)) for each in served])
        if entry.observed == end and not (entry.lagged and not lag.records):
            continue
        if told == READS or monotonic() - began > HANGS:
            return
        told += 1
        entry.observed_at, entry.observed, entry.lagged = tick.now, end, lag.records > 0
        yield dg.AssetObservation(topic_key(served[0]), metadata=_metadata(tick, served[0], topic, lag))


def freshness_changes(tick: Tick, decision: Ask) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per table whose grade is another than at the last tick.

    The grade stays while nothing can be known: of a topic that is gone, or is not the one that was read, nothing waits,
    and what was not read is not published.
    """
    for contract in tick.contracts:
        entry, lag = tick.cache.entry(contract.table), decision.lags.get(contract.table)
        if lag is None or entry.committed is None or entry.fault or entry.read_at != tick.now:
            continue  # what a run has committed since the last reading would count as lag
        topic = tick.topics[contract.cluster].get(contract.topic)
        if why_another_topic(topic, entry.topic_id, entry.committed):
            continue
        quiet = (tick.now - entry.active).total_seconds() if entry.active else None
        found = judge(lag, contract.freshness, quiet=quiet, staged=entry.staged)
        yield from _graded(contract, entry, found, lag)


def merge_freshness_changes(tick: MergeTick) -> Iterator[dg.AssetCheckEvaluation]:
    """The same of upsert tables, for those that were read."""
    for contract in tick.contracts:
        pair, entry = tick.pairs.get(contract.table), tick.cache.entry(contract.table)
        if pair is not None and entry.exists:
            lag, found = lateness(pair, tick.now)
            yield from _graded(contract, entry, found, lag)


def unseen_freshness(tick: Tick, tables: Iterable[Contract]) -> Iterator[dg.AssetCheckEvaluation]:
    """Freshness of tables that nobody can look at: Kafka, their topic, the catalog or their own files do not answer.

    What was known to be worse stays. One that was never loaded has nothing that could be late.
    """
    for contract in tables:
        entry, down = tick.cache.entry(contract.table), tick.cache.down
        if not entry.exists:
            continue
        outages = {
            f"cluster {contract.cluster} has not answered": down.get(contract.cluster),
            f"topic {contract.topic} has not answered": entry.unseen,
            "the catalog has not answered": down.get(CATALOG),
            f"it could not be read ({entry.fault})": entry.lost,
        }
        since, what = min(((at, what) for what, at in outages.items() if at), default=(tick.now, ""))
        found = judge_unseen(what, (tick.now - since).total_seconds(), contract.freshness)
        if GRADES.index(found.grade) > GRADES.index(entry.grade or "fresh"):
            yield from _graded(contract, entry, found)


def _graded(
    contract: Contract, entry: Entry, found: Judgement, lag: Lag | None = None
) -> Iterator[dg.AssetCheckEvaluation]:
    """The check of a table, if its grade is another than the one that was told last."""
    if found.grade != entry.grade:
        entry.grade = found.grade
        yield freshness_evaluation(contract, of_paused(found) if entry.paused else found, lag)


def unreported_results(
    tick: Tick, decision: Ask
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """What runs have published that were killed, or stopped at the table, before they told of it: marts wait for it.

    They wait for it too where Dagster's database was lost. Checks that such a run has skipped are told again. A table
    that stopped gets its result only with a request for a run that says so again, because a result would hide the stop;
    a run that goes on tells by itself. A catalog that is down is not asked on: one that hangs would use up the tick's
    time.
    """
    if tick.catalog_down:
        return
    began = monotonic()
    for contract in [each for each in tick.contracts if _is_due(tick, decision, each.table)][:READS]:
        if monotonic() - began > HANGS:
            return
        try:
            state = tick.states.get(contract.table) or tick.lake.state(contract.table)
        except Stopped:
            continue
        except Outage:
            return
        tick.cache.entry(contract.table).owed = False
        if is_unreported(tick.instance, contract, state):
            yield from published(tick.instance, contract, state)
        else:
            yield from left_planned(tick.instance, contract)


def _is_due(tick: Tick, decision: Ask, table: str) -> bool:
    entry = tick.cache.entry(table)
    unread = table not in tick.states and (entry.read_at is None or entry.fault is not None)
    if not entry.owed or unread:
        return False  # one that cannot be read now is not asked for at every tick
    stopped = entry.trouble is not None and entry.trouble.state != "failed"
    return not stopped or table in decision.tables


def _furthest(lags: Sequence[Lag]) -> Lag:
    """How far the tables of a topic are behind at most."""
    return Lag(max(lag.records for lag in lags), max(lag.seconds for lag in lags))


def _metadata(tick: Tick, contract: Contract, topic: Topic, lag: Lag) -> dict[str, Any]:
    found: dict[str, Any] = {
        "end_offset": sum(topic.end.values()),
        "partitions": len(topic.end),
        "end_offsets": dg.MetadataValue.json({str(p): o for p, o in sorted(topic.end.items())}),
        "lag_records": lag.records,
        "lag_seconds": round(lag.seconds, 1),
    }
    clock: datetime | None = None
    with suppress(TidemarkError):
        clock = tick.lake.kafka(contract.cluster).clock(topic.name, topic.end)
    return {**found, "stream_clock": dg.MetadataValue.timestamp(clock)} if clock else found
