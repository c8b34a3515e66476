"""From a tick's decision to what Dagster is told: a run request or a reason, observations, the cursor."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta

import dagster as dg

from assets.names import (
    ATTEMPT_TAG,
    LANE_TAG,
    OFFSETS_TAG,
    SENSOR,
    TABLES_TAG,
    TRIGGER_TAG,
    ingest_op,
    table_key,
)
from resources.lake import LakeResource
from sensors.cursor import dump, parse
from sensors.dead_runs import bury
from sensors.discover import discover
from sensors.observations import (
    freshness_changes,
    results_of_the_dead,
    topic_observations,
    unseen_freshness,
)
from sensors.on_disk import runnable
from sensors.runs import next_attempt, run_key
from sensors.tick import Tick
from tidemark.domain.cadence.event_budget import report_period
from tidemark.domain.cadence.request import Ask
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import TidemarkError

NAMED = 10
"""Tables that a run's tag names; beyond that it counts them."""


def answer(
    context: dg.SensorEvaluationContext,
    resource: LakeResource,
    name: str,
    lane: Lane,
    contracts: Sequence[Contract],
    report_every: timedelta,
    served: Mapping[str, str],
) -> dg.SensorResult:
    """One tick. Trouble with a service is a reason to skip, never an exception."""
    try:
        bury(context.instance, resource.places.home)
        lake = resource.shared()
        tick = Tick(lake, context.instance, name, lane, contracts, parse(context.cursor))
        decision, fresh = runnable(context, resource, name, tick.decide())
    except TidemarkError as error:
        return dg.SensorResult(skip_reason=str(error))
    every = report_period(report_every, 2 * len(lake.configuration.contracts))
    events: list[dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation] = [
        *topic_observations(tick, decision, every),
        *results_of_the_dead(tick, decision),
        *freshness_changes(tick, decision),
        *unseen_freshness(tick, contracts),
    ]
    listed = discover(tick, resource.places.home, served)
    remarks = [*tick.down, decision.reason, fresh or listed]
    requests = [requested(context, tick, decision, _first_seen(tick, decision))] if decision.tables else []
    if requests and (fresh or listed):
        context.log.info(fresh or listed)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else "; ".join(filter(None, remarks)),
        cursor=dump(tick.cache),
        asset_events=events,
    )


def _first_seen(tick: Tick, decision: Ask) -> Mapping[str, int]:
    """Of the tables that are taken along: since when records may wait, so that the run need not begin with them."""
    return {
        table: int(tick.now.timestamp() - decision.lags[table].seconds)
        for table in decision.tables
        if table not in decision.due and tick.cache.entry(table).committed is not None
    }


def requested(
    context: dg.SensorEvaluationContext,
    tick: Tick,
    decision: Ask,
    first_seen: Mapping[str, int] | None = None,
) -> dg.RunRequest:
    """The run that a decision asks for, named by the offsets that it starts from. `first_seen`: see `IngestConfig`."""
    context.log.info("; ".join([*tick.down, decision.reason]))
    offsets: dict[str, object] = {}
    for table in decision.tables:
        committed = tick.cache.entry(table).committed
        offsets[table] = sorted(committed.items()) if committed else None
    digest = digest_of(offsets)
    lane = tick.lane_name
    attempt = next_attempt(context.instance, lane, digest)
    return run_request(lane, decision.tables, decision.due, digest, attempt, first_seen)


def run_request(
    lane: str,
    tables: Sequence[str],
    due: Sequence[str],
    digest: str,
    attempt: int,
    first_seen: Mapping[str, int] | None = None,
) -> dg.RunRequest:
    """A run of `tables`; `digest` names the offsets that it starts from. `first_seen`: see `IngestConfig`."""
    named = ", ".join(due) if len(due) <= NAMED else f"{', '.join(due[:NAMED])} and {len(due) - NAMED} more"
    return dg.RunRequest(
        run_key=run_key(lane, digest, attempt),
        asset_selection=[table_key(table) for table in tables],
        run_config={"ops": {ingest_op(lane): {"config": {"first_seen": dict(first_seen)}}}}
        if first_seen
        else {},
        asset_check_keys=[],  # the sensor evaluates freshness itself
        tags={
            LANE_TAG: lane,
            TRIGGER_TAG: SENSOR,
            TABLES_TAG: named,
            OFFSETS_TAG: digest,
            ATTEMPT_TAG: str(attempt),
        },
    )


def digest_of(offsets: dict[str, object]) -> str:
    """The short name of a set of starting offsets by table."""
    return hashlib.sha256(repr(sorted(offsets.items())).encode()).hexdigest()[:12]
