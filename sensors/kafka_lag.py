"""The lag sensor: one per lane, on by default. It asks for runs and never starts Spark."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import ceil

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
from assets.quality import stretched
from jobs.ingest import INGEST
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane

NAMED = 10
"""Tables that a run's tag names; beyond that it counts them."""


def lag_sensor(
    name: str,
    lane: Lane,
    contracts: Sequence[Contract],
    report_every: timedelta,
    served: Mapping[str, str],
) -> dg.SensorDefinition:
    """The sensor of lane `name`; the default lane's is called `kafka_lag`. `served`: see `discover`."""

    @dg.sensor(
        name="kafka_lag" if name == "default" else f"kafka_lag_{name}",
        job_name=INGEST,
        minimum_interval_seconds=max(1, ceil(lane.poll.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Asks for runs of lane {name} when tables near their target lag.{stretched(lane, contracts)}",
    )
    def kafka_lag(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult:
        from sensors.answer import answer  # noqa: PLC0415 - loading the definitions needs no Kafka client

        return answer(context, lake, name, lane, contracts, report_every, served)

    return kafka_lag


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
        run_key=f"{lane}:{digest}:{attempt}",
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
