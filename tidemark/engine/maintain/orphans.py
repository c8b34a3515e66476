"""Orphan files: what lies under a table's location, no snapshot names, and nobody can still be writing."""

import time
from datetime import UTC, datetime, timedelta

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.config.contract import Orphans
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.maintenance.snapshot_keep import Snap, began_at, is_attempt, is_dead
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.expire import refs_of
from tidemark.engine.table.lease import lease

LEAST = timedelta(days=1)
"""Iceberg refuses to remove files younger than this."""
SHOWN = 20


def remove_orphans(lake: Lake, name: str, limits: Orphans, *, dry_run: bool = False) -> Gain:
    """Remove orphans older than `older_than`, and never what is younger than a running stage.

    Raises:
        Held: another maintenance holds the table.
        Outage: a service does not answer.
    """
    began = time.perf_counter()
    table = load(lake.catalog, name)
    if table is None or table.metadata.current_snapshot_id is None:
        return Gain(name, "orphan_files", acted=False, reason="it does not exist yet, or holds nothing")
    before = cutoff(table.metadata, limits, datetime.now(UTC))
    if dry_run:
        found = _call(lake, name, before, dry_run=True)
        return _gain(name, found, before, time.perf_counter() - began, acted=False)
    with lease(lake, name):
        pause_point("orphans_listing")
        found = _call(lake, name, before, dry_run=False)
    return _gain(name, found, before, time.perf_counter() - began, acted=bool(found))


def cutoff(metadata: TableMetadata, limits: Orphans, now: datetime) -> datetime:
    """Only files last changed before this may go: older than every attempt that may still be writing."""
    by_id = {
        s.snapshot_id: Snap(s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms) for s in metadata.snapshots
    }
    head, at = metadata.current_snapshot_id, int(now.timestamp() * 1000)
    alive = [
        datetime.fromtimestamp(began_at(ref, by_id, head) / 1000, UTC)
        for ref in refs_of(metadata)
        if is_attempt(ref) and not is_dead(ref, by_id, head, at)
    ]
    return min([now - max(limits.older_than, LEAST + timedelta(minutes=1)), *alive])


def _call(lake: Lake, name: str, before: datetime, *, dry_run: bool) -> list[str]:
    rows = (
        lake.spark()
        .sql(
            f"CALL `{lake.platform.catalog.name}`.system.remove_orphan_files(table => {quoted_text(name)}, "
            f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}+00:00', dry_run => {str(dry_run).lower()}, "
            "prefix_listing => true)"
        )
        .collect()
    )
    return [row["orphan_file_location"] for row in rows]


def _gain(name: str, found: list[str], before: datetime, seconds: float, *, acted: bool) -> Gain:
    many = f"{len(found)} files that no snapshot names, older than {before:%Y-%m-%d %H:%M} UTC"
    return Gain(
        name,
        "orphan_files",
        acted=acted,
        reason=many,
        numbers={"orphans": len(found), "seconds": seconds},
        plan={"files": sorted(found)[:SHOWN], "older_than": before.isoformat(timespec="seconds")},
    )
