"""The job of every upsert table. Its sensor narrows it to what is due; launched as it is, all of them catch up.

New data is the sensor's business. The schedule looks at all tables whatever the sensor thinks: after a rollback or a
rebuild, or while the sensor is switched off.
"""

from collections.abc import Sequence

import dagster as dg

from assets.names import table_key
from tidemark.domain.config.contract import Contract

MERGE = "merge"
EVERY = "0 * * * *"


def upsert_schedule(tables: Sequence[Contract]) -> dg.ScheduleDefinition:
    """All upsert tables of all lanes every hour, on by default; it brings the job."""
    selection = dg.AssetSelection.assets(*(table_key(each.table) for each in tables)).without_checks()
    job = dg.define_asset_job(
        MERGE,
        selection=selection,
        description="Merge append tables into their upsert tables until nothing waits.",
    )
    return dg.ScheduleDefinition(
        name=MERGE,
        job=job,
        cron_schedule=EVERY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Looks every hour for upsert tables that are behind, whatever their sensor thinks.",
    )
