"""One tick of an upsert sensor: both ledgers of every table from the catalog, then the same decision as for topics."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

import dagster as dg

from assets.checks import evaluation
from assets.names import pool_of
from resources.lake import LakeResource
from sensors.answer import requested
from sensors.cursor import dump, parse
from sensors.on_disk import runnable
from sensors.runs import bury
from sensors.tick import Tick
from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.cadence.request import Trouble, mark_of
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.config.upsert import currents
from tidemark.domain.errors import Outage, Stopped, TidemarkError
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import named
from tidemark.engine.lane.upsert_work import as_topic
from tidemark.engine.look.upserts import lateness
from tidemark.engine.merge.state import Pair, read_pair

PARALLEL = 8


@dataclass
class MergeTick(Tick):
    """A tick whose topics are append tables. How long rows have waited is read from their receipts."""

    pairs: dict[str, Pair] = field(default_factory=dict)

    def _look_at_topics(self) -> None:
        pairs = read_pairs(self.lake, self.contracts)
        loaded = []
        for contract in self.contracts:
            found = pairs[contract.table]
            if isinstance(found, Outage):
                self.catalog_down = True
                self.down.append(f"the catalog is {found.state}: {found.fields.get('detail', '')}")
                continue
            if isinstance(found, Pair):
                topic = as_topic(found)
                if topic is None:
                    continue  # the append table is yet to be loaded
                known = dict(self.topics.get(contract.cluster, {}))
                self.topics[contract.cluster] = {**known, contract.topic: topic}
            self._take(contract, found)
            loaded.append(contract)
        self.contracts = loaded

    def _read_tables(self) -> None:
        """Everything was read together with the append tables."""

    def _take(self, contract: Contract, found: "Pair | Stopped") -> None:
        entry = self.cache.entry(contract.table)
        if isinstance(found, Pair):
            self.pairs[contract.table] = found
        if isinstance(found, Stopped):
            entry.fault, mark, entry.committed = found.state, str(found.state), None
            self.topics.setdefault(contract.cluster, {})
        else:
            merged = found.state.merged
            corrected = merged is not None and found.behind and not found.waiting
            entry.fault = (
                "lagging" if corrected else None
            )  # a replay or a rollback, which offsets do not show
            entry.exists, entry.paused = merged is not None, found.state.paused
            entry.committed = dict(merged.next) if merged else None
            entry.topic_id = f"{merged.append_uuid}/{merged.epoch}" if merged else None
            topic = as_topic(found)
            waits = Sighting(found.oldest, dict(topic.end)) if found.oldest and topic else None
            entry.sightings = [waits] if waits else []
            mark = f"{found.state.uuid}|{found.state.head}|{sorted(found.state.properties.items())}"
        entry.mark, entry.read_at = mark_of(contract, None, mark), self.now
        trouble = entry.trouble
        if trouble and not trouble.mark:
            entry.trouble = Trouble(trouble.state, trouble.failures, trouble.since, entry.mark)


def freshness_changes(tick: MergeTick) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per table whose grade is another than at the last tick; a paused one keeps its own."""
    for contract in tick.contracts:
        pair, entry = tick.pairs.get(contract.table), tick.cache.entry(contract.table)
        if pair is None or entry.paused or not entry.exists:
            continue
        lag, found = lateness(pair, tick.now)
        if found.grade != entry.grade:
            entry.grade = found.grade
            yield evaluation(contract, found, lag)


def read_pairs(lake: Lake, tables: Sequence[Contract]) -> Mapping[str, Pair | Stopped | Outage]:
    """What both tables say, by upsert table, or the state that asking ended in."""
    known = currents(lake.configuration.contracts)

    def ask(contract: Contract) -> Pair | Stopped | Outage:
        try:
            with named(contract.table):
                return read_pair(lake, known[contract.table])
        except (Stopped, Outage) as error:
            return error

    with ThreadPoolExecutor(PARALLEL) as pool:
        return dict(zip([each.table for each in tables], pool.map(ask, tables), strict=True))


def answer(
    context: dg.SensorEvaluationContext,
    resource: LakeResource,
    lane_name: str,
    lane: Lane,
    tables: Sequence[Contract],
) -> dg.SensorResult:
    """One tick. Trouble with the catalog is a reason to skip, never an exception."""
    try:
        bury(context.instance, resource.places.home, pool_of(lane_name))
        now = datetime.now(UTC)
        tick = MergeTick(
            resource.shared(), context.instance, lane_name, lane, tables, parse(context.cursor), now
        )
        decision, remark = runnable(resource, lane_name, tick.decide())
    except TidemarkError as error:
        return dg.SensorResult(skip_reason=str(error))
    events = list(freshness_changes(tick))
    requests = [requested(context, tick, decision)] if decision.tables else []
    skipped = "; ".join([*tick.down, remark or decision.reason])
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else skipped,
        cursor=dump(tick.cache),
        asset_events=events,
    )
