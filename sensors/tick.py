"""One tick of a lane's sensor: look at topics, tables and runs, decide, and say why.

Append and upsert tables look in their own way (`_look`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import monotonic

import dagster as dg

from assets.names import pool_of
from assets.runs.run_length import patience_of, run_length_of
from sensors.changed_runs import LATE
from sensors.cursor import CATALOG, Cache, Entry
from sensors.lane_runs import Ended, ended, under_way
from tidemark.domain.cadence.lag import Sighting, of_this_topic, prune
from tidemark.domain.cadence.reading import quiet_every
from tidemark.domain.cadence.request import OUTAGE_BACKOFF, Ask, Seen, Trouble, ask, first_reasons, mark_of
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import waiting
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState

OUTAGES_ASKED = 2
"""Failed table reads after which a tick reads no more."""
HANGS = 10.0
"""A tick begins no read once this many seconds have passed: Dagster gives a tick 60, and a hanging catalog takes 30 to
fail."""


@dataclass
class Tick(ABC):
    """What one tick works with; the cache is changed in place."""

    lake: Lake
    instance: dg.DagsterInstance
    lane_name: str
    lane: Lane
    contracts: Sequence[Contract]
    cache: Cache
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    topics: dict[str, Mapping[str, Topic]] = field(default_factory=dict)
    unseen: dict[tuple[str, str], Outage | Stopped] = field(default_factory=dict)
    """By cluster and topic, why a topic alone could not be seen."""
    states: dict[str, TableState] = field(default_factory=dict)
    """Of the tables that were read in this tick."""
    down: list[str] = field(default_factory=list)
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of contracts as a run that begins now would read them (`on_disk.digests`)."""

    @property
    def catalog_down(self) -> bool:
        """Until a table can be read again, also in ticks that read none."""
        return CATALOG in self.cache.down

    @cached_property
    def quiet_every(self) -> timedelta:
        """How often a table is read to which nothing happens that Dagster knows of."""
        return quiet_every(len(self.contracts), self.lane.poll)

    def decide(self) -> Ask:
        """Look at everything and decide. Never raises for a service that is down: `down` says so."""
        names = [contract.table for contract in self.contracts]
        self.cache.tables = {table: self.cache.entry(table) for table in names}
        pool = pool_of(self.lane_name)
        leaving = self.now - run_length_of(self.lane, self.contracts) + self.lane.poll
        runs = under_way(self.instance, pool, names, leaving)
        over, passed = ended(self.instance, pool, names, self.cache.runs_until, self.cache.ahead)
        self._take_in(over)
        if passed and not (runs.kept or runs.lingering or runs.starting or runs.leaving):
            self._pass(passed)
        self._look()
        patience = patience_of(self.contracts) if runs.lingering else OUTAGE_BACKOFF[1]
        seen = [self._seen(contract, patience) for contract in self.contracts if self._answers(contract)]
        decision = ask(seen, runs, self.now)
        if self.catalog_down and decision.tables:
            return Ask((), (), decision.reason, decision.lags)
        return decision

    def _answers(self, contract: Contract) -> bool:
        """Whether a run could do anything: not while the cluster, or this topic alone, does not answer."""
        return contract.cluster in self.topics and not self.cache.entry(contract.table).unseen

    def _take_in(self, runs: Sequence[Ended]) -> None:
        for run in runs:
            at = min(run.at, self.now)  # the clock of the machine that ran it may be ahead
            self.cache.runs_until = max(self.cache.runs_until or at, at)
            self.cache.ahead[run.run_id] = run.at
            for table in run.tables:
                entry = self.cache.entry(table)
                state, before = run.stopped.get(table), entry.trouble
                failures = before.failures + 1 if before else 1
                entry.trouble = Trouble(state, failures, at) if state else None
                entry.tried = at
                entry.owed = entry.owed or not run.well
        until = self.cache.runs_until
        self.cache.ahead = {run: at for run, at in self.cache.ahead.items() if until and at > until}

    def _pass(self, at: datetime) -> None:
        """A lane without a run need not be asked again for those of others that ended shortly before `at`."""
        until = min(at, self.now) - timedelta(seconds=LATE)
        self.cache.runs_until = max(self.cache.runs_until or until, until)

    @abstractmethod
    def _look(self) -> None:
        """Find out how far topics are, into `topics`, and tables, into the cache."""

    def _in_time(self, asked: Sequence[Contract]) -> Callable[[Contract], bool]:
        """Whether a tick that begins to read now still has time for a table: half of it is for those that failed."""
        began = monotonic()
        lost = {each.table for each in asked if self.cache.entry(each.table).lost}
        others_until = HANGS / 2 if lost else HANGS
        return lambda each: monotonic() - began <= (HANGS if each.table in lost else others_until)

    def _lose(self, outages: Mapping[str, Outage], *, others: bool) -> None:
        """Tables that could not be read are held back; where no other could be read either, it is the catalog."""
        for table, outage in outages.items():
            entry = self.cache.entry(table)
            entry.fault, entry.read_at, entry.lost = outage.state, self.now, entry.lost or self.now
        if others:
            self.cache.down.pop(CATALOG, None)
        elif outages:
            self.cache.down.setdefault(CATALOG, self.now)
        said = {t: f"{each.state}: {each.fields.get('detail', '')}" for t, each in outages.items()}
        if self.catalog_down:
            why = next(iter(said.values()), "catalog_down, asked again in a moment")
            self.down.append(f"the catalog is {why}")
        else:
            self.down += first_reasons(list(said), lambda table: f"{table} is {said[table]}")

    def _mark(self, contract: Contract, topic_id: str | None, state: str) -> str:
        return mark_of(self.digests.get(contract.table, contract.digest), topic_id, state)

    def _topic(self, contract: Contract) -> Topic | None:
        return self.topics.get(contract.cluster, {}).get(contract.topic)

    def _seen(self, contract: Contract, patience: timedelta) -> Seen:
        entry = self.cache.entry(contract.table)
        topic = self._topic(contract)
        unseen = self.unseen.get((contract.cluster, contract.topic))
        if topic:
            self._sight(entry, topic)
        return Seen(
            contract,
            topic,
            entry.committed,
            exists=entry.exists,
            paused=entry.paused,
            fault=entry.fault or (unseen.state if unseen else None),
            topic_id=entry.topic_id,
            sightings=entry.sightings,
            mark=entry.mark,
            trouble=entry.trouble,
            tried=entry.tried,
            active=entry.active,
            patience=patience,
        )

    def _sight(self, entry: Entry, topic: Topic) -> None:
        committed = entry.committed or {}
        if waiting(committed, topic.end):
            entry.active = self.now
        known = of_this_topic(entry.sightings, topic.end)
        last = known[-1].end if known else None
        fresh = (
            []
            if last is not None and dict(last) == dict(topic.end)
            else [Sighting(self.now, dict(topic.end))]
        )
        entry.sightings = prune([*known, *fresh], committed)
