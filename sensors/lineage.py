"""OpenLineage from Dagster's records: every run that produced tables is told, START and end, one event per table.

A sensor and not a call inside of the runs: an endpoint that is down stops nothing and loses nothing, for the cursor
stays where the first event could not be sent.
"""

import dagster as dg

from resources.lake import LakeResource
from tidemark.domain.config.platform import Platform

NAME = "openlineage"
EVERY = 15


def lineage_sensor(platform: Platform) -> dg.SensorDefinition | None:
    """None unless the platform file names a transport."""
    if platform.openlineage is None:
        return None

    @dg.sensor(
        name=NAME,
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends OpenLineage events of runs that started and ended: ingest, upsert, maintenance, dbt.",
    )
    def openlineage(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SkipReason:
        from sensors.lineage_answer import tell  # noqa: PLC0415 - loading the definitions needs no client

        return tell(context, lake)

    return openlineage
