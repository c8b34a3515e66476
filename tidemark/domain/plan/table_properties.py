"""The properties that Tidemark gives a table: how it is written, and what the contract says of it."""

from collections.abc import Mapping

from tidemark.domain.config.contract import Contract

COMMENT = "comment"
"""Where Iceberg keeps the description of a table."""
METADATA_VERSIONS = 20
"""metadata.json files that are kept; each commit writes a new one."""
GC_ENABLED = "gc.enabled"
"""false where files of a table may be those of another table as well: then nobody removes any."""
BASE: Mapping[str, str] = {
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.distribution-mode": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(METADATA_VERSIONS),
    "commit.retry.num-retries": "10",
}
"""What a new table begins with; `table_properties` of the contract stand above it."""


def governance(contract: Contract) -> dict[str, str | None]:
    """What the contract says about the table, None where it says nothing; kept current."""
    freshness = contract.freshness.fail or contract.freshness.warn
    return {
        "tidemark.deletes": "a tombstone is a row with the columns of its key"
        if contract.upsert
        else "a tombstone is counted in the ledger, it makes no row",
        "tidemark.freshness": str(freshness) if freshness else None,
        "tidemark.owner.data": contract.owners.data,
        "tidemark.owner.stream": contract.owners.stream,
        "tidemark.runbook": contract.runbook,
    }
