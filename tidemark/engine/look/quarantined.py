"""What lies in the quarantine tables, read by PyIceberg alone, so Spark may be down."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.quarantine_count import Moment, QuarantineCount
from tidemark.domain.times import iso, later
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import load
from tidemark.engine.access.totals import totals_of
from tidemark.engine.table.counted_quarantine import NEEDED, OPEN, as_settled, covered, require_columns
from tidemark.engine.table.settle import pending

_COUNTED: Any = [([], "count_all"), ("quarantined_at", "min"), ("quarantined_at", "max")]


@dataclass(slots=True)
class CauseCount:
    """Quarantined rows of one table and cause: `count` wait for a remedy, `resolved` had one."""

    table: str
    cause: str
    count: int = 0
    resolved: int = 0
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    schema_ids: set[int] = field(default_factory=set)

    def add(self, alike: Mapping[str, Any]) -> None:
        """Count rows that differ in their time alone."""
        earliest, latest = alike["quarantined_at_min"], alike["quarantined_at_max"]
        self.count += alike["count_all"] if alike[OPEN] else 0
        self.resolved += 0 if alike[OPEN] else alike["count_all"]
        self.first_seen = min(filter(None, (self.first_seen, earliest)), default=None)
        self.last_seen = later(self.last_seen, latest)
        if alike["schema_id"] is not None:
            self.schema_ids.add(alike["schema_id"])

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `status --quarantine`."""
        return {
            "table": self.table,
            "cause": self.cause,
            "count": self.count,
            "first_seen": iso(self.first_seen),
            "last_seen": iso(self.last_seen),
            "schema_ids": sorted(self.schema_ids),
            "resolved": self.resolved,
        }


def unresolved(lake: Lake, quarantine: str, ledger: Ledger | None) -> int | None:
    """Rows that wait for a remedy and that the ledger covers; None where there are rows and no ledger to tell which.

    Raises:
        Outage: `catalog_down` or `store_down`.
    """
    with translated(quarantine):
        table = _holding_rows(lake, quarantine)
        if table is None or ledger is None:
            return 0 if table is None else None
        asked = pending(ledger, table)
        moment = (str(table.metadata.table_uuid), table.metadata.current_snapshot_id, asked)
        known = lake.counted.get(quarantine)
        if known is None or not known.holds(moment, ledger):
            known = lake.counted[quarantine] = _counted(table, quarantine, moment, ledger)
        return known.open


def _counted(table: Table, quarantine: str, moment: Moment, ledger: Ledger) -> QuarantineCount:
    found, whole, asked = 0, True, moment[-1]
    for batch in _batches(table, quarantine, NEEDED, everything=asked is not None):
        found += pc.sum(as_settled(batch, ledger, asked)[OPEN]).as_py() or 0
        whole = whole and covered(batch, ledger)
    return QuarantineCount(moment, ledger, found, whole)


def causes(lake: Lake, table: str, quarantine: str, ledger: Ledger | None) -> list[CauseCount]:
    """The quarantine of `table` by cause, most rows first."""
    with translated(quarantine):
        fields = ("cause", "schema_id", "quarantined_at")
        found: dict[str, CauseCount] = {}
        rows = _holding_rows(lake, quarantine)
        if rows is None or ledger is None:
            return []
        asked, wanted = pending(ledger, rows), tuple(dict.fromkeys((*NEEDED, *fields)))
        for batch in _batches(rows, quarantine, wanted, everything=True):
            alike = as_settled(batch, ledger, asked).group_by(["cause", "schema_id", OPEN], use_threads=False)
            for each in alike.aggregate(_COUNTED).to_pylist():
                found.setdefault(each["cause"], CauseCount(table, each["cause"])).add(each)
        return sorted(found.values(), key=lambda each: -each.count)


def _batches(
    table: Table, quarantine: str, columns: tuple[str, ...], *, everything: bool
) -> Iterator[pa.RecordBatch]:
    """Its rows; unless `everything` is asked for, files that hold nothing but resolved ones may be left out."""
    require_columns(table, quarantine, columns)
    scan = table.scan(
        row_filter=AlwaysTrue() if everything else "resolved_at IS NULL", selected_fields=columns
    )
    yield from scan.to_arrow_batch_reader()


def _holding_rows(lake: Lake, quarantine: str) -> Table | None:
    table = load(lake.catalog, quarantine)
    if table is None or not totals_of(table, table.metadata.current_snapshot()).rows:
        return None
    return table
