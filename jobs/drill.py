"""`drill` as a job, and a schedule that is off until someone wants it: failure rehearsal on a scratch table."""

from functools import partial

import dagster as dg
from pydantic import Field

from assets.runs.snapshot_ids import ids_as_text
from jobs.operations import SignedConfig, say, shown_failure, signed, verb_job
from resources.lake import LakeResource
from tidemark.domain.errors import TidemarkError, without_secrets


class Drill(SignedConfig):
    """What is rehearsed; everything when nothing is named."""

    scenarios: list[str] = Field(
        default_factory=list, description="kill, catalog, registry, poison, schema, replay, rollback"
    )
    cluster: str = Field(default="main", description="the Kafka cluster that gets the scratch topic")


@dg.op
def drill_platform(context: dg.OpExecutionContext, config: Drill, lake: LakeResource) -> None:
    """Rehearse failures on a scratch topic and table: is each noticed and recovered from, and how soon."""
    from tidemark.engine.access.outages import translated  # noqa: PLC0415 - only a step pays for the engine's imports
    from tidemark.engine.drill.drill import drill  # noqa: PLC0415

    signature, told = signed(context, config), partial(say, context, "")
    try:
        with lake.open() as opened, translated(cluster=config.cluster):
            operation = drill(opened, config.scenarios, config.cluster, signature, told).as_json()
    except TidemarkError as error:
        raise shown_failure(error) from without_secrets(error)
    context.add_output_metadata({"tidemark/operation": dg.MetadataValue.json(ids_as_text(operation))})


def drill_job() -> dg.JobDefinition:
    """The job `drill`."""
    return verb_job("drill", drill_platform)


def drill_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Monthly, once it is switched on."""
    return dg.ScheduleDefinition(
        name="drill",
        job=job,
        cron_schedule="0 5 1 * *",
        description="Rehearses failures on a scratch table every month, once it is switched on.",
    )
