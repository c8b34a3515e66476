"""Compaction: plan from the manifests, then few commits by Spark's procedures, each validated by Iceberg.

`main` is moved by Iceberg's own rewrite, which replaces files by files with the same rows and fails when one of them
was deleted from meanwhile; it never goes back, and an ingest that it overtakes plans again.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyspark.sql import Row

from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.config.contract import Compaction
from tidemark.domain.config.units import counted
from tidemark.domain.maintenance.compaction import CompactionPlan, Layout, Rewrite, plan_compaction
from tidemark.domain.maintenance.gain import Gain
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.access.totals import totals_of
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.conflicts import Conflicts
from tidemark.engine.table.lease import existing, lease, wanted_by_ingest
from tidemark.engine.table.live_files import read_layout

_ANY = 1e-9
"""A ratio of 0 means any deleted row; Iceberg wants more than 0."""
CONCURRENT_REWRITES = 2
"""Groups of files that the server rewrites at once: ingest needs its cores."""


@dataclass(slots=True)
class _Done:
    """What the commits of one run came to."""

    commits: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    manifests: int = 0
    stopped: str = ""
    conflicts: Conflicts = field(default_factory=Conflicts)


def compact(lake: Lake, name: str, limits: Compaction, *, until: float, dry_run: bool) -> Gain:
    """Compact one table as far as it pays, no new commit after `until` (seconds of time.monotonic).

    Raises:
        Leased: another maintenance holds the table.
        Outage: a service does not answer.
    """
    began = time.perf_counter()
    table = load(lake.catalog, name)
    if table is None:
        return Gain(name, "compaction", acted=False, reason="it does not exist yet")
    totals = totals_of(table, table.metadata.current_snapshot())
    if totals.data_files < limits.min_input_files and not totals.delete_files:
        return Gain(
            name,
            "compaction",
            acted=False,
            reason=f"{counted(totals.data_files, 'file')}, no deletes",
            numbers={"files_before": totals.data_files},
        )
    layout = read_layout(table)
    plan = plan_compaction(layout, limits, datetime.now(UTC))
    pause_point("compaction_planned")
    reason = "; ".join(plan.reasons)
    standing_back = wanted_by_ingest(table.metadata.properties)
    if standing_back or dry_run or not plan:
        found = {**_before(layout, limits), **_planned(plan), "seconds": time.perf_counter() - began}
        return Gain(
            name,
            "compaction",
            acted=False,
            reason=standing_back or reason,
            numbers=found,
            plan=plan.as_json(),
        )
    with lease(lake, name):
        done = _act(lake, name, limits, plan, until)
    after = read_layout(existing(lake, name))
    return Gain(
        name,
        "compaction",
        acted=done.commits > 0,
        reason="; ".join(filter(None, (reason, done.stopped, *done.conflicts.gave_up))),
        numbers={
            **_before(layout, limits),
            **_planned(plan),
            **_gained(done, after, limits, time.perf_counter() - began),
        },
        plan=plan.as_json(),
    )


def _act(lake: Lake, name: str, limits: Compaction, plan: CompactionPlan, until: float) -> _Done:
    done = _Done()
    for rewrite in plan.rewrites:
        table = existing(lake, name)
        done.stopped = wanted_by_ingest(table.metadata.properties) or ""
        if time.monotonic() > until:
            done.stopped = "its time was up; the rest goes on next time"
        if done.stopped:
            return done
        _rewrite_files(lake, table, limits, rewrite, done)
        pause_point("compacted")
    if plan.dangling and time.monotonic() < until:
        _rewrite_deletes(lake, name, done)
        pause_point("compacted")
    for spec in plan.manifests:
        if time.monotonic() < until:
            _rewrite_manifests(lake, name, spec, done)
            pause_point("manifests_rewritten")
    return done


def _rewrite_files(lake: Lake, table: Table, limits: Compaction, rewrite: Rewrite, done: _Done) -> None:
    """One commit."""
    found = _call(lake, _rewrite_call(lake, table, limits, rewrite), rewrite.partitions[0], done)
    if found is not None:
        done.commits += int(found["rewritten_data_files_count"] > 0)
        done.rewritten_files += found["rewritten_data_files_count"]
        done.rewritten_bytes += found["rewritten_bytes_count"]


def _rewrite_deletes(lake: Lake, name: str, done: _Done) -> None:
    """One commit. Iceberg drops what dangles by itself only once all of its partition is younger."""
    options = f"'rewrite-all', 'true', 'max-concurrent-file-group-rewrites', '{CONCURRENT_REWRITES}'"
    call = lake.call("rewrite_position_delete_files", name, f"options => map({options})")
    found = _call(lake, call, "its list of deletes", done)
    if found is not None:
        done.commits += int(found["rewritten_delete_files_count"] > 0)


def _rewrite_manifests(lake: Lake, name: str, spec: int, done: _Done) -> None:
    """One commit."""
    call = lake.call("rewrite_manifests", name, f"use_caching => false, spec_id => {spec}")
    found = _call(lake, call, "the list of manifests", done)
    if found is not None:
        done.commits += int(found["rewritten_manifests_count"] > 0)
        done.manifests += found["rewritten_manifests_count"]


def _call(lake: Lake, call: str, what: str, done: _Done) -> Row | None:
    rows = done.conflicts.tried(what, lambda: lake.spark().sql(call).collect())
    return rows[0] if rows else None


def _rewrite_call(lake: Lake, table: Table, limits: Compaction, rewrite: Rewrite) -> str:
    """The CALL of Spark SQL that does one rewrite."""
    sort = not table.sort_order().is_unsorted
    options = {
        "target-file-size-bytes": limits.target_file_size,
        "min-file-size-bytes": max(1, rewrite.below),
        "max-file-size-bytes": max(int(limits.target_file_size * 1.8), 2),
        "min-input-files": 2,
        "delete-ratio-threshold": max(limits.max_delete_ratio, _ANY),
        "max-concurrent-file-group-rewrites": CONCURRENT_REWRITES,
        "remove-dangling-deletes": "true",
    }
    if rewrite.unscoped_deletes:
        options["delete-file-threshold"] = 1
    if rewrite.max_files is not None:
        options["max-files-to-rewrite"] = rewrite.max_files
    listed = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    where = f", where => {quoted_text(rewrite.where)}" if rewrite.where else ""
    strategy = f"strategy => '{'sort' if sort else 'binpack'}'"
    return lake.call(
        "rewrite_data_files", ".".join(table.name()), f"{strategy}, options => map({listed}){where}"
    )


def _before(layout: Layout, limits: Compaction) -> dict[str, float]:
    return _numbers(layout, limits, "before")


def _planned(plan: CompactionPlan) -> dict[str, float]:
    return {
        "rewrites_planned": len(plan.rewrites),
        "files_planned": sum(each.files for each in plan.rewrites),
        "bytes_planned": sum(each.bytes for each in plan.rewrites),
        "bytes_left": plan.left,
    }


def _gained(done: _Done, after: Layout, limits: Compaction, seconds: float) -> dict[str, float]:
    return {
        **_numbers(after, limits, "after"),
        "commits": done.commits,
        "conflicts": done.conflicts.count,
        "files_rewritten": done.rewritten_files,
        "bytes_rewritten": done.rewritten_bytes,
        "manifests_rewritten": done.manifests,
        "seconds": seconds,
    }


def _numbers(layout: Layout, limits: Compaction, when: str) -> dict[str, float]:
    return {
        f"files_{when}": layout.data_files,
        f"delete_files_{when}": layout.delete_files,
        f"dangling_deletes_{when}": len(layout.dangling),
        f"bytes_{when}": layout.bytes,
        f"manifests_{when}": layout.manifests,
        f"small_file_ratio_{when}": layout.small_ratio(limits.target_file_size),
        f"delete_ratio_{when}": layout.delete_ratio,
        f"read_amplification_{when}": layout.read_amplification(limits.target_file_size),
    }
