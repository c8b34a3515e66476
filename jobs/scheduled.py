"""Schedules that ask for no run that would only add to the queue, or die before it begins."""

from collections.abc import Mapping

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

from assets.names import by_schedule
from resources.lake import on_disk, unreadable
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.config.configuration import Places

WAITS = "the run that was asked for last still waits for its turn"


def scheduled(
    job: UnresolvedAssetJobDefinition, cron: str, description: str, where: Places, *, name: str | None = None
) -> dg.ScheduleDefinition:
    """On by default, of the job's name unless another is given; it brings the job.

    It asks for no second run while one waits: else runs that take longer pile up. Nor while the files at `where` are
    broken, which a run reads before all else.
    """
    called = name or job.name

    def ask(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        try:
            on_disk(where)
        except ConfigurationError as error:
            return dg.SkipReason(unreadable(error))
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
