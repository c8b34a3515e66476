"""The properties that Tidemark gives a table: how it is written, and what the contract says of it."""

from collections.abc import Mapping

from tidemark.domain.config.contract import Contract

COMMENT = "comment"
"""Where Iceberg keeps the description of a table."""
METADATA_VERSIONS = 20
"""metadata.json files that are kept; each commit writes a new one."""
GC_ENABLED = "gc.enabled"
"""false where files of a table may be those of another table as well: then nobody removes any."""
CODEC, LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
BASE: Mapping[str, str] = {
    CODEC: "zstd",
    LEVEL: "1",
    "write.distribution-mode": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(METADATA_VERSIONS),
    "commit.retry.num-retries": "10",
}
"""What a new table begins with; `table_properties` of the contract stand above it."""


def asked_for(contract: Contract) -> dict[str, str | None]:
    """The contract's `table_properties` as Iceberg takes them, None what must not be there.

    The level that a new table begins with is one of zstd: gzip would fail every batch with it.
    """
    asked: dict[str, str | None] = {key: str(value) for key, value in contract.table_properties.items()}
    if (asked.get(CODEC) or "zstd").lower() != "zstd":
        asked.setdefault(LEVEL, None)
    return asked


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
