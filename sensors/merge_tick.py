"""The tick of a lane's upsert tables: both ledgers of a table from the catalog, then the same decision as for topics.

A table that had caught up is looked at again once a run may have written to its append table, or after a
minute, in a lane of many after up to five.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from assets.names import pool_of
from sensors.lane_runs import ended, operated, under_way
from sensors.tick import OUTAGES_ASKED, Tick
from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.cadence.reading import READS, witnessed
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.merge.pair import Pair, as_topic, read_pair

PARALLEL = 8


@dataclass
class MergeTick(Tick):
    """A tick whose topics are append tables. How long rows have waited is read from their receipts.

    After `decide`, `contracts` are only those that were read in this tick.
    """

    pairs: dict[str, Pair] = field(default_factory=dict)
    quiet: int = 0
    """Tables that are not looked at: nothing has happened since they had caught up."""
    later: int = 0
    """Tables whose turn is in one of the next ticks."""

    def _look(self) -> None:
        there = upsert_tables(self.lake.configuration.contracts)
        self.contracts = [each for each in self.contracts if each.table in there]  # others were removed since
        written = self._written()
        due = [each for each in self.contracts if self._may_be_behind(each, written)]
        self.quiet = len(self.contracts) - len(due)
        asked = self._witnessed(sorted(self._in_turn(due), key=self._lost_last))
        pairs = read_pairs(self.lake, asked, self._in_time(asked))
        outages = {table: found for table, found in pairs.items() if isinstance(found, Outage)}
        if len(outages) < OUTAGES_ASKED:
            self._leave([each.table for each in asked], pairs)
        self._lose(outages, others=len(pairs) > len(outages))
        loaded = []
        for contract in asked:
            found = pairs.get(contract.table)
            if found is None or isinstance(found, Outage):
                continue
            self._take(contract, found)
            if isinstance(found, Pair):
                topic = as_topic(found)
                if topic is None:
                    continue  # the append table is yet to be loaded
                known = dict(self.topics.get(contract.cluster, {}))
                self.topics[contract.cluster] = {**known, contract.topic: topic}
            loaded.append(contract)
        self.contracts = loaded

    def _in_turn(self, due: Sequence[Contract]) -> Sequence[Contract]:
        """As many as one tick has time for, by name, going on where the last tick ended."""
        last = self.cache.turn
        turn = sorted(due, key=lambda each: (each.table <= last, each.table))[:READS]
        self.later = len(due) - len(turn)
        self.cache.turn = turn[-1].table if self.later else ""
        return turn

    def _leave(self, asked: Sequence[str], answered: Collection[str]) -> None:
        """Where reading took so long that tables are left, the next tick goes on with the first of them."""
        turn = [table for table in asked if not self.cache.entry(table).lost]
        left = [table for table in turn if table not in answered]
        if left:
            self.later += len(left)
            self.cache.turn = turn[turn.index(left[0]) - 1]

    def _lost_last(self, contract: Contract) -> tuple[bool, datetime]:
        entry = self.cache.entry(contract.table)
        return entry.lost is not None, (entry.lost and entry.read_at) or self.now

    def _witnessed(self, asked: Sequence[Contract]) -> Sequence[Contract]:
        by_table = {each.table: each for each in self.contracts}
        lost = {table for table in by_table if self.cache.entry(table).lost}
        found = witnessed(
            [each.table for each in asked], list(by_table), lost, catalog_down=self.catalog_down
        )
        return [by_table[table] for table in found]

    def _written(self) -> Mapping[str, datetime]:
        """By append table, when a run of its lane last had it in hand, as far back as a look may be."""
        since = self.now - 2 * self.quiet_every
        tables, found = {each.topic for each in self.contracts}, dict[str, datetime]()
        for pool in {pool_of(each.lane) for each in self.contracts}:
            for run in ended(self.instance, pool, tables, since)[0]:
                found |= dict.fromkeys(run.tables, run.at)
            runs = under_way(self.instance, pool, tables)
            found |= dict.fromkeys({*runs.kept, *runs.lingering}, self.now)
        return found

    def _may_be_behind(self, contract: Contract, written: Mapping[str, datetime]) -> bool:
        entry = self.cache.entry(contract.table)
        if entry.read_at is None or entry.trouble or entry.lost:
            return True
        if self.now - entry.read_at >= self.quiet_every:
            return True
        acts = (written.get(contract.topic), entry.tried, self._operated)
        return any(at >= entry.read_at for at in acts if at is not None)

    @cached_property
    def _operated(self) -> datetime | None:
        return operated(self.instance, self.now - 2 * self.quiet_every).at

    def _take(self, contract: Contract, found: "Pair | Stopped") -> None:
        entry = self.cache.entry(contract.table)
        if isinstance(found, Pair):
            self.pairs[contract.table] = found
        if isinstance(found, Stopped):
            entry.fault, mark, entry.committed = found.state, str(found.state), None
            self.topics.setdefault(contract.cluster, {})
        else:
            self.states[contract.table] = found.state
            merged = found.state.merged
            # by a replay or a rollback, which offsets do not show
            corrected = merged is not None and found.behind and not found.waiting
            entry.fault = "lagging" if corrected else None
            entry.exists, entry.paused = merged is not None, found.state.paused
            entry.committed = dict(merged.next) if merged else None
            entry.topic_id = f"{merged.append_uuid}/{merged.epoch}" if merged else None
            topic = as_topic(found)
            waits = Sighting(found.oldest, dict(topic.end)) if found.oldest and topic else None
            entry.sightings = [waits] if waits else []
            mark = found.state.mark
        level = isinstance(found, Pair) and entry.exists and not found.behind and not entry.paused
        entry.mark, entry.read_at = self._mark(contract, None, mark), self.now if level else None
        entry.lost = None
        entry.mark_trouble()


def read_pairs(
    lake: Lake, tables: Sequence[Contract], in_time: Callable[[Contract], bool]
) -> Mapping[str, Pair | Stopped | Outage]:
    """What both tables say, by upsert table, or the state that asking ended in.

    After outages no more are asked, nor are those that are not `in_time`.
    """
    known, down = upsert_tables(lake.configuration.contracts), list[Outage]()

    def ask(contract: Contract) -> Pair | Stopped | Outage | None:
        if len(down) >= OUTAGES_ASKED or not in_time(contract):
            return None
        try:
            with translated(contract.table):
                return read_pair(lake, known[contract.table])
        except Stopped as stopped:
            return stopped
        except Outage as outage:
            down.append(outage)
            return outage

    with ThreadPoolExecutor(PARALLEL) as pool:
        found = zip([each.table for each in tables], pool.map(ask, tables), strict=True)
        return {table: each for table, each in found if each is not None}
