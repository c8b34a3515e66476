"""What lies in the quarantine tables, read by PyIceberg alone, so Spark may be down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from tidemark.domain.ledger import Ledger
from tidemark.engine.lake import Lake
from tidemark.engine.outages import named
from tidemark.engine.table_state import load, summary_of


@dataclass(slots=True)
class Cause:
    """Quarantined rows of one table and cause: `count` wait for a remedy, `resolved` had one."""

    table: str
    cause: str
    count: int = 0
    resolved: int = 0
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    schema_ids: set[int] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row."""
        at = row["quarantined_at"]
        self.count += row["resolved_at"] is None
        self.resolved += row["resolved_at"] is not None
        self.first_seen = min(filter(None, (self.first_seen, at)), default=None)
        self.last_seen = max(filter(None, (self.last_seen, at)), default=None)
        if row["schema_id"] is not None:
            self.schema_ids.add(row["schema_id"])

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `status --quarantine`."""
        return {
            "table": self.table,
            "cause": self.cause,
            "count": self.count,
            "first_seen": _iso(self.first_seen),
            "last_seen": _iso(self.last_seen),
            "schema_ids": sorted(self.schema_ids),
            "resolved": self.resolved,
        }


def unresolved(lake: Lake, quarantine: str, ledger: Ledger | None) -> int:
    """Rows that wait for a remedy and that the ledger covers; 0 when there is no quarantine table.

    Raises:
        Outage: `catalog_down` or `store_down`.
    """
    with named(quarantine):
        table = _holding_rows(lake, quarantine)
        if table is None or ledger is None:
            return 0
        scan = table.scan(row_filter="resolved_at IS NULL", selected_fields=("epoch", "partition", "offset"))
        batches = scan.to_arrow_batch_reader()
        return int(sum(published(batch, ledger).sum() for batch in map(_numbers, batches)))


def causes(lake: Lake, table: str, quarantine: str, ledger: Ledger | None) -> list[Cause]:
    """The quarantine of `table` by cause, most rows first."""
    with named(quarantine):
        loaded = _holding_rows(lake, quarantine)
        if loaded is None or ledger is None:
            return []
        fields = ("epoch", "partition", "offset", "cause", "schema_id", "quarantined_at", "resolved_at")
        found: dict[str, Cause] = {}
        for batch in loaded.scan(selected_fields=fields).to_arrow_batch_reader():
            inside = batch.filter(pa.array(published(_numbers(batch), ledger)))
            for row in inside.select(["cause", "schema_id", "quarantined_at", "resolved_at"]).to_pylist():
                found.setdefault(row["cause"], Cause(table, row["cause"])).add(row)
        return sorted(found.values(), key=lambda each: -each.count)


def published(numbers: Mapping[str, Any], ledger: Ledger) -> Any:
    """A boolean array: rows of earlier epochs, and of this one those below `next`.

    Rows beyond belong to a batch that is just being published, or whose attempt died; they are not counted yet.
    """
    below = numbers["epoch"] < ledger.epoch
    for partition, following in ledger.next.items():
        below |= (
            (numbers["epoch"] == ledger.epoch)
            & (numbers["partition"] == partition)
            & (numbers["offset"] < following)
        )
    return below


def _numbers(batch: pa.RecordBatch) -> dict[str, Any]:
    return {
        name: batch.column(name).to_numpy(zero_copy_only=False) for name in ("epoch", "partition", "offset")
    }


def _holding_rows(lake: Lake, quarantine: str) -> Table | None:
    table = load(lake.catalog, quarantine)
    if table is None or not int(summary_of(table.metadata.current_snapshot()).get("total-records", 0)):
        return None
    return table


def _iso(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat() if at else None
