"""The two clocks of a table: the newest record of the stream, and the newest published one."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.domain.cadence.freshness import behind
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.engine.access.lake import Lake


@dataclass(frozen=True, slots=True)
class Clocks:
    """Record times in UTC; `waiting` counts the offsets between them."""

    stream: datetime | None
    table: datetime | None
    waiting: int

    @property
    def behind(self) -> float | None:
        """Seconds; None when the clocks cannot say."""
        return behind(self.stream, self.table, waiting=self.waiting)

    def as_metadata(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "lag_records": self.waiting,
            "stream_clock": self.stream.isoformat() if self.stream else "none",
            "table_clock": self.table.isoformat() if self.table else "none",
        }


def two_clocks(lake: Lake, contract: Contract) -> Clocks:
    """Asked of Kafka and the catalog alone.

    Raises:
        Outage: a service does not answer.
        Stopped: the topic or the ledger is missing.
    """
    topic, ledger = lake.topic(contract), lake.state(contract.table).ledger
    stream = lake.kafka(contract.cluster).clock(topic.name, topic.end)
    committed = ledger.next if ledger else topic.log_start
    table = ledger.max_timestamp if ledger else None
    return Clocks(stream, table, total(waiting(committed, topic.end)))
