"""What a run of a lane does for upsert tables: `LaneWork` of serve.py, with append tables in the place of topics."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_tables
from tidemark.domain.errors import TidemarkError
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.outcome import Commit, Outcome
from tidemark.engine.access.lake import Lake, renewing_spark
from tidemark.engine.access.outages import translated
from tidemark.engine.lane.merge_catch_up import catch_up_merges, summarise_merges
from tidemark.engine.lane.served_table import Standing
from tidemark.engine.merge.merge import merge_once
from tidemark.engine.merge.pair import as_topic, read_pair

LOOKED_AT = 8
"""Upsert tables that are read at once in a look."""


class UpsertWork:
    """Upsert tables over one Lake; `loaded_before`: those made before, as Dagster's records say."""

    def __init__(self, lake: Lake, run_id: str, loaded_before: Collection[str]) -> None:
        self.lake = lake
        self.run_id = run_id
        self.loaded_before = loaded_before
        self.stop = Event()
        self.tables: Mapping[str, UpsertTable] = upsert_tables(lake.configuration.contracts)

    def look(self, cluster: str, topics: Sequence[str]) -> Mapping[str, Topic | TidemarkError]:
        """The append tables as they are now, those that were loaded."""
        chosen = [t for t in self.tables.values() if t.append.table in topics and t.append.cluster == cluster]
        with ThreadPoolExecutor(LOOKED_AT) as pool:
            found = zip(chosen, pool.map(self._topic, chosen), strict=True)
            return {each.append.table: topic for each, topic in found if topic}

    def standing(self, contract: Contract) -> Standing:
        """Asked of the catalog alone."""
        state = self.lake.state(contract.table)
        return Standing(dict(state.merged.next) if state.merged else None, state.paused)

    def microbatch(self, contract: Contract) -> Commit | None:
        """One merge; a session that was lost is made anew for the next one."""
        loaded_before = contract.table in self.loaded_before
        with renewing_spark(self.lake):
            return merge_once(
                self.lake, self.tables[contract.table], self.run_id, loaded_before=loaded_before
            )

    def catch_up(self, contract: Contract) -> Outcome:
        """All that the append table holds."""
        loaded_before = contract.table in self.loaded_before
        current = self.tables[contract.table]
        return catch_up_merges(
            self.lake, current, self.run_id, loaded_before=loaded_before, stop=self.stop.is_set
        )

    def summarise(self, contract: Contract, done: Outcome) -> Outcome:
        """Completed by what both tables say now."""
        return summarise_merges(self.lake, self.tables[contract.table], done)

    def interrupt(self) -> None:
        """Cancel what the session runs; the merges then drop their stages."""
        self.lake.interrupt()

    def _topic(self, current: UpsertTable) -> Topic | TidemarkError | None:
        try:
            with translated(current.contract.table):
                return as_topic(read_pair(self.lake, current))
        except TidemarkError as fault:
            return fault
