"""What a run of a lane does for append tables: `LaneWork` of serve.py."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import TidemarkError
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.outcome import Commit, Outcome
from tidemark.engine.access.lake import Lake, renewing_spark
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.lane.catch_up import catch_up, summarise
from tidemark.engine.lane.served_table import Standing


@dataclass(frozen=True, slots=True)
class AppendWork:
    """`LaneWork` of serve.py over one Lake; `loaded_before`: tables of which Dagster's records say so."""

    lake: Lake
    run_id: str
    loaded_before: Collection[str]
    stop: Event = field(default_factory=Event)

    def look(self, cluster: str, topics: Sequence[str]) -> Mapping[str, Topic | TidemarkError]:
        """One round of list_offsets for all topics of a cluster."""
        return self.lake.kafka(cluster).describe_each(topics, whole=False)

    def standing(self, contract: Contract) -> Standing:
        """Asked of the catalog alone."""
        state = self.lake.state(contract.table)
        return Standing(dict(state.ledger.next) if state.ledger else None, state.paused)

    def microbatch(self, contract: Contract) -> Commit | None:
        """One batch; a session that was lost is made anew for the next one."""
        with renewing_spark(self.lake):
            return microbatch(
                self.lake, contract, self.run_id, loaded_before=contract.table in self.loaded_before
            )

    def catch_up(self, contract: Contract) -> Outcome:
        """Up to the end offsets of this moment."""
        loaded_before = contract.table in self.loaded_before
        return catch_up(self.lake, contract, self.run_id, loaded_before=loaded_before, stop=self.stop.is_set)

    def summarise(self, contract: Contract, done: Outcome) -> Outcome:
        """Completed by what table and topic say now."""
        return summarise(self.lake, contract, done)

    def interrupt(self) -> None:
        """Cancel what the session runs; the batches then drop their stages."""
        self.lake.interrupt()
