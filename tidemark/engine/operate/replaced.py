"""What stands at offsets that are replaced: rows and waiting quarantine rows, and how they had been counted."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import Ranges
from tidemark.domain.ledger.replay import counted_before
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.ingest import quarantine

Rows = Mapping[int, tuple[int, int]]
"""Partition -> (rows, those of tombstones)."""


def rows_within(epoch: int, ranges: Ranges) -> str:
    """The rows of a table inside `ranges` of an epoch, as SQL."""
    parts = " OR ".join(
        f"(_kafka.partition = {p} AND _kafka.offset >= {r.start} AND _kafka.offset < {r.end})"
        for p, r in ranges.items()
    )
    return f"_kafka.epoch = {epoch} AND ({parts or 'false'})"


def counted_rows(lake: Lake, target: str, where: str) -> Rows:
    """The rows of `target` (as SQL names it) that `where` holds for."""
    rows = lake.spark().sql(
        f"SELECT _kafka.partition AS p, count(*) AS n, count_if(_kafka.tombstone) AS t FROM {target} "
        f"WHERE {where} GROUP BY 1"
    )
    return {r["p"]: (r["n"], r["t"]) for r in rows.collect()}


def waiting(lake: Lake, contract: Contract, epoch: int, ranges: Ranges) -> DataFrame | None:
    """partition, offset of the unresolved quarantine rows in the ranges, at one snapshot."""
    name = contract.quarantine_table
    table = load(lake.catalog, name)
    if table is None or table.metadata.current_snapshot_id is None or not ranges:
        return None
    return lake.spark().sql(
        f"SELECT partition, offset FROM {lake.identifier(name)} "
        f"VERSION AS OF {table.metadata.current_snapshot_id} WHERE {quarantine.inside(epoch, ranges)}"
    )


def counts_before(
    counts: Mapping[int, Counts], old: Rows, new: Rows, waits: DataFrame | None, tombstones: Mapping[int, int]
) -> dict[int, Counts]:
    """How the records were counted that are now counted as `counts`, of which `tombstones` are no rows.

    `old` and `new` are the rows before and after; `waits` what waited in the quarantine.
    """
    quarantined = (
        {}
        if waits is None
        else {r["partition"]: r["count"] for r in waits.groupBy("partition").count().collect()}
    )
    return {
        p: counted_before(
            each,
            rows=old.get(p, (0, 0))[0],
            tombstone_rows=old.get(p, (0, 0))[1],
            quarantined=quarantined.get(p, 0),
            null_values=tombstones.get(p, 0) + new.get(p, (0, 0))[1],
        )
        for p, each in counts.items()
    }
