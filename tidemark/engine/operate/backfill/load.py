"""Loading a shadow, window by window; each is one commit, so whoever comes next goes on where the ledger ends."""

import time
from collections.abc import Sequence
from uuid import uuid4

from pyspark.sql import DataFrame

from tidemark import __version__
from tidemark.domain.columns.types import TYPE_RULES_PROPERTY, table_columns
from tidemark.domain.config.contract import Contract, SchemaChanges
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, Counts, Entry, batch_id, branch_name
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, total, waiting
from tidemark.domain.outcome import Commit
from tidemark.domain.plan.meanings import MEANINGS
from tidemark.domain.plan.schema_plan import WriterColumns, plan_schema
from tidemark.domain.plan.table_properties import asked_for
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.table_state import TableState
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.operate.backfill.pace import Pace
from tidemark.engine.operate.backfill.plan import Work, require_shadow
from tidemark.engine.operate.backfill.source import window_rows
from tidemark.engine.schema.evolve import REMOVED, SETTLED_IDS, apply_changes, value_columns
from tidemark.engine.schema.writers import MESSAGE
from tidemark.engine.table.branch import (
    Attempt,
    branch_head,
    branch_identifier,
    dropped_on_failure,
    open_branch,
)
from tidemark.engine.table.create import create
from tidemark.engine.table.first_load import base_properties, create_as_own, first_ledger
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import publish, publish_receipt
from tidemark.engine.table.races import until_not_overtaken

_FOLLOWS = SchemaChanges(add_column="apply", widen_type="apply", incompatible="review")


def begin(lake: Lake, work: Work, shadow: Contract, run_id: str) -> str | None:
    """Make the shadow with its first receipt, unless it is there; the uuid by which the run knows it from now on.

    Raises:
        Refused: it was dropped meanwhile, another backfill began in its place, or it came to a stop state.
        Overtaken: another run made it in the same moment.
    """
    state = lake.state(shadow.table)
    require_shadow(work, state)
    if work.opened is not None:
        _make(lake, work, shadow, state, run_id)
    else:
        if work.source.kind == "own":
            _make_alike(lake, shadow, state, work.target, run_id)
        if state.ledger is None:
            _next_batch(lake, work, shadow, {}, run_id)  # table and receipt, no record
    made = lake.state(shadow.table)
    require_shadow(work, made)
    return made.uuid


def _make(lake: Lake, work: Work, shadow: Contract, state: TableState, run_id: str) -> None:
    if state.exists:
        _follow(lake, shadow, state, work.target, run_id)
    else:
        properties = {**base_properties(shadow), **asked_for(shadow)}
        create(lake, shadow, table_columns(value_columns(work.target)), properties)
        state = lake.state(shadow.table)
    if state.ledger is None:
        source = str(work.source)
        topic = Topic(source, None, None, {}, {}, {})
        first = first_ledger(shadow, topic, work.plan.start, run_id).model_copy(update={"topic": source})
        publish_receipt(lake, state, first)


def _make_alike(lake: Lake, shadow: Contract, state: TableState, target: TableState, run_id: str) -> None:
    """Let the shadow decode as the table does: its columns, and what approvals decided about its schemas."""
    properties = target.properties
    decided = {key: properties.get(key) for key in (REMOVED, SETTLED_IDS)}
    if not state.exists:
        says = {**decided, **{key: properties.get(key) for key in (MEANINGS, TYPE_RULES_PROPERTY, MESSAGE)}}
        create_as_own(lake, shadow, lake.topic(shadow), value_columns(target), says)
        return
    _follow(lake, shadow, state, target, run_id)
    if decided != {key: state.properties.get(key) for key in decided}:
        set_properties(lake, shadow.table, decided)


def _follow(lake: Lake, shadow: Contract, state: TableState, target: TableState, run_id: str) -> None:
    """Columns that the table gains while the load waits are the shadow's too: approvals and later windows have them."""
    columns = [WriterColumns(0, 1, value_columns(target))]
    growth = plan_schema(shadow.table, value_columns(state), columns, _FOLLOWS)
    apply_changes(lake, shadow, state, growth, run_id=run_id)


def load_records(
    lake: Lake, work: Work, shadow: Contract, goals: Sequence[Offsets], run_id: str, pace: Pace
) -> int:
    """Read Kafka up to each of `goals` in turn; returns how many records this call has loaded.

    Where all is loaded Kafka is not asked: what it no longer has, topic and all, is in the shadow.

    Raises:
        Refused: the shadow came to a stop state, or was dropped; the table itself is as it was.
        Outage: a service does not answer; repeat the command.
    """
    done, began = 0, time.monotonic()
    ledger = lake.state(shadow.table).ledger
    following: Offsets = ledger.next if ledger else {}
    for goal in goals:
        while waiting(following, goal):
            commit = _next_batch(lake, work, shadow, goal, run_id)
            if commit is None:
                break
            following = commit.next
            done += sum(each.read for each in commit.counts.values())
            left = total(waiting(following, goals[-1]))
            pace.say(f"{done:,} records loaded, {left:,} offsets to go")
            pace.keep(done, began)
    return done


def _next_batch(lake: Lake, work: Work, shadow: Contract, goal: Offsets, run_id: str) -> Commit | None:
    try:
        return microbatch(lake, shadow, run_id, goal=goal, uuid=work.shadow)
    except Stopped as stopped:
        require_shadow(work, lake.state(shadow.table, ledger=False))
        table = work.contract.table
        first = (
            "mend that" if stopped.state != "schema_review" else f"approve what tidemark plan {table} names"
        )
        raise Refused(
            f"the backfill cannot go on, and its table is untouched: {stopped.message}",
            next_step=f"{first} and repeat the command, or --abort",
            state=stopped.state,
        ) from stopped


def load_rows(lake: Lake, work: Work, shadow: Contract, run_id: str, pace: Pace) -> int:
    """Copy the windows that are missing; returns how many rows this call has loaded.

    Raises:
        Refused: the shadow was dropped meanwhile.
    """
    done, began = 0, time.monotonic()
    while True:
        try:
            rows = until_not_overtaken(shadow, lambda: _next_window(lake, work, shadow, run_id))
        except Stopped:
            require_shadow(work, lake.state(shadow.table, ledger=False))
            raise
        if rows is None:
            return done
        done += rows
        ledger = lake.state(shadow.table).ledger
        first, upto = work.plan.start[0], work.plan.end[0]
        at = ledger.next[0] if ledger else first
        pace.say(f"{done:,} rows loaded, {at - first} of {upto - first} windows")
        pace.keep(done, began)


def _next_window(lake: Lake, work: Work, shadow: Contract, run_id: str) -> int | None:
    state = lake.state(shadow.table)
    require_shadow(work, state)
    number = state.ledger.next[0] if state.ledger else 0
    if state.ledger is None or work.opened is None or number >= work.plan.end[0]:
        return None
    here = {0: OffsetRange(number, number + 1)}
    batch, attempt_id = batch_id(shadow.table, 0, here), uuid4().hex[:8]
    attempt = Attempt(shadow.table, branch_name(batch, attempt_id), state.head)
    pause_point("planned")
    with dropped_on_failure(lake, attempt):
        open_branch(lake, attempt)
        rows = window_rows(work.opened, work.target, work.source, work.plan, number)
        expected = rows.count()
        written: set[int] = set()
        if expected:
            written.add(_appended(lake, attempt, rows, f"{batch}/{attempt_id}", expected))
        entry = Entry(batch, attempt_id, run_id, shadow.digest, __version__)
        counts = {0: Counts(expected, expected)}
        publish(lake, attempt, frozenset(written), state.ledger.after(here, counts, entry))
    return expected


def _appended(lake: Lake, attempt: Attempt, rows: DataFrame, batch: str, expected: int) -> int:
    writer = rows.writeTo(branch_identifier(lake, attempt))
    writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
    writer.option(f"snapshot-property.{BATCH_PROPERTY}", batch).append()
    snapshot = branch_head(lake, attempt)
    staged = int(summary_of(snapshot).get("added-records", 0))
    if staged != expected:
        raise Stopped("failed", attempt.table, f"{staged} rows are staged, the source has {expected}.")
    pause_point("staged")
    return snapshot.snapshot_id
