"""The schedule of schema evolution: ingest evolves a table when a record needs it, this looks before one comes."""

import dagster as dg

from assets.names import SCHEMA_EVOLUTION
from jobs.scheduled import scheduled
from tidemark.engine.config.configuration import Places

EVERY = "10,40 * * * *"
"""Aside from compaction and merges. What a run plans to make costs some 16 KB of Dagster's database for each table."""


def schema_schedule(assets: dg.AssetsDefinition, where: Places) -> dg.ScheduleDefinition:
    """All schema assets in one run, on by default; the same run looks how long Kafka keeps what is not read.

    The job selects no checks: Dagster would store that it is about to evaluate each, and show those that have nothing
    new as skipped. What it finds are evaluations all the same.
    """
    job = dg.define_asset_job(
        SCHEMA_EVOLUTION,
        selection=dg.AssetSelection.assets(*assets.keys).without_checks(),
        description="Compare tables with registered writers; apply what contracts allow, park the rest. Also looks how "
        "long Kafka keeps what is not read yet.",
    )
    says = "Looks every half hour for schemas that tables need, and how long Kafka keeps the rest."
    return scheduled(job, EVERY, says, where)
