"""Retention of append rows: one DELETE, which drops whole files and rewrites only those that straddle the cut.

The table notes the cut first. A delete is a snapshot without a receipt: the ledger does not move, and what is missing
before the cut is no gap (reconcile). Rows that the upsert table has not merged stay.
"""

import time
from datetime import UTC, datetime
from math import inf

from pyiceberg.table import Table

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.evidence import moment
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.maintenance.retention import (
    EXPIRED_BEFORE,
    FIRST,
    expired_before,
    merged_filter,
    retention_cut,
)
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load, summary_of
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.conflicts import Conflicts
from tidemark.engine.merge.state import merged_upto
from tidemark.engine.table.create import set_properties
from tidemark.engine.table.lease import existing, lease, wanted_by_ingest


def expire_rows(lake: Lake, contract: Contract, *, until: float = inf, dry_run: bool = False) -> Gain:
    """Delete the append rows that are older than `retention.append`, unless planning that took until after `until`.

    Raises:
        Held: another maintenance holds the table.
        Outage: a service does not answer.
    """
    began, name = time.perf_counter(), contract.table
    table = load(lake.catalog, name)
    if contract.retention is None or table is None or table.metadata.current_snapshot_id is None:
        return Gain(name, "retention", acted=False, reason="rows are kept for ever")
    if standing_back := wanted_by_ingest(table.metadata.properties):
        return Gain(name, "retention", acted=False, reason=standing_back)
    needed, merged_rows = None, "true"
    if contract.upsert is not None:
        merged = merged_upto(lake, contract)
        if merged is None:
            return Gain(
                name, "retention", acted=False, reason="the upsert table has rows to read again first"
            )
        merged_rows = merged_filter(*merged)
        needed = _oldest_unmerged(lake, contract, merged_rows)
    cut = retention_cut(datetime.now(UTC), contract.retention.append, needed)
    where = f"_kafka.timestamp >= '{FIRST.isoformat()}' and _kafka.timestamp < '{cut.isoformat()}'"
    tasks = list(table.scan(row_filter=where).plan_files())
    rows = sum(task.file.record_count for task in tasks)
    found = {"files": len(tasks), "rows_at_most": rows}
    if not tasks or dry_run:
        told = f"{len(tasks)} files hold rows from before {cut:%Y-%m-%d %H:%M} UTC"
        return Gain(name, "retention", acted=False, reason=told, numbers=found)
    if time.monotonic() > until:
        return Gain(name, "retention", acted=False, reason="its time was over; next time", numbers=found)
    conflicts = Conflicts()
    with lease(lake, name):
        noted = expired_before(table.metadata.properties)
        if noted is None or noted < cut:
            set_properties(lake, name, {EXPIRED_BEFORE: cut.isoformat()})
        pause_point("retention_noted")
        done = conflicts.tried("a file", lambda: _delete(lake, name, cut, merged_rows))
    gone = _live_rows(table) - _live_rows(existing(lake, name))
    return Gain(
        name,
        "retention",
        acted=done is not None,
        reason="; ".join([f"rows before {cut:%Y-%m-%d %H:%M} UTC", *conflicts.gave_up]),
        numbers={
            "files": len(tasks),
            "rows_deleted": max(0, gone),
            "conflicts": conflicts.count,
            "seconds": time.perf_counter() - began,
        },
    )


def _delete(lake: Lake, name: str, cut: datetime, merged_rows: str) -> bool:
    """One commit. `merged_rows` keeps what has come in since the plan, however old its record time."""
    lake.spark().sql(
        f"DELETE FROM {lake.identifier(name)} WHERE _kafka.timestamp >= TIMESTAMP '{FIRST:%Y-%m-%d %H:%M:%S}+00:00' "
        f"AND _kafka.timestamp < TIMESTAMP '{cut:%Y-%m-%d %H:%M:%S}+00:00' AND {merged_rows}"
    )
    pause_point("retention_deleted")
    return True


def _oldest_unmerged(lake: Lake, contract: Contract, merged_rows: str) -> datetime | None:
    """The record time of the oldest row that the upsert table has not merged; None when it has all of them.

    A time in the future is none to wait for, and may be one that no datetime holds.
    """
    (row,) = (
        lake.spark()
        .sql(
            f"SELECT unix_micros(min(_kafka.timestamp)) AS oldest FROM {lake.identifier(contract.table)} "
            f"WHERE NOT ({merged_rows})"
        )
        .collect()
    )
    oldest = row["oldest"]
    if oldest is None or oldest / 1_000_000 >= time.time():
        return None
    return moment(oldest, per_second=1_000_000)


def _live_rows(table: Table) -> int:
    summary = summary_of(table.metadata.current_snapshot())
    return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))
