"""The job of every upsert table. Its sensor narrows it to what is due; launched as it is, all of them catch up."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.names import table_key
from tidemark.domain.config.contract import Contract

MERGE = "merge"


def upsert_job(tables: Sequence[Contract]) -> UnresolvedAssetJobDefinition:
    """All upsert tables of all lanes."""
    selection = dg.AssetSelection.assets(*(table_key(each.table) for each in tables)).without_checks()
    return dg.define_asset_job(
        MERGE,
        selection=selection,
        description="Merge append tables into their upsert tables until nothing waits.",
    )
