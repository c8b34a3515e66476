"""Loading a shadow, window by window; each is one commit, so whoever comes next goes on where the ledger ends."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame

from tidemark import __version__
from tidemark.domain.columns.types import table_columns
from tidemark.domain.config.contract import Contract, SchemaChanges
from tidemark.domain.config.naming import SHADOW
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.backfill import Backfill, Source
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, Counts, Entry, batch_id, branch_name
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, total, waiting
from tidemark.domain.plan.meanings import MEANINGS
from tidemark.domain.plan.schema_plan import WriterColumns, plan_schema
from tidemark.domain.plan.table_properties import asked_for
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState, summary_of
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.operate.backfill_source import Opened, window_rows
from tidemark.engine.operate.replay_plan import persistent
from tidemark.engine.schema.evolve import REMOVED, SETTLED, apply_changes, value_columns
from tidemark.engine.table.branch import (
    Attempt,
    branch_head,
    branch_identifier,
    dropped_on_failure,
    open_branch,
)
from tidemark.engine.table.create import base_properties, create_as_own, first_ledger, publish_receipt
from tidemark.engine.table.new_table import create
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import publish

Say = Callable[[str], None]
_FOLLOWS = SchemaChanges(add_column="apply", widen_type="apply", incompatible="review")


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast: at most `rate` rows or records a second on average, 0 for as fast as it goes; `say` is told."""

    rate: float = 0.0
    say: Say = lambda _: None

    def keep(self, done: int, began: float) -> None:
        """Wait until `done` rows since `began` are no more than allowed."""
        if self.rate > 0:
            time.sleep(max(0.0, done / self.rate - (time.monotonic() - began)))


def make_alike(lake: Lake, shadow: Contract, target: TableState, run_id: str) -> None:
    """Let the shadow decode as the table does: its columns, and what approvals decided about its schemas.

    Columns that the table gains while the load waits are the shadow's too, or an approval would never reach it.
    """
    columns, properties = value_columns(target), target.properties
    decided = {key: properties.get(key) for key in (REMOVED, SETTLED)}
    state = lake.state(shadow.table)
    if not state.exists:
        says = {**decided, MEANINGS: properties.get(MEANINGS)}
        create_as_own(lake, shadow, lake.topic(shadow), columns, says)
        return
    growth = plan_schema(shadow.table, value_columns(state), [WriterColumns(0, 1, columns)], _FOLLOWS)
    apply_changes(lake, shadow, state, growth, run_id=run_id)
    if decided != {key: state.properties.get(key) for key in decided}:
        set_properties(lake, shadow.table, decided)


def load_records(lake: Lake, shadow: Contract, goals: Sequence[Offsets], run_id: str, pace: Pace) -> int:
    """Read Kafka up to each of `goals` in turn; returns how many records this call has loaded.

    Where all is loaded Kafka is not asked: what it no longer has, topic and all, is in the shadow.

    Raises:
        Refused: the shadow came to a stop state; the table itself is as it was.
        Outage: a service does not answer; repeat the command.
    """
    done, began = 0, time.monotonic()
    ledger = lake.state(shadow.table).ledger
    following: Offsets = ledger.next if ledger else {}
    for goal in goals:
        while waiting(following, goal):
            try:
                commit = microbatch(lake, shadow, run_id, goal=goal)
            except Stopped as stopped:
                table = shadow.table.removesuffix(SHADOW)
                first = (
                    "mend that"
                    if stopped.state != "schema_review"
                    else f"approve what tidemark plan {table} names"
                )
                raise Refused(
                    f"the backfill cannot go on, and its table is untouched: {stopped.message}",
                    next_step=f"{first} and repeat the command, or --abort",
                    state=stopped.state,
                ) from stopped
            if commit is None:
                break
            following = commit.next
            done += sum(each.read for each in commit.counts.values())
            left = total(waiting(following, goals[-1]))
            pace.say(f"{done:,} records loaded, {left:,} offsets to go")
            pace.keep(done, began)
    return done


def load_rows(
    lake: Lake,
    shadow: Contract,
    target: TableState,
    source: Source,
    plan: Backfill,
    opened: Opened,
    run_id: str,
    pace: Pace,
) -> int:
    """Copy the windows that are missing; returns how many rows this call has loaded."""
    done, began = 0, time.monotonic()
    _made(lake, shadow, target, source, plan, run_id)
    while True:
        rows = persistent(shadow, lambda: _next_window(lake, shadow, target, source, plan, opened, run_id))
        if rows is None:
            return done
        done += rows
        ledger = lake.state(shadow.table).ledger
        at = ledger.next[0] if ledger else 0
        pace.say(f"{done:,} rows loaded, {at} of {plan.end[0]} windows")
        pace.keep(done, began)


def _made(
    lake: Lake, shadow: Contract, target: TableState, source: Source, plan: Backfill, run_id: str
) -> None:
    state = lake.state(shadow.table)
    if not state.exists:
        properties = {**base_properties(shadow), **asked_for(shadow)}
        create(lake, shadow, table_columns(value_columns(target)), properties)
        state = lake.state(shadow.table)
    if state.ledger is None:
        topic = Topic(str(source), None, None, {}, {}, {})
        first = first_ledger(shadow, topic, plan.start, run_id).model_copy(update={"topic": str(source)})
        publish_receipt(lake, shadow, state, first)


def _next_window(
    lake: Lake,
    shadow: Contract,
    target: TableState,
    source: Source,
    plan: Backfill,
    opened: Opened,
    run_id: str,
) -> int | None:
    state = lake.state(shadow.table)
    number = state.ledger.next[0] if state.ledger else 0
    if state.ledger is None or number >= plan.end[0]:
        return None
    here = {0: OffsetRange(number, number + 1)}
    batch, attempt_id = batch_id(shadow.table, 0, here), uuid4().hex[:8]
    attempt = Attempt(shadow.table, branch_name(batch, attempt_id), state.head)
    pause_point("planned")
    open_branch(lake, attempt)
    with dropped_on_failure(lake, attempt):
        rows = window_rows(opened, target, source, plan, number)
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
