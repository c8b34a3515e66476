"""Snapshot expiry: exactly the snapshots that nothing keeps (snapshot_keep.py), and their files.

Spark's procedure also applies ages of its own: the table's `history.expire.*`, and retention of single branches. What
its arguments cannot overrule is out of the way meanwhile (foreign_retention.py).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.config.contract import Snapshots
from tidemark.domain.config.units import counted
from tidemark.domain.ledger.ledger import ACT_PROPERTY, BATCH_PROPERTY
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.maintenance.snapshot_keep import Keep, Ref, Snap, fitting, keep
from tidemark.domain.plan.table_properties import GC_ENABLED
from tidemark.domain.times import DAY_MS
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import is_receipt, ledger_size, summary_of
from tidemark.engine.access.table_state import load
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.conflicts import Conflicts
from tidemark.engine.maintain.foreign_retention import is_aside, out_of_the_way
from tidemark.engine.maintain.named_snapshots import Named
from tidemark.engine.table.lease import existing, lease

AT_ONCE = 2_000
"""Snapshots in one commit."""


def expire(
    lake: Lake,
    name: str,
    limits: Snapshots,
    named: Callable[[], Named],
    *,
    until: float,
    dry_run: bool,
) -> Gain:
    """Expire what nothing keeps, and drop the attempt branches of dead runs; no new commit after `until`.

    `named` says what others name right now.

    Raises:
        Leased: another maintenance holds the table.
        Outage: a service does not answer.
    """
    began = time.perf_counter()
    table = load(lake.catalog, name)
    if table is None:
        return Gain(name, "snapshot_expiry", acted=False, reason="it does not exist yet")
    plan = plan_expiry(table.metadata, limits, named())
    pause_point("expiry_planned")
    before, told = _before(table.metadata, plan), _told(plan)
    if before["snapshots_before"] > (most := fitted(limits, table.metadata).max_count) < limits.max_count:
        told += f"; max_count is {most} while the contract does not say it, for its ledgers are long"
    if forbidden := table.properties.get(GC_ENABLED, "true").lower() == "false":
        told += f"; none expires while {GC_ENABLED} is false: its files may be others' too"
        plan = replace(plan, expired=())
    if dry_run or not (plan.expired or plan.dead_branches or is_aside(table.metadata)):
        return Gain(name, "snapshot_expiry", acted=False, reason=told, numbers=before, plan=_as_json(plan))
    conflicts = Conflicts()

    def planned_again() -> int:
        return _remove(lake, name, plan_expiry(existing(lake, name).metadata, limits, named()).expired, until)

    with lease(lake, name), out_of_the_way(lake, name):
        for branch in plan.dead_branches:
            lake.spark().sql(f"ALTER TABLE {lake.identifier(name)} DROP BRANCH IF EXISTS `{branch}`")
        deleted = 0 if forbidden else conflicts.tried("its history", planned_again)
    return Gain(
        name,
        "snapshot_expiry",
        acted=deleted is not None,
        reason="; ".join([told, *conflicts.gave_up]),
        numbers={
            **before,
            "snapshots_after": len(existing(lake, name).metadata.snapshots),
            "files_deleted": deleted or 0,
            "conflicts": conflicts.count,
            "seconds": time.perf_counter() - began,
        },
        plan=_as_json(plan),
    )


def plan_expiry(metadata: TableMetadata, limits: Snapshots, named: Named) -> Keep:
    """What would stay and go right now."""
    snapshots = [
        Snap(
            id=each.snapshot_id,
            parent=each.parent_snapshot_id,
            at=each.timestamp_ms,
            receipt=is_receipt(each),
            act=ACT_PROPERTY in summary_of(each),
            batch=BATCH_PROPERTY in summary_of(each),
        )
        for each in metadata.snapshots
    ]
    most = fitted(limits, metadata)
    return keep(snapshots, refs_of(metadata), named.ids, most, _now(), read_on_from=named.read_on_from)


def fitted(limits: Snapshots, metadata: TableMetadata) -> Snapshots:
    """The limits that hold for this table (`fitting`)."""
    return fitting(limits, map(ledger_size, reversed(metadata.snapshots)))


def _now() -> int:
    return int(time.time() * 1000)


def refs_of(metadata: TableMetadata) -> list[Ref]:
    """Branches and tags as the domain has them."""
    kinds: dict[str, Literal["branch", "tag"]] = {"branch": "branch", "tag": "tag"}
    return [
        Ref(name, kinds[ref.snapshot_ref_type.value], ref.snapshot_id, ref.max_ref_age_ms)
        for name, ref in metadata.refs.items()
    ]


def _remove(lake: Lake, name: str, ids: Sequence[int], until: float) -> int:
    """Remove snapshots and the files that they alone name, the oldest first; returns how many files."""
    never = datetime.fromtimestamp(1, UTC)
    deleted = 0
    for begin in range(0, len(ids), AT_ONCE):
        if time.monotonic() > until:
            break
        listed = ", ".join(f"{each}L" for each in ids[begin : begin + AT_ONCE])
        (row,) = (
            lake.spark()
            .sql(
                lake.call(
                    "expire_snapshots",
                    name,
                    f"snapshot_ids => array({listed}), "
                    f"older_than => TIMESTAMP '{never:%Y-%m-%d %H:%M:%S}+00:00', stream_results => true",
                )
            )
            .collect()
        )
        deleted += sum(row.asDict().values())
        pause_point("expired")
    return deleted


def _before(metadata: TableMetadata, plan: Keep) -> dict[str, float]:
    oldest = min((each.timestamp_ms for each in metadata.snapshots), default=_now())
    return {
        "snapshots_before": len(metadata.snapshots),
        "oldest_days": (_now() - oldest) / DAY_MS,
        "expirable": len(plan.expired),
        "dead_branches": len(plan.dead_branches),
    }


def _told(plan: Keep) -> str:
    counts: dict[str, int] = {}
    for why in plan.kept.values():
        counts[why] = counts.get(why, 0) + 1
    kept = ", ".join(f"{n} {why}" for why, n in sorted(counts.items(), key=lambda each: -each[1]))
    dead = f", branches of dead runs: {len(plan.dead_branches)}" if plan.dead_branches else ""
    return f"{counted(len(plan.expired), 'snapshot')} to expire{dead}; kept: {kept or 'none'}"


def _as_json(plan: Keep) -> dict[str, object]:
    return {
        "expired": [str(each) for each in plan.expired[-5:]],
        "dead_branches": list(plan.dead_branches)[:5],
    }
