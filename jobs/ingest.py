"""The job of every append table. The sensor narrows it to what is due; launched as it is, all tables catch up."""

from collections.abc import Sequence

from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from jobs.table_job import table_job
from tidemark.domain.config.contract import Contract

INGEST = "ingest"


def ingest_job(contracts: Sequence[Contract]) -> UnresolvedAssetJobDefinition:
    """All append tables of all lanes."""
    return table_job(INGEST, contracts, "Ingest topics into their append tables until they have caught up.")
