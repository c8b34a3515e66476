"""A job that materializes tables; what it does to them is the business of their assets."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.names import table_key
from tidemark.domain.config.contract import Contract


def table_job(name: str, tables: Sequence[Contract], description: str) -> UnresolvedAssetJobDefinition:
    """The job `name` of these tables, without checks as steps of their own."""
    selection = dg.AssetSelection.assets(*(table_key(each.table) for each in tables)).without_checks()
    return dg.define_asset_job(name, selection=selection, description=description)
