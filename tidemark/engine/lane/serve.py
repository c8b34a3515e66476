"""A run serves the tables of a lane side by side: `serve` lingers for more, `catch_up_all` ends when level.

Knows neither Dagster nor Spark: what a run can do is `LaneWork`, when it must go is `called_away`. Every answer
comes back to the calling thread, so that an interrupt there ends everything.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Protocol

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import Outage, TidemarkError, error_fields
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.outcome import Commit, Outcome
from tidemark.engine.lane.served_table import QUIET_LOOK, Serving, Standing

STEP = timedelta(seconds=1)
"""The longest wait between two looks at the stop flag."""
LOOKS, OFTEN = 8, timedelta(seconds=0.25)
"""A run looks so often within the shortest target lag of its tables, but at least every `poll` and at most every
OFTEN."""
HANDOVER_EVERY = timedelta(seconds=2)
GRACE = 10.0
"""Seconds that interrupted batches get to drop their stage."""


class LaneWork(Protocol):
    """What a run asks of the engine."""

    @property
    def stop(self) -> Event:
        """Once set, by whoever ends the run, nothing further is begun."""

    def look(self, cluster: str, topics: Sequence[str]) -> Mapping[str, Topic | TidemarkError]:
        """The topics as they are now, or why one alone cannot be seen. Raises Outage or Stopped for all of them."""

    def standing(self, contract: Contract) -> Standing:
        """The table as it is now. Raises Outage or Stopped."""

    def microbatch(self, contract: Contract) -> Commit | None:
        """One batch, or None when nothing waits. Raises Outage or Stopped."""

    def catch_up(self, contract: Contract) -> Outcome:
        """All that waits at this moment. Never raises."""

    def summarise(self, contract: Contract, done: Outcome) -> Outcome:
        """What came of a table, `done` with its seconds and its error. Never raises."""

    def interrupt(self) -> None:
        """Make running batches fail soon."""


class Clock:
    """Time, waiting and threads of a run: what a test replaces so that minutes pass at once."""

    def __init__(self) -> None:
        self._made, self._ticked = datetime.now(UTC), time.monotonic()

    def now(self) -> datetime:
        """This moment, in UTC, at least as long after the start as it is: a clock set back would hold the run up."""
        return max(datetime.now(UTC), self._made + timedelta(seconds=time.monotonic() - self._ticked))

    def rest(self, busy: Sequence["Future[Commit | Standing]"], stop: Event, seconds: float) -> None:
        """Wait until one of `busy` is done, at most `seconds`."""
        if busy:
            wait(busy, timeout=seconds, return_when=FIRST_COMPLETED)
        else:
            stop.wait(seconds)

    def workers(self, parallel: int) -> ThreadPoolExecutor:
        """For so many tables at once."""
        return ThreadPoolExecutor(parallel, thread_name_prefix="tidemark-lane")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a table: at the end of the run (`final`), or in between when it has new commits."""

    outcome: Outcome
    final: bool


@dataclass(slots=True)
class _Run:
    work: LaneWork
    tables: list[Serving]
    lane: Lane
    report_every: timedelta
    called_away: Callable[[], str | None]
    log: Callable[[str], object]
    clock: Clock
    pool: ThreadPoolExecutor
    started: datetime
    look_at: datetime | None = None
    asked_at: datetime | None = None
    quiet_since: datetime | None = None
    leaving: bool = False

    @property
    def poll(self) -> timedelta:
        """The time between two looks: what waits is seen early enough for the table that is in the greatest hurry.

        A cluster that does not answer is not asked more often than the lane says, else it is given up within a second.
        """
        if any(each.blind for each in self.tables):
            return self.lane.poll
        hurry = min(
            (each.contract.target_lag for each in self.tables if not each.over), default=self.lane.poll
        )
        return min(self.lane.poll, max(OFTEN, hurry / LOOKS))

    def serve(self) -> Iterator[Report]:
        while True:
            self._collect(self.clock.now())
            self._look(self.clock.now())
            now = self.clock.now()
            if not self.leaving and (reason := self._reason_to_leave(now)):
                self.leaving = True
                self.log(f"The run ends, or will with the batches at work: {reason}")
            if self.leaving and not self._busy():
                break
            if not self.leaving:
                self._begin(now)
            yield from self._reports(now)
            self.clock.rest(self._busy(), self.work.stop, min(STEP, self.poll).total_seconds())
        yield from (Report(self._final(each), final=True) for each in self.tables)

    def _final(self, each: Serving) -> Outcome:
        now, error = self.clock.now(), each.error or each.trouble
        if not each.done.commits and not each.over and not error:
            return each.so_far(now)
        seconds, fields = (now - each.started).total_seconds(), error_fields(error) if error else None
        return self.work.summarise(each.contract, replace(each.done, seconds=seconds, error=fields))

    def _busy(self) -> list["Future[Commit | Standing]"]:
        return [each.working for each in self.tables if each.working]

    def _collect(self, now: datetime) -> None:
        for each in self.tables:
            if each.working is None or not each.working.done():
                continue
            done, each.working = each.working, None
            try:
                found = done.result()
                if isinstance(found, Commit):
                    each.published(found)
                else:
                    each.stands(found)
            except Exception as error:  # noqa: BLE001 - one table's failure never ends another's service
                if not (
                    each.resting and isinstance(error, Outage)
                ):  # nothing was to be done: the next look tells
                    each.failed(error, now)

    def _look(self, now: datetime) -> None:
        if self.leaving or (self.look_at and now < self.look_at):
            return
        for cluster in sorted({each.contract.cluster for each in self.tables if not each.over}):
            served = [t for t in self.tables if t.contract.cluster == cluster and not t.over]
            names = sorted({t.contract.topic for t in served})
            topics: Mapping[str, Topic | TidemarkError]
            try:
                topics = self.work.look(cluster, names)
            except TidemarkError as error:
                topics = dict.fromkeys(names, error)
            for each in served:
                found = topics.get(each.contract.topic)
                if isinstance(found, TidemarkError):
                    each.saw_nothing(found, now)
                else:
                    each.saw(found, now)
        took = self.clock.now() - now
        self.look_at = now + max(self.poll, 2 * took)  # half of the time is left for who waits to be served

    def _begin(self, now: datetime) -> None:
        free = self.lane.parallel - len(self._busy())
        due = [each for each in self.tables if each.verdict(now).due]
        due.sort(key=lambda each: each.turn(now), reverse=True)
        for each in due[:free]:
            each.working = self.pool.submit(self._step, each.contract, batch=each.begins(now))

    def _step(self, contract: Contract, *, batch: bool) -> Commit | Standing:
        """In a worker: a batch, or where the table stands when there is none to make."""
        return (self.work.microbatch(contract) if batch else None) or self.work.standing(contract)

    def _reason_to_leave(self, now: datetime) -> str | None:
        if self.work.stop.is_set():
            return "stopped"
        stopped = [each.contract.table for each in self.tables if each.error]
        if stopped and self._all_begun:
            return f"{', '.join(stopped)} stopped"
        if now - self.started >= self.lane.max_run:
            return "max_run is over"
        return self._nothing_more(now) or self._asked_to_go(now)

    @property
    def _all_begun(self) -> bool:
        """A run makes no room until each table had a turn: else runs could replace one another and do no work."""
        return all(each.over or each.begun for each in self.tables)

    def _nothing_more(self, now: datetime) -> str | None:
        if self.quiet_since is None and all(each.idle(now) for each in self.tables):
            self.quiet_since = now
        elif not all(each.idle(now) for each in self.tables):
            self.quiet_since = None
        over = all(each.over for each in self.tables)
        lingered = self.quiet_since is not None and now - self.quiet_since >= self.lane.linger
        return "nothing more came" if over or lingered else None

    def _asked_to_go(self, now: datetime) -> str | None:
        if not self._all_begun:
            return None
        if self.asked_at is not None and now - self.asked_at < HANDOVER_EVERY:
            return None
        self.asked_at = now
        return self.called_away()

    def _reports(self, now: datetime) -> Iterator[Report]:
        for each in self.tables:
            since = each.reported_at or self.started
            if each.done.commits > each.reported and now - since >= self.report_every:
                each.reported_at, each.reported = now, each.done.commits
                yield Report(each.so_far(now), final=False)


def serve(  # noqa: PLR0913 - what it does, its limits, and its ways out
    work: LaneWork,
    contracts: Sequence[Contract],
    lane: Lane,
    *,
    report_every: timedelta,
    called_away: Callable[[], str | None],
    log: Callable[[str], object],
    first_seen: Mapping[str, datetime] | None = None,
    last_results: Mapping[str, datetime] | None = None,
    clock: Clock | None = None,
) -> Generator[Report]:
    """Drain the tables, then linger for more; a final report per table comes last.

    `first_seen`: tables that are not due yet, with the moment since when records may wait there; they are published
    when they are due by that. What waits in any other table is published at once, its age is not known: those begin
    that have gone longest without a result (`last_results`, in lengths of a run), so that none is left out for ever.

    It ends when nothing came for `lane.linger`, at `lane.max_run`, when `called_away` gives a reason, when
    `work.stop` is set, or when a table stopped: so the stop is seen at once, and the next run serves the others. Why
    it ends is logged.
    """
    clock = clock or Clock()
    now = clock.now()
    with _workers(work, lane, clock) as workers:
        seen, results = first_seen or {}, last_results or {}
        quiet_look = max(QUIET_LOOK, timedelta(seconds=len(contracts)))  # one a second of all tables at most
        tables = [
            Serving(each, now, seen.get(each.table), _missed(results.get(each.table), now, lane), quiet_look)
            for each in longest_without(contracts, results)
        ]
        yield from _Run(work, tables, lane, report_every, called_away, log, clock, workers, now).serve()


def longest_without(contracts: Sequence[Contract], last_results: Mapping[str, datetime]) -> list[Contract]:
    """Those that no run has had a result for, then from the oldest result on."""
    never = datetime.min.replace(tzinfo=UTC)
    return sorted(contracts, key=lambda each: last_results.get(each.table, never))


def _missed(last: datetime | None, now: datetime, lane: Lane) -> float:
    return math.inf if last is None else max(0, (now - last) // lane.max_run)


def catch_up_all(work: LaneWork, contracts: Sequence[Contract], lane: Lane) -> Generator[Report]:
    """`LaneWork.catch_up` for every table, `lane.parallel` at once; the reports come as the tables finish."""
    with _workers(work, lane, Clock()) as workers:
        open_ones = {workers.submit(work.catch_up, contract) for contract in contracts}
        while open_ones:
            done, open_ones = wait(open_ones, timeout=STEP.total_seconds(), return_when=FIRST_COMPLETED)
            yield from (Report(each.result(), final=True) for each in done)


@contextmanager
def _workers(work: LaneWork, lane: Lane, clock: Clock) -> Iterator[ThreadPoolExecutor]:
    """A pool whose work is stopped, interrupted and waited for when the run is interrupted."""
    pool = clock.workers(lane.parallel)
    try:
        yield pool
    except BaseException:
        work.stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        work.interrupt()
        for thread in list(pool._threads):  # noqa: SLF001 - shutdown has no timeout of its own
            thread.join(GRACE / lane.parallel)
        raise
    else:
        pool.shutdown(wait=True)
