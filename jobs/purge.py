"""`purge_runs` as a job, and a schedule that is off until someone wants it: Dagster itself never deletes a run."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import dagster as dg
from dagster import RunsFilter
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from pydantic import Field

from assets.launchpad import Launchpad
from assets.names import is_ours
from assets.runs.statuses import ENDED

PAGE = 500


class Purge(Launchpad):
    """How much is kept."""

    days: int = Field(default=90, ge=7, description="runs that ended or were changed since are kept")
    at_most: int = Field(default=10_000, ge=1, description="runs that are deleted at once, the oldest first")


def purge_job(checks: Iterable[dg.AssetCheckKey]) -> dg.JobDefinition:
    """The job `purge_runs`; `checks` are all there are, for the runs of their newest results are kept."""
    kept = sorted(checks, key=str)

    @dg.op(required_resource_keys={"lake"})  # which holds the lock by which a run is known to live
    def delete_runs(context: dg.OpExecutionContext, config: Purge) -> None:
        """Delete runs that ended long ago with all that is kept of them, but for those of newest results."""
        before = datetime.now(UTC) - timedelta(days=config.days)
        runs = list(islice(_ended(context.instance, before, _newest(context.instance, kept)), config.at_most))
        for run_id in runs:
            context.instance.compute_log_manager.delete_logs(prefix=[run_id])
            context.instance.delete_run(run_id)
        files = _sweep(context.instance)
        context.log.info("%d runs deleted, and the files of %d", len(runs), files)
        context.add_output_metadata({"runs": len(runs), "files": files})

    return dg.GraphDefinition(
        name="purge_runs", description=delete_runs.description, node_defs=[delete_runs]
    ).to_job()


def purge_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Daily, once it is switched on."""
    return dg.ScheduleDefinition(
        name=job.name,
        job=job,
        cron_schedule="45 2 * * *",
        description="Deletes Tidemark's runs that ended more than 90 days ago, once it is switched on.",
    )


def _ended(instance: dg.DagsterInstance, before: datetime, kept: set[str]) -> Iterator[str]:
    """Ids of runs of ours, oldest first."""
    wanted, cursor = RunsFilter(statuses=list(ENDED), updated_before=before), None
    while page := instance.get_runs(wanted, cursor=cursor, limit=PAGE, ascending=True):
        cursor = page[-1].run_id
        yield from (run.run_id for run in page if is_ours(run) and run.run_id not in kept)


def _newest(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]) -> set[str]:
    """Runs that were the last to be asked for an asset, or to tell of it or of a check.

    And the last that told of a table as ours, whatever others have reported since: by it the table was loaded.
    """
    from assets.runs.loaded import last_of_ours  # noqa: PLC0415 - only a step pays for the engine's imports

    entries = [record.asset_entry for record in instance.get_asset_records()]
    found = {each.last_run_id for each in entries}
    tables = {check.asset_key for check in checks}
    for each in entries:
        if each.last_materialization:
            found.add(each.last_materialization.run_id)
            ours = each.asset_key in tables and last_of_ours(
                instance, each.asset_key, each.last_materialization
            )
            found |= {ours.run_id} if ours else set()
    told = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return {run_id for run_id in (*found, *(each.run_id for each in told.values())) if run_id}


def _sweep(instance: dg.DagsterInstance) -> int:
    """Dagster on SQLite leaves the file of a deleted run's events behind, whoever deleted it."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        return 0
    there = set(storage.get_all_run_ids())  # before the runs are listed: a run is there before its file
    gone = there.difference(instance.get_run_ids())
    for run_id in gone:
        for suffix in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)
    return len(gone)
