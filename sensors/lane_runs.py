"""What Dagster's run records say about a lane: runs under way, and how those that ended left their tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.storage.tags import RUN_KEY_TAG

from assets.names import OFFSETS_TAG, PUBLISHING, VERB_TAG, VERBS, by_sensor, pool_filter, pools_of, table_of
from assets.runs.handover import could_begin
from assets.runs.last_runs import unfinished
from assets.runs.statuses import ENDED, IN_PROGRESS, UNDER_WAY, ended_at
from assets.runs.stopped import stopped_of
from tidemark.domain.cadence.request import Runs
from tidemark.domain.states import State

AT_ONCE = 25
"""Ended runs of its lane that one tick takes into account."""
PAGE = 100


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over.

    `stopped`: the tables that it named with their state; where it named none, those whose step did not end well.
    `well`: it did all that it was asked for, and Dagster knows.
    """

    run_id: str
    tables: frozenset[str]
    at: datetime
    stopped: Mapping[str, State]
    well: bool = True


@dataclass(frozen=True, slots=True)
class Acts:
    """When the last job of an operator ended, which may have changed any table.

    `cut_short`: tables whose replay or backfill did not end well, with the time: what it published may not be told.
    """

    at: datetime | None
    cut_short: Mapping[str, datetime]


def under_way(
    instance: dg.DagsterInstance, pool: str, tables: Collection[str], leaving: datetime | None = None
) -> Runs:
    """The tables that runs have in hand, whoever launched them.

    A queued run that a person started keeps its tables only if it could begin once a lingering run makes room. One that
    lingers since before `leaving` is about to end, and has none in hand: its successor is to stand in the queue then.
    """
    kept: set[str] = set()
    lingering: set[str] = set()
    starting: str | None = None
    launched: str | None = None
    queued = leaves = False
    behind: dict[str, str] = {}
    for record in instance.get_run_records(RunsFilter(statuses=list(UNDER_WAY))):
        run = record.dagster_run
        if pool not in pools_of(run):
            continue
        asked = by_sensor(run)
        if asked and run.status == DagsterRunStatus.STARTED:
            began = record.start_time
            if began is None or leaving is None or began > leaving.timestamp():
                lingering |= _tables(run, tables)
            else:
                leaves = True
        elif asked or run.status != DagsterRunStatus.QUEUED or could_begin(instance, run, pool):
            if not asked and run.status == DagsterRunStatus.QUEUED:
                behind |= dict.fromkeys(_tables(run, tables), run.run_id[:8])
                continue
            kept |= _tables(run, tables)
            if not asked and run.status in IN_PROGRESS:
                launched = run.run_id[:8]
            elif asked and run.status != DagsterRunStatus.CANCELING:
                starting, queued = run.run_id[:8], run.status == DagsterRunStatus.QUEUED
    served = kept | lingering
    kept |= behind.keys()
    behind = {table: run for table, run in behind.items() if table not in served}
    return Runs(
        kept=kept,
        lingering=lingering - kept,
        starting=starting,
        waits_for=launched if queued else None,
        behind=behind,
        leaving=leaves,
    )


def ended(
    instance: dg.DagsterInstance,
    pool: str,
    tables: Collection[str],
    after: datetime | None,
    known: Collection[str] = (),
) -> tuple[Sequence[Ended], datetime | None]:
    """The runs that ended after `after`, oldest first, at most AT_ONCE, without those whose ids are `known`.

    And the end of the newest run that was skipped because it holds another pool.
    """
    found: list[Ended] = []
    passed: datetime | None = None
    for record in _ended_records(instance, pool, after):
        at = ended_at(record)
        if pool not in pools_of(record.dagster_run):
            passed = max(passed or at, at)
        elif record.end_time and (after is None or at > after) and record.dagster_run.run_id not in known:
            found.append(_ended(instance, record, tables))
            if len(found) == AT_ONCE:
                break
    return sorted(found, key=lambda each: each.at), passed


def _ended_records(instance: dg.DagsterInstance, pool: str, after: datetime | None) -> Iterator[dg.RunRecord]:
    """From the newest on, of other pools as well (`handover.runs_of`); without `after` the last AT_ONCE of this one."""
    if after is None:
        wanted = RunsFilter(statuses=list(ENDED), tags=pool_filter(pool))
        yield from instance.get_run_records(wanted, limit=AT_ONCE)
        return
    wanted, cursor = RunsFilter(statuses=list(ENDED), updated_after=after), None
    while page := instance.get_run_records(wanted, limit=PAGE, cursor=cursor):
        cursor = page[-1].dagster_run.run_id
        yield from page


def operated(instance: dg.DagsterInstance, since: datetime) -> Acts:
    """The jobs of operators that ended, not before `since`."""
    wanted = RunsFilter(statuses=list(ENDED), tags={VERB_TAG: list(VERBS)}, updated_after=since)
    last: datetime | None = None
    cut_short: dict[str, datetime] = {}
    for record in instance.get_run_records(wanted, limit=AT_ONCE):
        run, at = record.dagster_run, ended_at(record)
        last = max(last or at, at)
        if run.tags[VERB_TAG] in PUBLISHING and not run.is_success:
            config: Mapping[str, Any] = run.run_config
            for op in config.get("ops", {}).values():
                table = op.get("config", {}).get("table", "")
                cut_short[table] = max(cut_short.get(table, at), at)
    return Acts(last, cut_short)


def next_attempt(instance: dg.DagsterInstance, lane: str, digest: str) -> int:
    """The number of the next attempt at these starting offsets: the first whose run key Dagster does not know yet.

    Not just how many runs there are: somebody may have deleted an older one.
    """
    tried = instance.get_runs_count(RunsFilter(tags={OFFSETS_TAG: digest}))
    keys = ((n, run_key(lane, digest, n)) for n in count(tried))
    return next(n for n, key in keys if not instance.get_runs_count(RunsFilter(tags={RUN_KEY_TAG: key})))


def run_key(lane: str, digest: str, attempt: int) -> str:
    """The key by which Dagster knows that a run was asked for."""
    return f"{lane}:{digest}:{attempt}"


def _ended(instance: dg.DagsterInstance, record: dg.RunRecord, tables: Collection[str]) -> Ended:
    run = record.dagster_run
    own = _tables(run, tables)
    stopped: Mapping[str, State] = {}
    if run.status == DagsterRunStatus.FAILURE:  # one that was executed again has its parent's tags
        stopped = stopped_of(run.tags) or dict.fromkeys(unfinished(instance, run.run_id, own), "failed")
    at = ended_at(record)
    return Ended(run.run_id, frozenset(own), at, stopped, run.is_success)


def _tables(run: dg.DagsterRun, tables: Collection[str]) -> set[str]:
    chosen = run.asset_selection
    return set(tables) if chosen is None else {table_of(key) for key in chosen} & set(tables)
