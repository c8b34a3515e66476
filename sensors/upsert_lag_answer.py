"""One tick of an upsert sensor, told to Dagster: a run request or a reason, checks, the cursor."""

from collections.abc import Sequence

import dagster as dg

from resources.lake import LakeResource
from sensors.cursor import dump, parse
from sensors.dead_runs import bury
from sensors.merge_tick import MergeTick
from sensors.observations import TickEvent, merge_freshness_changes, unreported_results, unseen_freshness
from sensors.on_disk import as_on_disk, digests, runnable
from sensors.run_requests import requested
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import TidemarkError


def answer(
    context: dg.SensorEvaluationContext,
    resource: LakeResource,
    lane_name: str,
    lane: Lane,
    contracts: Sequence[Contract],
) -> dg.SensorResult:
    """One tick. Trouble with the catalog is a reason to skip, never an exception."""
    try:
        bury(context.instance, resource.places.home)
        lake = resource.shared()
        contracts, _ = as_on_disk(resource, lake, contracts, upserts=True)
        tick = MergeTick(
            lake,
            context.instance,
            lane_name,
            lane,
            contracts,
            parse(context.cursor),
            digests=digests(resource),
        )
        decision, _ = runnable(context, resource, lane_name, tick.decide())
    except TidemarkError as error:
        return dg.SensorResult(skip_reason=str(error))
    events: list[TickEvent] = [
        *unreported_results(tick, decision),
        *merge_freshness_changes(tick),
        *unseen_freshness(tick, contracts),
    ]
    requests = [requested(context, tick, decision)] if decision.tables else []
    reasons = [] if tick.quiet and not tick.contracts else [decision.reason]
    quiet = [f"{tick.quiet} caught up, and nothing has happened since"] if tick.quiet else []
    later = [f"{tick.later} are looked at in the next ticks"] if tick.later else []
    skipped = "; ".join([*tick.down, *reasons, *quiet, *later])
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else skipped,
        cursor=dump(tick.cache),
        asset_events=events,
    )
