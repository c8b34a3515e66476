"""Schedules that ask for no second run while one that they asked for waits: else runs that take longer pile up."""

from collections.abc import Mapping

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

from assets.names import by_schedule

WAITS = "the run that was asked for last still waits for its turn"


def scheduled(
    job: UnresolvedAssetJobDefinition, cron: str, description: str, *, name: str | None = None
) -> dg.ScheduleDefinition:
    """On by default, of the job's name unless another is given; it brings the job."""
    called = name or job.name

    def ask(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return dg.SkipReason(WAITS) if waits(context.instance, called) else dg.RunRequest()

    return dg.ScheduleDefinition(
        name=called,
        job=job,
        cron_schedule=cron,
        execution_fn=ask,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )


def waits(instance: dg.DagsterInstance, schedule: str, tags: Mapping[str, str] | None = None) -> bool:
    """Whether a run that the schedule asked for, with these tags, is still in the queue."""
    asked = RunsFilter(statuses=[DagsterRunStatus.QUEUED], tags={SCHEDULE_NAME_TAG: schedule, **(tags or {})})
    return any(by_schedule(each) for each in instance.get_runs(asked))
