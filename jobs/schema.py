"""The schedule of schema evolution: ingest evolves a table when a record needs it, this looks before one comes."""

import dagster as dg

EVERY = "*/15 * * * *"


def schema_schedule(assets: dg.AssetsDefinition) -> dg.ScheduleDefinition:
    """All schema assets in one run, on by default."""
    job = dg.define_asset_job(
        "schema_evolution",
        selection=dg.AssetSelection.assets(*assets.keys),
        description="Compare tables with registered writers; apply what contracts allow, park the rest.",
    )
    return dg.ScheduleDefinition(
        name="schema_evolution",
        job=job,
        cron_schedule=EVERY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
