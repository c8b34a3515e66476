"""The sensor of upsert tables: one per lane, on by default. It compares two ledgers and never starts Spark."""

from collections.abc import Sequence
from math import ceil

import dagster as dg

from assets.names import upsert_lane
from assets.runs.run_length import run_length_note
from jobs.upsert import MERGE
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane

LEAST = 5
"""Seconds between two looks at least: a merge is not worth a shorter wait."""


def upsert_sensor(name: str, lane: Lane, tables: Sequence[Contract]) -> dg.SensorDefinition:
    """The sensor of the upsert tables of lane `name`; the default lane's is called `upsert_lag`."""

    @dg.sensor(
        name="upsert_lag" if name == "default" else f"upsert_lag_{name}",
        job_name=MERGE,
        minimum_interval_seconds=max(LEAST, ceil(lane.poll.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Asks for merges of lane {name} when append tables hold rows that wait for their target lag."
        + run_length_note(lane, tables),
    )
    def upsert_lag(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult:
        from sensors.upsert_lag_answer import answer  # noqa: PLC0415 - loading the definitions needs no clients

        return answer(context, lake, upsert_lane(name), lane, tables)

    return upsert_lag
