"""The plan of one merge, made from both tables alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from tidemark import __version__
from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.ledger import Ledger, branch_name
from tidemark.domain.ledger.merge_ledger import Action, Changes, MergeLedger, Truncation, merge_id
from tidemark.domain.ledger.merge_plan import GoBack, Merge, Rebuild, Unmerged, is_beyond
from tidemark.domain.times import later
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.readable_head import with_readable_head
from tidemark.engine.merge.missing_rows import lacking, still_accepted
from tidemark.engine.merge.pair import Pair, next_step, read_pair
from tidemark.engine.merge.table import lacking_columns, prepare
from tidemark.engine.merge.upsert_columns import UpsertColumns
from tidemark.engine.table.branch import Attempt

LIMIT = 20_000_000
"""Most offsets of a merge in one epoch; a first one or rebuild joins nothing, and takes all."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """One merge of one table: which append rows, on top of which snapshot, into which columns."""

    pair: Pair
    state: TableState
    rows: Unmerged
    action: Action
    after: MergeLedger | None
    why: str
    run_id: str
    id: str
    attempt_id: str
    back_to: int | None = None
    """An own receipt, for the action `back`."""

    @property
    def current(self) -> UpsertTable:
        """The upsert table."""
        return self.pair.current

    @property
    def append_snapshot(self) -> int:
        """Every read of the append table is pinned to it."""
        if self.pair.append is None:
            raise ValueError("the append table was never loaded")
        return self.pair.append.head

    @property
    def attempt(self) -> Attempt:
        """The branch of this attempt alone."""
        branch = branch_name(self.id, self.attempt_id)
        return Attempt(self.current.contract.table, branch, self.state.head, self.back_to)

    @property
    def memory(self) -> int | None:
        """The snapshot of the memory of hard deletes that goes with the rows that are there, as the ledger says it.

        0: nothing was ever remembered. None: the ledger is older than the entry; all that is remembered goes with them.
        """
        return self.after.memory if self.after else 0

    @property
    def shape(self) -> UpsertColumns:
        """The columns of the table."""
        if self.state.columns is None:
            raise ValueError("the upsert table does not exist")
        return UpsertColumns(self.current, self.state.columns)

    def ledger(
        self, changes: Changes, truncated: Mapping[int, Truncation], memory: int | None, at: datetime | None
    ) -> MergeLedger:
        """The entry once all of `rows` are merged."""
        append = self.pair.append
        named = self.append_snapshot, append.ledger.revision if append else None
        if self.action == "back" and self.after:
            named = self.after.append_snapshot, self.after.append_revision
        before = self.after.totals if self.after else Changes()
        no_tombstones, no_truncates = still_accepted(self.pair)
        return MergeLedger(
            action=self.action,
            append_table=self.current.append.table,
            append_uuid=append.uuid if append else "",
            append_snapshot=named[0],
            append_revision=named[1],
            epoch=self.rows.end_epoch,
            next=dict(self.rows.end),
            truncated=dict(truncated),
            changes=changes,
            totals=before.plus(changes),
            memory=memory,
            why=self.why,
            batch_id=self.id,
            attempt=self.attempt_id,
            run_id=self.run_id,
            max_timestamp=later(at, self.after.max_timestamp if self.after else None),
            contract=self.current.append.digest,
            tidemark=__version__,
            no_tombstones=no_tombstones,
            no_truncates=no_truncates,
            no_keys=self.state.merged.no_keys if self.state.merged else None,
            own_topic_only=self.state.merged.own_topic_only if self.state.merged else False,
        )


def make_merge_plan(
    lake: Lake, current: UpsertTable, run_id: str, *, loaded_before: bool, goal: Ledger | None
) -> MergePlan | None:
    """The next merge, or None; makes or alters the table first. Rows beyond `goal` alone start no merge.

    Raises:
        Stopped: any stop state that they show.
        Overtaken: someone has merged meanwhile.
    """
    pair = read_pair(lake, current)
    if pair.state.paused or pair.append is None:
        return None
    if loaded_before and not pair.state.exists:
        raise Stopped("table_missing", current.contract.table, "Earlier runs have made it.")
    step = next_step(lake, pair, LIMIT)
    if step is None or (goal is not None and is_beyond(step, goal)):
        return None
    if isinstance(step, Rebuild) and not pair.whole:
        raise Stopped(
            "ledger_missing",
            current.contract.table,
            f"{step.why}, and it cannot be made anew as it was: retention has deleted rows of "
            f"{current.append.table}. Once accepted it is made of those that are left.",
        )
    if (missing := lacking(pair) or lacking_columns(pair)) is not None:
        raise missing
    if not pair.readable:
        append = replace(lake.state(current.append.table), head_readable=False)
        with_readable_head(lake, current.append, append, run_id)
        return make_merge_plan(lake, current, run_id, loaded_before=loaded_before, goal=goal)
    state = pair.state
    if not isinstance(step, GoBack):
        state = prepare(lake, current, state, pair.columns, run_id)
        _require_as_merged(pair.state, state)
    pause_point("planned")
    return _planned(pair, state, step, run_id)


def _require_as_merged(seen: TableState, now: TableState) -> None:
    """Require that the table, made or grown since the plan's look, has the same merge ledger.

    Else `next` would go back, and changes would be counted twice. An empty receipt of our own says of `merged` just
    what the one before it says.

    Raises:
        Overtaken: someone has merged since.
    """
    if seen.merged is None or now.merged is None:
        same = seen.merged is now.merged
    else:
        own = now.merged.model_dump(include={"attempt", "run_id"}) | {"changes": now.merged.changes}
        same = seen.merged.model_copy(update=own) == now.merged
    if not same:
        raise Overtaken(now.table, seen.head, now.head)


def _planned(pair: Pair, state: TableState, step: Merge | GoBack | Rebuild, run_id: str) -> MergePlan:
    action: Action
    match step:
        case Merge(rows, after):
            action, why, back_to = "merge" if after else "first", "", None
        case Rebuild(rows, why):
            action, after, back_to = "rebuild", None, None
        case GoBack(back_to, after, why):
            action, rows = "back", Unmerged(after.epoch, after.next, after.epoch, after.next)
    head = pair.append.head if pair.append else 0
    id_ = merge_id(pair.current.contract.table, head, (rows.end_epoch, rows.end))
    return MergePlan(
        pair=pair,
        state=state,
        rows=rows,
        action=action,
        after=after,
        why=why,
        run_id=run_id,
        id=id_,
        attempt_id=uuid4().hex[:8],
        back_to=back_to,
    )
