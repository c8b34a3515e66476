"""The job of every append table. The sensor narrows it to what is due; launched as it is, all tables catch up."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.names import table_key
from tidemark.domain.config.contract import Contract

INGEST = "ingest"


def ingest_job(contracts: Sequence[Contract]) -> UnresolvedAssetJobDefinition:
    """All append tables of all lanes."""
    selection = dg.AssetSelection.assets(*(table_key(each.table) for each in contracts)).without_checks()
    return dg.define_asset_job(
        INGEST,
        selection=selection,
        description="Ingest topics into their append tables until they have caught up.",
    )
