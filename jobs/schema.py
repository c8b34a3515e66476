"""The schedule of schema evolution: ingest evolves a table when a record needs it, this looks before one comes."""

from collections.abc import Sequence

import dagster as dg

from assets.watch import HEADROOM, check_keys
from tidemark.domain.config.contract import Contract

EVERY = "*/15 * * * *"


def schema_schedule(assets: dg.AssetsDefinition, contracts: Sequence[Contract]) -> dg.ScheduleDefinition:
    """All schema assets in one run, on by default; the same run looks how long Kafka keeps what is not read."""
    job = dg.define_asset_job(
        "schema_evolution",
        selection=dg.AssetSelection.assets(*assets.keys)
        | dg.AssetSelection.checks(*check_keys(contracts, HEADROOM)),
        description="Compare tables with registered writers; apply what contracts allow, park the rest. Also looks how "
        "long Kafka keeps what is not read yet.",
    )
    return dg.ScheduleDefinition(
        name="schema_evolution",
        job=job,
        cron_schedule=EVERY,
        description="Looks every quarter of an hour for schemas that tables need, and how long Kafka keeps the rest.",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
