"""One tick of a lane's sensor: look at topics, tables and runs, decide, and say why."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import monotonic

import dagster as dg

from assets.names import pool_of
from assets.runs.run_length import patience_of
from sensors.cursor import CATALOG, Cache, Entry
from sensors.runs import Ended, ended, operated, under_way
from tidemark.domain.cadence.lag import Sighting, prune
from tidemark.domain.cadence.reading import (
    READ_EVERY,
    READ_TROUBLED_EVERY,
    Known,
    quiet_every,
    to_read,
    witnessed,
)
from tidemark.domain.cadence.request import OUTAGE_BACKOFF, Ask, Seen, Trouble, ask, mark_of, some
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
"""A tick stops reading at a failed read once this many seconds have passed: Dagster gives a tick 60, and a hanging
catalog takes 30 to fail."""


@dataclass
class Tick:
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
        runs = under_way(self.instance, pool, names)
        self._take_in(ended(self.instance, pool, names, self.cache.runs_until))
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
            self.cache.runs_until = run.at
            for table in run.tables:
                entry = self.cache.entry(table)
                state, before = run.stopped.get(table), entry.trouble
                failures = before.failures + 1 if before else 1
                entry.trouble = Trouble(state, failures, run.at) if state else None
                entry.tried = run.at
                entry.owed = entry.owed or not run.well

    def _look(self) -> None:
        self._look_at_topics()
        self._read_tables()

    def _look_at_topics(self) -> None:
        by_cluster: dict[str, set[str]] = defaultdict(set)
        for contract in self.contracts:
            by_cluster[contract.cluster].add(contract.topic)
        for cluster, topics in by_cluster.items():
            try:
                found = self.lake.kafka(cluster).describe_each(sorted(topics), whole=False)
            except (Outage, Stopped) as error:
                self.lake.lose_kafka(cluster)
                self.cache.down.setdefault(cluster, self.now)
                self.down.append(f"kafka {cluster} is {error.state}: {error.fields.get('detail', '')}")
                continue
            self.cache.down.pop(cluster, None)
            self.topics[cluster] = {name: each for name, each in found.items() if isinstance(each, Topic)}
            faults = {name: each for name, each in found.items() if not isinstance(each, Topic)}
            self.unseen |= {(cluster, name): fault for name, fault in faults.items()}
            said = {
                name: f"topic {name} is {each.state}: {each.fields.get('detail', '')}"
                for name, each in faults.items()
            }
            self.down += some(list(said), said.__getitem__)
        for contract in self.contracts:
            if contract.cluster in self.topics:
                entry = self.cache.entry(contract.table)
                unanswered = isinstance(self.unseen.get((contract.cluster, contract.topic)), Outage)
                entry.unseen = (entry.unseen or self.now) if unanswered else None

    def _read_tables(self) -> None:
        """No table holds up another one."""
        outages: dict[str, Outage] = {}
        read, began = 0, monotonic()
        for contract in self._to_read():
            try:
                self._read(contract)
                read += 1
            except Outage as outage:
                outages[contract.table] = outage
                if len(outages) == OUTAGES_ASKED or monotonic() - began > HANGS:
                    break
        self._lose(outages, others=read > 0)

    def _to_read(self) -> Sequence[Contract]:
        operated_at = operated(self.instance, self.now - 2 * self.quiet_every)
        known = [self._known(each, operated_at) for each in self.contracts]
        by_table = {each.table: each for each in self.contracts}
        found = to_read(known, self.now, self.lane.poll, catalog_down=self.catalog_down)
        return [by_table[table] for table in found]

    def _known(self, contract: Contract, operated_at: datetime | None) -> Known:
        entry, topic = self.cache.entry(contract.table), self._topic(contract)
        changed_at = max((at for at in (entry.tried, operated_at) if at), default=None)
        quiet = topic and entry.committed is not None and not waiting(entry.committed, topic.end)
        every = self.quiet_every if quiet else READ_EVERY
        if entry.trouble or entry.paused or entry.fault:
            every = READ_TROUBLED_EVERY
        return Known(contract.table, entry.read_at, changed_at, every, lost=entry.lost is not None)

    def _witnessed(self, asked: Sequence[Contract]) -> Sequence[Contract]:
        by_table = {each.table: each for each in self.contracts}
        lost = {table for table in by_table if self.cache.entry(table).lost}
        found = witnessed(
            [each.table for each in asked], list(by_table), lost, catalog_down=self.catalog_down
        )
        return [by_table[table] for table in found]

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
            self.down += some(list(said), lambda table: f"{table} is {said[table]}")

    def _read(self, contract: Contract) -> None:
        entry = self.cache.entry(contract.table)
        try:
            state = self.lake.state(contract.table)
        except Stopped as stopped:
            entry.fault, entry.mark, entry.committed = stopped.state, stopped.state, None
        else:
            self.states[contract.table] = state
            entry.fault = None
            entry.exists, entry.paused = state.ledger is not None, state.paused
            entry.staged, entry.active = state.staged, entry.active or state.committed_at
            entry.committed = dict(state.ledger.next) if state.ledger else None
            entry.topic_id = (state.ledger.topic_id or "")[:8] or None if state.ledger else None
            entry.mark = f"{state.uuid}|{state.head}|{sorted(state.properties.items())}"
        entry.mark = mark_of(contract, self._topic_id(contract), entry.mark)
        entry.read_at, entry.lost = self.now, None
        entry.mark_trouble()

    def _topic(self, contract: Contract) -> Topic | None:
        return self.topics.get(contract.cluster, {}).get(contract.topic)

    def _topic_id(self, contract: Contract) -> str | None:
        topic = self._topic(contract)
        return topic.topic_id if topic else None

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
        known = [seen for seen in entry.sightings if not waiting(topic.end, seen.end)]  # else another topic's
        last = known[-1].end if known else None
        fresh = (
            []
            if last is not None and dict(last) == dict(topic.end)
            else [Sighting(self.now, dict(topic.end))]
        )
        entry.sightings = prune([*known, *fresh], committed)
