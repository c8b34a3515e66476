"""One merge: append rows that are not merged yet, reduced to one row per key, staged, audited, receipted, published.

As in ingest each attempt plans from both tables and works on its own branch. One that does not move main changes no
row; what it remembered is void.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import Overtaken, Stopped, TidemarkError
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.domain.ledger.merge_ledger import Changes, MergeLedger
from tidemark.domain.outcome import Commit
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.merge.batch import read_batch
from tidemark.engine.merge.grown import grown
from tidemark.engine.merge.plan import MergePlan, make_merge_plan
from tidemark.engine.merge.stage import StagedMerge, stage_merge
from tidemark.engine.stopwatch import Stopwatch
from tidemark.engine.table.branch import Attempt, drop_branch, dropped_on_failure, open_branch
from tidemark.engine.table.lease import LOST_OFTEN, ask_for_room
from tidemark.engine.table.publish import publish
from tidemark.engine.table.races import ATTEMPTS, stand_aside

_log = logging.getLogger("tidemark.merge")


def merge_once(
    lake: Lake, current: UpsertTable, run_id: str, *, loaded_before: bool = False, goal: Ledger | None = None
) -> Commit | None:
    """Publish the next merge of an upsert table, or None when everything is merged or the table is paused.

    `goal`: a ledger of the append table; None once all that it had is merged.

    Raises:
        Stopped: the table is in a stop state; nothing moved.
        Outage: a service does not answer; a later attempt continues from the tables.
    """
    table = current.contract.table
    last: TidemarkError | None = None
    for turn in range(1, ATTEMPTS + 1):
        try:
            with translated(table, topic=current.append.table, cluster=current.append.cluster):
                return _attempt(lake, current, run_id, loaded_before=loaded_before, goal=goal)
        except Overtaken as overtaken:
            last = overtaken
            stand_aside(turn)
            if turn == LOST_OFTEN:
                with suppress(Exception):
                    ask_for_room(lake, table)
    raise Stopped("failed", table, f"It was planned {ATTEMPTS} times in vain: {last}") from last


def _attempt(
    lake: Lake, current: UpsertTable, run_id: str, *, loaded_before: bool, goal: Ledger | None
) -> Commit | None:
    watch = Stopwatch()
    with watch("plan"):
        plan = make_merge_plan(lake, current, run_id, loaded_before=loaded_before, goal=goal)
    if plan is None:
        return None
    if plan.after and (told := grown(plan.pair, [plan.after], plan.rows.end)):
        _log.warning("%s: %s", plan.current.contract.table, told)
    with _kept(lake, plan), dropped_on_failure(lake, plan.attempt):
        with watch("branch"):
            made = open_branch(lake, plan.attempt)
        return _stage_and_publish(lake, plan, made, watch)


@contextmanager
def _kept(lake: Lake, plan: MergePlan) -> Iterator[None]:
    """A branch on the append table keeps the snapshot that a merge of all its rows reads, which no ledger names yet.

    That may take longer than a busy table's expiry waits. Of a merge that died the branch goes a day later.
    """
    if plan.action not in {"first", "rebuild"}:
        yield
        return
    kept = Attempt(plan.current.append.table, plan.attempt.branch, plan.append_snapshot)
    with dropped_on_failure(lake, kept):
        open_branch(lake, kept)
        yield
    with suppress(Exception):
        drop_branch(lake, kept)


def _stage_and_publish(lake: Lake, plan: MergePlan, made: frozenset[int], watch: Stopwatch) -> Commit:
    staged = StagedMerge(snapshots=frozenset(), changes=Changes(), files=0, bytes=0, memory=plan.memory)
    if plan.after and plan.action == "back":
        ledger = plan.ledger(staged.changes, plan.after.truncated, staged.memory, None)
    else:
        with watch("read"):
            batch = read_batch(lake, plan)
        with watch("stage"):
            staged = stage_merge(lake, plan, batch)
        ledger = plan.ledger(staged.changes, batch.truncated, staged.memory, batch.max_timestamp)
    with watch("publish"):
        receipt = publish(lake, plan.attempt, made | staged.snapshots, ledger, unless_paused=True)
    return _commit(plan, ledger, receipt, watch, staged)


def _commit(
    plan: MergePlan, ledger: MergeLedger, receipt: int, watch: Stopwatch, staged: StagedMerge
) -> Commit:
    changes = ledger.changes
    written, deleted = changes.inserted + changes.updated, changes.deleted + changes.absent
    read = max(changes.read, written + deleted)  # rows that a replay or a truncation touched were not read
    counts = Counts(read=read, written=written, tombstones=deleted, skipped=read - written - deleted)
    return Commit(
        table=plan.current.contract.table,
        snapshot_id=receipt,
        from_=dict(plan.rows.start),
        next=ledger.next,
        counts={0: counts},
        schema_ids=frozenset(),
        max_timestamp=ledger.max_timestamp,
        seconds=watch.seconds,
        files=staged.files,
        bytes=staged.bytes,
        at=datetime.now(UTC),
        changes=changes,
        undone=f"{plan.action}: {plan.why}" if plan.why else "",
    )
