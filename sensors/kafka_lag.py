"""The lag sensor: one per lane, on by default. It asks for runs and never starts Spark."""

from collections.abc import Mapping, Sequence
from math import ceil

import dagster as dg

from assets.runs.run_length import run_length_note
from jobs.ingest import INGEST
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane


def lag_sensor(
    name: str, lane: Lane, contracts: Sequence[Contract], shown_digests: Mapping[str, str]
) -> dg.SensorDefinition:
    """The sensor of lane `name`; the default lane's is called `kafka_lag`. `shown_digests`: see `discover`."""

    @dg.sensor(
        name="kafka_lag" if name == "default" else f"kafka_lag_{name}",
        job_name=INGEST,
        minimum_interval_seconds=max(1, ceil(lane.poll.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Asks for runs of lane {name} when tables near their target lag."
        + run_length_note(lane, contracts),
    )
    def kafka_lag(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult:
        from sensors.kafka_lag_answer import answer  # noqa: PLC0415 - loading the definitions needs no Kafka client

        return answer(context, lake, name, lane, contracts, shown_digests)

    return kafka_lag
