"""The job of every mart, for a person who wants them now: their sensor needs none."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.names import table_key
from tidemark.domain.lineage.marts import Mart


def marts_job(marts: Sequence[Mart]) -> UnresolvedAssetJobDefinition:
    """All marts at once."""
    selection = dg.AssetSelection.assets(*(table_key(each.table) for each in marts))
    return dg.define_asset_job("marts", selection=selection, description="Build all marts with dbt.")
