"""From a tick's decision to what Dagster is told: a run request or a reason, observations, the cursor."""

from collections.abc import Mapping, Sequence

import dagster as dg

from resources.lake import LakeResource
from sensors.append_tick import AppendTick
from sensors.cursor import dump, parse
from sensors.dead_runs import bury
from sensors.discover import discover
from sensors.observations import (
    TickEvent,
    freshness_changes,
    topic_observations,
    unreported_results,
    unseen_freshness,
)
from sensors.on_disk import as_on_disk, digests, runnable
from sensors.run_requests import requested
from tidemark.domain.cadence.event_budget import report_period
from tidemark.domain.cadence.request import Ask
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import TidemarkError


def answer(
    context: dg.SensorEvaluationContext,
    resource: LakeResource,
    lane_name: str,
    lane: Lane,
    contracts: Sequence[Contract],
    shown_digests: Mapping[str, str],
) -> dg.SensorResult:
    """One tick. Trouble with a service is a reason to skip, never an exception."""
    try:
        bury(context.instance, resource.places.home)
        lake = resource.shared()
        contracts, moved = as_on_disk(resource, lake, contracts)
        tick = AppendTick(
            lake,
            context.instance,
            lane_name,
            lane,
            contracts,
            parse(context.cursor),
            digests=digests(resource),
        )
        decision, added = runnable(context, resource, lane_name, tick.decide())
    except TidemarkError as error:
        return dg.SensorResult(skip_reason=str(error))
    every = report_period(lake.platform.report_every, len(lake.configuration.contracts))
    events: list[TickEvent] = [
        *topic_observations(tick, decision, every),
        *unreported_results(tick, decision),
        *freshness_changes(tick, decision),
        *unseen_freshness(tick, contracts),
    ]
    unserved = discover(tick, resource.places.home, shown_digests)
    to_reload = "; ".join(filter(None, (moved, added))) or unserved
    remarks = [*tick.down, decision.reason, to_reload]
    requests = [requested(context, tick, decision, _first_seen(tick, decision))] if decision.tables else []
    if requests and to_reload:
        context.log.info(to_reload)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else "; ".join(filter(None, remarks)),
        cursor=dump(tick.cache),
        asset_events=events,
    )


def _first_seen(tick: AppendTick, decision: Ask) -> Mapping[str, int]:
    """Of the tables that are taken along: since when records may wait, so that the run need not begin with them."""
    return {
        table: int(tick.now.timestamp() - decision.lags[table].seconds)
        for table in decision.tables
        if table not in decision.due and tick.cache.entry(table).committed is not None
    }
