"""Snapshot expiry: exactly the snapshots that nothing keeps (snapshot_keep.py), and their files.

Spark's procedure also applies ages of its own: the table's `history.expire.*`, and retention of single branches. The
first is overruled in the call; where the second would make it expire more than it is told, PyIceberg removes just the
ids, and the files are left to orphan removal.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.config.contract import Snapshots
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.maintenance.snapshot_keep import Keep, Ref, Snap, hazards, keep
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load, summary_of
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.named_snapshots import Named
from tidemark.engine.table.lease import existing, lease
from tidemark.engine.table.publish import can_compare_and_set

AT_ONCE = 2_000
"""Snapshots in one commit."""


def expire(lake: Lake, name: str, limits: Snapshots, named: Named, *, dry_run: bool = False) -> Gain:
    """Expire what nothing keeps, and drop the attempt branches of dead runs.

    Raises:
        Held: another maintenance holds the table.
        Outage: a service does not answer.
    """
    began = time.perf_counter()
    table = load(lake.catalog, name)
    if table is None:
        return Gain(name, "snapshot_expiry", acted=False, reason="it does not exist yet")
    plan = plan_expiry(table.metadata, limits, named)
    pause_point("expiry_planned")
    before: dict[str, float] = {
        "snapshots_before": len(table.metadata.snapshots),
        "expirable": len(plan.expired),
        "dead_branches": len(plan.dead_branches),
    }
    told = _told(plan)
    if dry_run or not (plan.expired or plan.dead_branches):
        return Gain(name, "snapshot_expiry", acted=False, reason=told, numbers=before, plan=_as_json(plan))
    with lease(lake, name):
        for branch in plan.dead_branches:
            lake.spark().sql(f"ALTER TABLE {lake.identifier(name)} DROP BRANCH IF EXISTS `{branch}`")
        table = existing(lake, name)
        plan = plan_expiry(table.metadata, limits, named)
        deleted, how = _remove(lake, table, plan.expired)
    after = existing(lake, name).metadata
    return Gain(
        name,
        "snapshot_expiry",
        acted=True,
        reason=f"{told}{how}",
        numbers={
            **before,
            "snapshots_after": len(after.snapshots),
            "files_deleted": deleted,
            "seconds": time.perf_counter() - began,
        },
        plan=_as_json(plan),
    )


def plan_expiry(metadata: TableMetadata, limits: Snapshots, named: Named) -> Keep:
    """What would stay and go right now."""
    snapshots = [
        Snap(s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms, LEDGER_PROPERTY in summary_of(s))
        for s in metadata.snapshots
    ]
    return keep(snapshots, refs_of(metadata), named.ids, limits, _now(), read_on_from=named.read_on_from)


def _now() -> int:
    return int(time.time() * 1000)


def refs_of(metadata: TableMetadata) -> list[Ref]:
    """Branches and tags as the domain has them."""
    kinds: dict[str, Literal["branch", "tag"]] = {"branch": "branch", "tag": "tag"}
    return [
        Ref(name, kinds[ref.snapshot_ref_type.value], ref.snapshot_id, ref.max_ref_age_ms)
        for name, ref in metadata.refs.items()
    ]


def _remove(lake: Lake, table: Table, ids: Sequence[int]) -> tuple[int, str]:
    """Remove snapshots and delete their files; returns the files deleted, and a remark."""
    if not ids:
        return 0, ""
    metadata = table.metadata
    own = [name for name, ref in metadata.refs.items() if ref.max_snapshot_age_ms is not None]
    found = hazards(refs_of(metadata), own, metadata.properties)
    if not found:
        return _by_spark(lake, table, ids), ""
    if not can_compare_and_set(lake, metadata):
        return 0, f"; nothing was expired, for {' and '.join(found)}, which Spark would apply: unset it"
    table._do_commit(  # noqa: SLF001 - the public builder asserts nothing about main
        requirements=(
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref="main", snapshot_id=metadata.current_snapshot_id),
        ),
        updates=(RemoveSnapshotsUpdate(snapshot_ids=list(ids)),),
    )
    pause_point("expired")
    return 0, f"; files are left to orphan removal, for {' and '.join(found)}"


def _by_spark(lake: Lake, table: Table, ids: Sequence[int]) -> int:
    never = datetime.fromtimestamp(1, UTC)
    deleted = 0
    for begin in range(0, len(ids), AT_ONCE):
        listed = ", ".join(f"{each}L" for each in ids[begin : begin + AT_ONCE])
        (row,) = (
            lake.spark()
            .sql(
                f"CALL `{lake.platform.catalog.name}`.system.expire_snapshots(table => "
                f"{quoted_text('.'.join(table.name()))}, snapshot_ids => array({listed}), "
                f"older_than => TIMESTAMP '{never:%Y-%m-%d %H:%M:%S}+00:00', stream_results => true)"
            )
            .collect()
        )
        deleted += sum(row.asDict().values())
        pause_point("expired")
    return deleted


def _told(plan: Keep) -> str:
    counts: dict[str, int] = {}
    for why in plan.kept.values():
        counts[why] = counts.get(why, 0) + 1
    kept = ", ".join(f"{n} {why}" for why, n in sorted(counts.items(), key=lambda each: -each[1]))
    dead = f", {len(plan.dead_branches)} branches of dead runs" if plan.dead_branches else ""
    return f"{len(plan.expired)} snapshots to expire{dead}; kept: {kept or 'none'}"


def _as_json(plan: Keep) -> dict[str, object]:
    return {
        "expired": [str(each) for each in plan.expired[-5:]],
        "dead_branches": list(plan.dead_branches)[:5],
    }
