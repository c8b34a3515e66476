"""The job of every upsert table. Its sensor narrows it to what is due; launched as it is, all of them catch up.

New data is the sensor's business. The schedule looks at all tables whatever the sensor thinks: after a rollback or a
rebuild, or while the sensor is switched off.
"""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.names import LANE_TAG, table_key, upsert_lane
from jobs.scheduled import WAITS, waits
from jobs.table_job import table_job
from resources.lake import on_disk, unreadable
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.config.configuration import Places

MERGE = "merge"
EVERY = "0 * * * *"
GONE = "no contract on disk makes any of these tables any more, reload the definitions"


def merge_job(tables: Sequence[Contract]) -> UnresolvedAssetJobDefinition:
    """All upsert tables of all lanes."""
    return table_job(MERGE, tables, "Merge append tables into their upsert tables until nothing waits.")


def merge_schedule(
    job: UnresolvedAssetJobDefinition, lanes: Mapping[str, Sequence[Contract]], where: Places
) -> dg.ScheduleDefinition:
    """All upsert tables every hour, on by default; it brings the job.

    A run per lane: one of all lanes would wait for the pools of each, and merge one lane after the other. It gets the
    tables that it would find in the files as they are then: one that is gone would fail it before it begins.
    """
    keys = {name: [table_key(each.table) for each in tables] for name, tables in lanes.items()}

    def by_lane(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        try:
            found = upsert_tables(on_disk(where).contracts)
        except ConfigurationError as error:
            yield dg.SkipReason(unreadable(error))
            return
        there = {(each.contract.lane, table_key(table)) for table, each in found.items()}
        served = {name: [key for key in lane if (name, key) in there] for name, lane in keys.items()}
        lanes = {name: {LANE_TAG: upsert_lane(name)} for name, chosen in served.items() if chosen}
        free = {name: tags for name, tags in lanes.items() if not waits(context.instance, MERGE, tags)}
        for name, tags in free.items():
            yield dg.RunRequest(run_key=name, asset_selection=served[name], tags=tags)
        if not free:
            yield dg.SkipReason(WAITS if lanes else GONE)

    return dg.ScheduleDefinition(
        name=MERGE,
        job=job,
        cron_schedule=EVERY,
        execution_fn=by_lane,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Looks every hour for upsert tables that are behind, whatever their sensor thinks.",
    )
