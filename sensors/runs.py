"""What Dagster's run records say about a lane: runs under way, and how those that ended left their tables."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.storage.tags import GRPC_INFO_TAG

from assets.names import (
    OFFSETS_TAG,
    STOPPED_TAG,
    VERB_TAG,
    VERBS,
    by_sensor,
    pool_filter,
    pool_of,
    table_of,
)
from tidemark.domain.cadence.request import Runs
from tidemark.domain.states import State, named_state
from tidemark.engine.alive import dead, forget, is_dead, is_held

UNDER_WAY = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)
BEGUN = (DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
MADE = (DagsterRunStatus.NOT_STARTED, *BEGUN)
UNBEGUN = timedelta(minutes=3)
"""How long a run may be no more than a row: whoever made it queues or begins it within seconds, or is gone."""
ENDED = (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)
LOOK_BACK = 25
"""Ended runs that one tick takes into account."""
DIED = (
    "The process of this run died before its work was done: it was killed, ran out of memory, or the machine stopped. "
    "Not lost: what it had published stays; what it had not is done again, for a table itself says how far it is. "
    "Next: nothing; the next run goes on from there. If runs die often, look at the memory of this machine."
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over. `stopped`: the tables that it named with their state; all of them when it crashed.

    `run_id`: of one that did not end well, and may not have told of all that it did.
    """

    tables: frozenset[str]
    at: datetime
    stopped: Mapping[str, State]
    run_id: str | None = None


def under_way(instance: dg.DagsterInstance, pool: str, lane: Collection[str]) -> Runs:
    """The tables that runs have in hand, whoever launched them."""
    kept: set[str] = set()
    lingering: set[str] = set()
    starting: str | None = None
    for run in instance.get_runs(RunsFilter(statuses=list(UNDER_WAY), tags=pool_filter(pool)), limit=50):
        asked = by_sensor(run)
        if asked and run.status == DagsterRunStatus.STARTED:
            lingering |= _tables(run, lane)
        else:
            kept |= _tables(run, lane)
            starting = run.run_id[:8] if asked and run.status != DagsterRunStatus.CANCELING else starting
    return Runs(kept, lingering - kept, starting)


def bury(instance: dg.DagsterInstance, home: Path, *, orphans: bool = False) -> None:
    """Fail the runs whose process is gone: Dagster's launcher on this machine cannot tell, and their pool waits.

    With `orphans` also those that have begun and that no process here ever held: only right while nothing else of
    this instance runs.
    """
    for record in instance.get_run_records(RunsFilter(statuses=list(MADE)), limit=100):
        run = record.dagster_run
        forsaken = _forsaken(record, orphans=orphans)
        if is_dead(home, run.run_id) or (forsaken and not is_held(home, run.run_id)):
            instance.report_run_failed(run, DIED)
            forget(home, run.run_id)
    for run_id in dead(home):
        _explain(instance, home, run_id)


def _forsaken(record: dg.RunRecord, *, orphans: bool) -> bool:
    """Whether a run that no process here holds is nobody's. One without any event yet is young while it is made."""
    run = record.dagster_run
    if run.status == DagsterRunStatus.NOT_STARTED:
        pools = (run.run_op_concurrency and run.run_op_concurrency.all_pools) or ()
        ours = any(pool.startswith(pool_of("")) for pool in pools)
        return ours and datetime.now(UTC) - record.create_timestamp.replace(tzinfo=UTC) > UNBEGUN
    return orphans


def _explain(instance: dg.DagsterInstance, home: Path, run_id: str) -> None:
    """Dagster's code server sees its own children die and fails their runs, but cannot say what that means here."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status in MADE:
        return
    if run is not None and run.status == DagsterRunStatus.FAILURE:
        instance.report_engine_event(DIED, run)
    forget(home, run_id)


@contextmanager
def canceled(instance: dg.DagsterInstance, port: int) -> Iterator[None]:
    """The runs of the code server at `port` end within this block because somebody wants it: canceled, not failed."""
    launched = [
        run for run in instance.get_runs(RunsFilter(statuses=list(BEGUN)), limit=100) if _port(run) == port
    ]
    for run in launched:
        instance.report_run_canceling(run)
    yield
    for run in launched:
        left = instance.get_run_by_id(run.run_id)
        if left and left.status == DagsterRunStatus.CANCELING:
            instance.report_run_canceled(left, "It was killed, for it had not ended in time.")


def _port(run: dg.DagsterRun) -> int | None:
    """Of the code server that runs it; None of a run of the command line."""
    port: int | None = json.loads(run.tags.get(GRPC_INFO_TAG, "{}")).get("port")
    return port


def ended(
    instance: dg.DagsterInstance, pool: str, lane: Collection[str], after: datetime | None
) -> Sequence[Ended]:
    """The runs that ended since, oldest first."""
    wanted = RunsFilter(statuses=list(ENDED), tags=pool_filter(pool), updated_after=after)
    found = [
        _ended(record, lane)
        for record in instance.get_run_records(wanted, limit=LOOK_BACK)
        if record.end_time
    ]
    return sorted((each for each in found if after is None or each.at > after), key=lambda each: each.at)


def operated(instance: dg.DagsterInstance, since: datetime) -> datetime | None:
    """When the last job of an operator ended, if that was not before `since`: it may have changed any table."""
    wanted = RunsFilter(statuses=list(ENDED), tags={VERB_TAG: list(VERBS)}, updated_after=since)
    ends = [
        record.end_time for record in instance.get_run_records(wanted, limit=LOOK_BACK) if record.end_time
    ]
    return datetime.fromtimestamp(max(ends), UTC) if ends else None


def attempts(instance: dg.DagsterInstance, digest: str) -> int:
    """The runs that were launched with the very same starting offsets; `run_key` must never repeat."""
    return instance.get_runs_count(RunsFilter(tags={OFFSETS_TAG: digest}))


def _ended(record: dg.RunRecord, lane: Collection[str]) -> Ended:
    run = record.dagster_run
    tables = _tables(run, lane)
    stopped: Mapping[str, State] = {}
    if run.status == DagsterRunStatus.FAILURE:  # one that was executed again has its parent's tags
        stopped = _stopped(run.tags.get(STOPPED_TAG)) or dict.fromkeys(tables, "failed")
    at = datetime.fromtimestamp(record.end_time or 0, UTC)
    return Ended(frozenset(tables), at, stopped, None if run.is_success else run.run_id)


def _stopped(tag: str | None) -> dict[str, State]:
    try:
        found = json.loads(tag) if tag else {}
        return {str(t): named_state(s) for t, s in found.items()}
    except (ValueError, AttributeError):
        return {}


def _tables(run: dg.DagsterRun, lane: Collection[str]) -> set[str]:
    chosen = run.asset_selection
    return set(lane) if chosen is None else {table_of(key) for key in chosen} & set(lane)
