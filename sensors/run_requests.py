"""The run that a tick asks for: its key, its tags, and what it is told of the tables."""

import hashlib
from collections.abc import Mapping

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
from sensors.lane_runs import next_attempt, run_key
from sensors.tick import Tick
from tidemark.domain.cadence.request import Ask
from tidemark.domain.config.units import first_few

NAMED = 10
"""Tables that a run's tag names; beyond that it counts them."""


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
    lane, digest, due = tick.lane_name, _digest(offsets), decision.due
    attempt = next_attempt(context.instance, lane, digest)
    named = first_few(due, NAMED)
    return dg.RunRequest(
        run_key=run_key(lane, digest, attempt),
        asset_selection=[table_key(table) for table in decision.tables],
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


def _digest(offsets: dict[str, object]) -> str:
    """The short name of a set of starting offsets by table."""
    return hashlib.sha256(repr(sorted(offsets.items())).encode()).hexdigest()[:12]
