"""The two clocks of a table, the stream's and its own, and what lies between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.domain.cadence.freshness import Judgement, judge
from tidemark.domain.cadence.lag import Lag, Sighting, measure
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import examine, stopped_by
from tidemark.domain.times import later
from tidemark.engine.access.lake import Lake


@dataclass(frozen=True, slots=True)
class Clocks:
    """Record times in UTC of the newest record of each; `lag` and `quiet` (seconds) are by our own clock."""

    stream: datetime | None
    table: datetime | None
    watermark: datetime | None
    lag: Lag
    quiet: float | None
    staged: bool

    def judged(self, contract: Contract) -> Judgement:
        """By the contract's limits."""
        return judge(self.lag, contract.freshness, quiet=self.quiet, staged=self.staged)

    def as_metadata(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "lag_records": self.lag.records,
            "lag_seconds": round(self.lag.seconds, 1),
            **({} if self.quiet is None else {"quiet_seconds": round(self.quiet, 1)}),
            "stream_clock": self.stream.isoformat() if self.stream else "none",
            "table_clock": self.table.isoformat() if self.table else "none",
            **({"watermark": self.watermark.isoformat()} if self.watermark else {}),
        }


def two_clocks(lake: Lake, contract: Contract, sightings: Sequence[Sighting], now: datetime) -> Clocks:
    """Asked of Kafka and the catalog; `sightings` say since when offsets are known. One that nobody saw is seen now.

    Raises:
        Outage: a service does not answer.
        Stopped: the topic or the ledger is missing, or the topic is not the one that was read.
    """
    state = lake.state(contract.table)
    topic = lake.topic(contract)  # after the table: one that is read meanwhile would seem to end before it
    ledger = state.ledger
    if ledger and (finding := examine(ledger, topic)):
        raise stopped_by(contract, finding)
    lag = measure(ledger.next if ledger else topic.log_start, topic.end, sightings, now)
    newest = ledger.max_timestamp if ledger else None
    since = state.committed_at
    return Clocks(
        stream=later(lake.kafka(contract.cluster).clock(topic.name, topic.end), newest),
        table=newest,
        watermark=ledger.watermark_of(contract.event_time) if ledger else None,
        lag=lag,
        quiet=None if lag.records or since is None else max(0.0, (now - since).total_seconds()),
        staged=state.staged,
    )
