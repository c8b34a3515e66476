"""The tick of a lane's append tables: their topics from Kafka, and few of them at once from the catalog."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sensors.lane_runs import Acts, operated
from sensors.tick import OUTAGES_ASKED, Tick
from tidemark.domain.cadence.reading import READ_EVERY, READ_TROUBLED_EVERY, Known, to_read
from tidemark.domain.cadence.request import first_reasons
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import waiting
from tidemark.domain.times import later


class AppendTick(Tick):
    """A tick of tables that are loaded from topics."""

    def _look(self) -> None:
        self._look_at_topics()
        self._read_tables()

    def _look_at_topics(self) -> None:
        for cluster, found in self._described():
            if isinstance(found, Outage | Stopped):
                self.lake.lose_kafka(cluster)
                self.cache.down.setdefault(cluster, self.now)
                self.down.append(f"kafka {cluster} is {found.state}: {found.fields.get('detail', '')}")
                continue
            self.cache.down.pop(cluster, None)
            self.topics[cluster] = {name: each for name, each in found.items() if isinstance(each, Topic)}
            faults = {name: each for name, each in found.items() if not isinstance(each, Topic)}
            self.unseen |= {(cluster, name): fault for name, fault in faults.items()}
            said = {
                name: f"topic {name} is {each.state}: {each.fields.get('detail', '')}"
                for name, each in faults.items()
            }
            self.down += first_reasons(list(said), said.__getitem__)
        for contract in self.contracts:
            if contract.cluster in self.topics:
                entry = self.cache.entry(contract.table)
                unanswered = isinstance(self.unseen.get((contract.cluster, contract.topic)), Outage)
                entry.unseen = (entry.unseen or self.now) if unanswered else None

    def _described(self) -> Sequence[tuple[str, Mapping[str, Topic | Outage | Stopped] | Outage | Stopped]]:
        """Topics by cluster, asked at once: one that does not answer takes ten seconds.

        Where a table was never loaded, the whole of its topic is asked for: of one whose records have expired nothing
        waits, whatever its end says.
        """
        by_cluster: dict[str, set[str]] = defaultdict(set)
        for contract in self.contracts:
            by_cluster[contract.cluster].add(contract.topic)
        unmade = {each.topic for each in self.contracts if not self.cache.entry(each.table).exists}

        def describe(cluster: str) -> Mapping[str, Topic | Outage | Stopped] | Outage | Stopped:
            topics = by_cluster[cluster]
            try:
                kafka = self.lake.kafka(cluster)
                found = kafka.describe_each(sorted(topics - unmade), whole=False)
                return found | kafka.describe_each(sorted(topics & unmade)) if topics & unmade else found
            except (Outage, Stopped) as error:
                return error

        if not by_cluster:
            return []
        with ThreadPoolExecutor(len(by_cluster)) as pool:
            return list(zip(by_cluster, pool.map(describe, by_cluster), strict=True))

    def _read_tables(self) -> None:
        """No table holds up another one."""
        outages: dict[str, Outage] = {}
        read, asked = 0, self._to_read()
        in_time = self._in_time(asked)
        for contract in asked:
            if len(outages) == OUTAGES_ASKED or not in_time(contract):
                continue
            try:
                self._read(contract)
                read += 1
            except Outage as outage:
                outages[contract.table] = outage
        self._lose(outages, others=read > 0)

    def _to_read(self) -> Sequence[Contract]:
        acts = operated(self.instance, self.now - 2 * self.quiet_every)
        known = [self._known(each, acts) for each in self.contracts]
        by_table = {each.table: each for each in self.contracts}
        found = to_read(known, self.now, self.lane.poll, catalog_down=self.catalog_down)
        return [by_table[table] for table in found]

    def _known(self, contract: Contract, acts: Acts) -> Known:
        entry, topic = self.cache.entry(contract.table), self._topic(contract)
        changed_at = later(entry.tried, acts.at)
        cut_short = acts.cut_short.get(contract.table)
        entry.owed |= bool(cut_short and entry.read_at and cut_short >= entry.read_at)
        quiet = topic and entry.committed is not None and not waiting(entry.committed, topic.end)
        every = self.quiet_every if quiet else READ_EVERY
        if entry.trouble or entry.paused or entry.fault:
            every = READ_TROUBLED_EVERY
        return Known(contract.table, entry.read_at, changed_at, every, lost=entry.lost is not None)

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
            entry.mark = state.mark
        entry.mark = self._mark(contract, self._topic_id(contract), entry.mark)
        entry.read_at, entry.lost = self.now, None
        entry.mark_trouble()

    def _topic_id(self, contract: Contract) -> str | None:
        topic = self._topic(contract)
        return topic.topic_id if topic else None
