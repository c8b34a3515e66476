"""How every table stands, from what catalog and Kafka say now. Needs neither Spark nor Dagster.

`judge` is pure; tables.py asks. A service that does not answer is a state of the tables that need it, not a failure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.domain.cadence.lag import Lag, Sighting, measure, of_this_topic
from tidemark.domain.config.contract import Contract, StartOffsets
from tidemark.domain.ledger.guard import Finding, Topic, another, examine
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.domain.states import FINE, HELD_BACK, OUTAGES, State, remedy
from tidemark.domain.times import iso, later
from tidemark.engine.access.table_state import TableState
from tidemark.engine.ingest.held import accepted_batch
from tidemark.engine.look.sightings import Memory
from tidemark.engine.table.starting_offsets import fault_of

OPEN_TOO_LONG = timedelta(minutes=1)
"""A transaction that holds the last stable offset back for longer is worth a state."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What Dagster's records add, if they can be had: nothing in them is needed for correctness.

    `stopped`: the stop state in which the table's last run ended, at `at`, with the words of its error in `why` and its
    next step in `remedy`; `loaded`: some run has loaded it; `sightings`: the lag sensor's.
    """

    stopped: State | None = None
    at: datetime | None = None
    why: str = ""
    remedy: str = ""
    loaded: bool = False
    sightings: tuple[Sighting, ...] = ()

    def remedy_of(self, state: State) -> str:
        """The step that the last run named, if this is the state in which it ended."""
        return self.remedy if state == self.stopped else ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one look found for a table. A fault is the state that asking for table or topic ended in."""

    contract: Contract
    table: TableState | None = None
    table_fault: State | None = None
    topic: Topic | None = None
    topic_fault: State | None = None
    unreachable: State | None = None
    quarantined: int | None = None
    stream_clock: datetime | None = None
    headroom: float | None = None
    memory: Memory = field(default_factory=Memory)
    hint: Hint = field(default_factory=Hint)
    begin: Mapping[int, int] | None = None
    """Where Kafka says that a first load begins: by a time, or by a consumer group."""
    begin_fault: State | None = None
    gone: State = "table_missing"
    """What it is when it is not there and was loaded before."""

    @property
    def committed(self) -> dict[int, int]:
        """How far the topic as it is now is read: to the ledger's next offsets; of another topic nothing is."""
        if self.table and self.table.ledger:
            if self.topic and another(self.table.ledger, self.topic):
                return dict(self.topic.log_start)
            return dict(self.table.ledger.next)
        start = self.contract.ingest.start
        if self.topic is None or start == "latest":
            return dict(self.topic.end) if self.topic else {}
        named = self.begin or self._named
        return {p: named.get(p, offset) for p, offset in self.topic.log_start.items()}

    @property
    def _named(self) -> Mapping[int, int]:
        """Where the contract lets a first load begin."""
        start = self.contract.ingest.start
        return start.offsets if isinstance(start, StartOffsets) else {}

    @property
    def loaded(self) -> bool:
        """Whether the table says how far it is."""
        return self.table is not None and self.table.ledger is not None

    @property
    def misnamed(self) -> bool:
        """Whether a first load cannot begin where the contract says, exactly as ingest would find."""
        return not self.loaded and self.topic is not None and fault_of(self.topic, self._named) is not None

    @property
    def stream(self) -> datetime | None:
        """The newest record time of the topic. Kafka tells none of a partition with a record dated days ahead."""
        ledger = self.table.ledger if self.table else None
        if ledger is None or self.topic is None or another(ledger, self.topic):
            return self.stream_clock
        return later(self.stream_clock, ledger.max_timestamp)

    @property
    def finding(self) -> Finding | None:
        """What the guard says, exactly as ingest would."""
        if self.table is None or self.table.ledger is None or self.topic is None:
            return None
        return examine(self.table.ledger, self.topic)


@dataclass(frozen=True, slots=True)
class Status:
    """One line of `tidemark status`."""

    table: str
    topic: str
    state: State
    lag_records: int | None
    lag_seconds: float | None
    stream_clock: datetime | None
    table_clock: datetime | None
    headroom: float | None
    last_commit: datetime | None
    snapshot_id: int | None
    next: Mapping[int, int]
    end: Mapping[int, int]
    data_files: int | None
    delete_files: int | None
    rows: int | None
    quarantined: int | None
    remedy: str
    unrouted: int | None = None
    """Records of types that no table of the topic is for; None where a topic has one table."""
    weak: bool = False
    """The broker, or the ledger, knows no topic id: a topic that was made anew is told by its offsets alone."""

    @property
    def gravity(self) -> tuple[int, float]:
        """Sorts worst first: stops, outages, lag, the rest; within these by lag."""
        rank = 0 if self.state not in FINE | OUTAGES else 1 if self.state in OUTAGES else 2
        fine = {"lagging": 0, "paused": 1, "fresh": 2}.get(self.state, 0)
        return rank + fine, -(self.lag_seconds or 0.0)

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `status --json`.

        `unrouted` is there for tables of an `events` contract alone, `identity` where the topic has no id.
        """
        several = {} if self.unrouted is None else {"unrouted": self.unrouted}
        weak = {"identity": "offsets"} if self.weak else {}
        return {
            **several,
            **weak,
            "table": self.table,
            "topic": self.topic,
            "state": self.state,
            "lag_records": self.lag_records,
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 3),
            "stream_clock": iso(self.stream_clock),
            "table_clock": iso(self.table_clock),
            "retention_headroom_seconds": None if self.headroom is None else round(self.headroom, 3),
            "last_commit": iso(self.last_commit),
            "snapshot_id": self.snapshot_id,
            "next": {str(p): o for p, o in sorted(self.next.items())},
            "end": {str(p): o for p, o in sorted(self.end.items())},
            "data_files": self.data_files,
            "delete_files": self.delete_files,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "remedy": self.remedy,
        }


def judge(facts: Facts, *, poll: timedelta, now: datetime) -> Status:
    """The status that these facts amount to; `poll` is how often the lane's sensor looks."""
    contract, table = facts.contract, facts.table
    lag = lag_of(facts, now) if facts.topic and table and not facts.begin_fault else None
    state = table_state_of(facts, lag, limit=contract.target_lag + poll, now=now)
    known = table if table and table.exists else None
    return Status(
        table=contract.table,
        topic=contract.topic,
        state=state,
        lag_records=lag.records if lag else None,
        lag_seconds=lag.seconds if lag else None,
        stream_clock=facts.stream,
        table_clock=known.ledger.max_timestamp if known and known.ledger else None,
        headroom=facts.headroom,
        last_commit=known.committed_at if known else None,
        snapshot_id=known.head if known else None,
        next=dict(known.ledger.next) if known and known.ledger else {},
        end=dict(facts.topic.end) if facts.topic else {},
        data_files=known.data_files if known else 0 if table else None,
        delete_files=known.delete_files if known else 0 if table else None,
        rows=known.live_rows if known else 0 if table else None,
        quarantined=facts.quarantined,
        unrouted=(known.ledger.unrouted if known and known.ledger else 0) if contract.event else None,
        weak=_weak(known.ledger if known else None, facts.topic),
        remedy=facts.hint.remedy_of(state)
        or remedy(state, table=contract.table, topic=contract.topic, cluster=contract.cluster),
    )


def _weak(ledger: Ledger | None, topic: Topic | None) -> bool:
    """Of what was loaded: by what is known of the topic now, if Kafka answers."""
    return ledger is not None and not (ledger.topic_id and (topic is None or topic.topic_id))


def lag_of(facts: Facts, now: datetime) -> Lag:
    """By all sightings that are known; what waits and was never seen before is seen now for the first time."""
    end = facts.topic.end if facts.topic else {}
    seen = sorted([*facts.memory.sightings(), *facts.hint.sightings], key=lambda each: each.at)
    return measure(facts.committed, end, seen, now)


def table_state_of(facts: Facts, lag: Lag | None, *, limit: timedelta, now: datetime) -> State:
    """In the order in which ingest would notice."""
    return _fault(facts) or (_of_stream(facts, lag, limit, now) if lag else "topic_missing")


def _fault(facts: Facts) -> State | None:
    """What keeps a run from even reading."""
    table = facts.table
    if facts.table_fault or table is None:
        return facts.table_fault or "catalog_down"
    if table.paused:
        return "paused"
    if facts.topic_fault or facts.topic is None:
        return facts.topic_fault or "topic_missing"
    if not facts.loaded and (table.made_of or facts.hint.loaded):
        replaced: State = "table_incompatible" if table.made_of else "ledger_missing"
        return replaced if table.exists else facts.gone
    if facts.misnamed:
        return "misconfigured"
    return facts.begin_fault or (facts.finding.state if facts.finding else None)


def _of_stream(facts: Facts, lag: Lag, limit: timedelta, now: datetime) -> State:
    """Table and topic fit each other: how far apart they are, and why."""
    if not facts.loaded and (stopped := _still_stopped(facts)):
        return stopped  # nothing waits where nothing is to be read yet, at `latest` say
    if not lag.records:
        held = facts.memory.held
        return "transaction_open" if held is not None and now - held > OPEN_TOO_LONG else "fresh"
    stopped = _still_stopped(facts) or facts.unreachable
    return stopped or ("fresh" if _young(facts, lag, limit, now) else "lagging")


def _still_stopped(facts: Facts) -> State | None:
    """The last run's stop state, unless something has been published or accepted since."""
    stopped, table = facts.hint.stopped, facts.table
    if stopped is None or stopped in FINE | OUTAGES or table is None:
        return None
    if stopped in HELD_BACK and accepted_batch(table) is not None:
        return None
    since = facts.hint.at or datetime.fromtimestamp(0, UTC)
    return None if table.committed_at and table.committed_at > since else stopped


def _young(facts: Facts, lag: Lag, limit: timedelta, now: datetime) -> bool:
    """Whether it is known, and not merely hoped, that all that is older than `limit` is published."""
    if lag.seconds > limit.total_seconds():
        return False
    until = facts.memory.published_until(facts.committed)
    end = facts.topic.end if facts.topic else {}
    watched = any(waiting(facts.committed, each.end) for each in of_this_topic(facts.hint.sightings, end))
    return watched or (until is not None and now - until <= limit)


def waiting_records(facts: Facts) -> int:
    """Offsets that Kafka holds beyond the table."""
    return total(waiting(facts.committed, facts.topic.end)) if facts.topic else 0
