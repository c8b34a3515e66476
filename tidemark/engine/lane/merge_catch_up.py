"""One upsert table until all of its append table that was there at the start is merged. Never an exception."""

from collections.abc import Callable
from dataclasses import replace

from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import Offsets
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked, translated
from tidemark.engine.lane.catch_up import drained, ending_state, through_outages
from tidemark.engine.merge.merge import merge_once
from tidemark.engine.merge.pair import Pair, read_pair


def catch_up_merges(
    lake: Lake,
    current: UpsertTable,
    run_id: str,
    *,
    loaded_before: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Merge up to where the append table ended at the start, or until `stop` says so. Errors are in the outcome."""
    done = drained(
        lake,
        current.contract.table,
        lambda: through_outages(lake, lambda: _end(lake, current), stop),
        lambda goal: merge_once(lake, current, run_id, loaded_before=loaded_before, goal=goal),
        stop,
    )
    return summarise_merges(lake, current, done)


def _end(lake: Lake, current: UpsertTable) -> Ledger | None:
    """The append table's ledger; None before its first load."""
    with translated(current.contract.table, topic=current.append.table, cluster=current.append.cluster):
        append = read_pair(lake, current).append
        return append.ledger if append else None


def summarise_merges(lake: Lake, current: UpsertTable, done: Outcome) -> Outcome:
    """The outcome of a run on one upsert table, with what both tables say now where they still answer."""
    pair, _ = asked(lambda: read_pair(lake, current))
    merged = pair.state.merged if pair else None
    waiting = pair.waiting if pair else 0
    following = dict(merged.next) if merged else {}
    return replace(
        done,
        state=ending_state(done, paused=pair is not None and pair.state.paused, lag=waiting),
        from_=_began(done, pair, following),
        next=following,
        snapshot_id=done.snapshot_id or (pair.state.head if pair else None),
        lag_records=waiting,
        table_clock=merged.max_timestamp if merged else None,
    )


def _began(done: Outcome, pair: Pair | None, following: Offsets) -> Offsets:
    """Where the run's merges began: a first one, or one that made the table anew, where the append table itself did."""
    if not done.commits:
        return following
    first = pair.append.ledger.start if pair and pair.append else {}
    return {**{p: first.get(p, 0) for p in following}, **done.from_}
