"""One table while a run serves it: what waits, when it is due, what went wrong, and what came of it.

Nothing here calls a service; the clock comes in as a value.
"""

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tidemark.domain.cadence.lag import DueVerdict, Lag, Sighting, due_verdict, measure, prune
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, TidemarkError
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import Offsets, waiting
from tidemark.domain.outcome import Commit, Outcome
from tidemark.domain.times import later

PATIENCE = 3
"""Attempts that an outage costs before the run gives the table up; the sensor's backoff takes over then."""
PAUSED_LOOK = timedelta(seconds=10)
"""So often a paused table is asked whether it was resumed."""
QUIET_LOOK = timedelta(minutes=1)
"""So often one in which nothing waits is asked whether it was taken back, which no offset shows."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a table stands: committed offsets (None when it was never loaded) and whether it is paused."""

    committed: Offsets | None
    paused: bool = False


@dataclass(slots=True)
class Serving:
    """The state of one table within one run. Touched by the run's own thread alone."""

    contract: Contract
    started: datetime
    first_seen: datetime | None = None
    """When the oldest record that may wait was first seen, by whoever asked for the run; None: not known."""
    missed: float = 0
    """How many runs have gone by since one had a result for it."""
    quiet_look: timedelta = QUIET_LOOK
    """That, or longer in a run of many tables."""
    committed: Offsets | None = None
    topic: Topic | None = None
    topic_id: str | None = None
    sightings: list[Sighting] = field(default_factory=list)
    done: Outcome = field(init=False)
    """What its batches of this run came to."""
    blind: int = 0
    """How often in a row its topic could not be seen."""
    error: Exception | None = None
    """What ended its part of the run."""
    trouble: Exception | None = None
    """The outage that its last attempt met, of which it may still recover."""
    failures: int = 0
    retry_at: datetime | None = None
    paused: bool = False
    overdue: bool = False
    """It was resumed or taken back: what waits has done so for long, and a batch is due at once."""
    table_clock: datetime | None = None
    """The newest record time of its commits."""
    begun: datetime | None = None
    """When its last batch, or look at where it stands, began."""
    met: Offsets = field(default_factory=dict)
    """Where its topic ended when its last batch began."""
    loaded: bool = True
    """False once it is known that the table was never loaded."""
    working: "Future[Commit | Standing] | None" = None
    resting: bool = False
    """Its last turn was one of a table in which nothing was to be done."""
    reported_at: datetime | None = None
    reported: int = 0

    def __post_init__(self) -> None:
        self.done = Outcome(self.contract.table, "fresh")

    @property
    def over(self) -> bool:
        """Nothing more is done for this table in this run, unless it is resumed."""
        return self.error is not None or self.paused

    def saw(self, topic: Topic | None, now: datetime) -> None:
        """Kafka's answer of this moment. What waits at the first look and was not seen before counts as overdue."""
        first = self.topic is None
        self.topic, self.blind = topic, 0
        if topic is None:
            return
        self.topic_id = self.topic_id or topic.topic_id
        at = (self.first_seen or now - self.contract.target_lag) if first else now
        if not self.sightings or dict(self.sightings[-1].end) != dict(topic.end):
            self.sightings = prune([*self.sightings, Sighting(at, dict(topic.end))], self.committed or {})

    def saw_nothing(self, error: TidemarkError, now: datetime) -> None:
        """Kafka gave no answer: it is asked again with the next look, and given up after some in a row."""
        self.blind += 1
        if self.blind >= PATIENCE:
            self.failures = PATIENCE
            self.failed(error, now)

    def lag(self, now: datetime) -> Lag:
        """How far the table is behind, by this run's own clock."""
        end = self.topic.end if self.topic else {}
        return measure(self.committed or {}, end, self.sightings, now)

    def urgency(self, now: datetime) -> float:
        """How long it waits to be served, as a share of its target lag; a long backlog waits from its last batch on."""
        lag = self.lag(now).seconds
        waits = lag if self.begun is None else min(lag, (now - self.begun).total_seconds())
        return waits / self.contract.target_lag.total_seconds()

    def turn(self, now: datetime) -> tuple[bool, float, float]:
        """Sort key, greatest first: tables without a turn yet, of these those left out longest; then urgency."""
        first = self.begun is None
        return first, self.missed if first and self.first_seen is None else 0, self.urgency(now)

    def verdict(self, now: datetime) -> DueVerdict:
        """Whether the table should have its turn now."""
        if self.error or self.working:
            return DueVerdict(due=False, reason="served or over")
        if (rests := self._rests) is not None:
            asked = self.begun is not None and now - self.begun >= rests
            return DueVerdict(due=asked, reason="paused" if self.paused else "caught up")
        if self.retry_at is not None:
            return DueVerdict(due=now >= self.retry_at, reason=f"attempt {self.failures + 1}")
        if self.overdue or self.committed is None or self.topic is None:
            return DueVerdict(due=True, reason="resumed or taken back" if self.overdue else "first look")
        if self._another_topic(self.topic, self.committed):
            return DueVerdict(due=True, reason="the topic is not what it was")
        contract = self.contract
        return due_verdict(
            self.lag(now), target_lag=contract.target_lag, max_records=contract.ingest.max_records
        )

    @property
    def asks_first(self) -> bool:
        """The table says where it stands before a batch is made: what waits there may not be due."""
        return self.committed is None and self.first_seen is not None and not self.failures

    def begins(self, now: datetime) -> bool:
        """It has its turn; returns whether a batch is to be made, or else it only says where it stands."""
        self.begun, self.resting = now, self._rests is not None
        batch = not (self.resting or self.asks_first)
        if batch:
            self.overdue = False
            self.met = dict(self.topic.end) if self.topic else self.met
        return batch

    @property
    def _rests(self) -> timedelta | None:
        """How long after its turn a table has the next one in which nothing is to be done; None for any other."""
        if self.paused:
            return PAUSED_LOOK
        if self.retry_at is not None or self.overdue or self.topic is None or self.committed is None:
            return None
        if waiting(self.committed, self.topic.end) or self._another_topic(self.topic, self.committed):
            return None
        return self.quiet_look

    def _another_topic(self, topic: Topic, committed: Offsets) -> bool:
        return topic.topic_id != self.topic_id or any(
            end < committed.get(p, 0) for p, end in topic.end.items()
        )

    def idle(self, now: datetime) -> bool:
        """Nothing waits and nothing is under way but a look at where it stands."""
        if self.over:
            return True
        return (
            (not self.working or self.resting)
            and self.retry_at is None
            and self.committed is not None
            and not self.lag(now).records
        )

    def published(self, commit: Commit) -> None:
        """A batch went through."""
        self.done = self.done.plus(commit)
        self.table_clock = later(self.table_clock, commit.max_timestamp)
        self.loaded = True
        self._stands_at(commit.next)

    def stands(self, standing: Standing) -> None:
        """No batch was made: believe the table. Where none could be made of what a topic held, nothing of it waits."""
        committed = self.met if standing.committed is None else standing.committed
        resumed = self.paused and not standing.paused
        self.overdue = self.overdue or resumed or bool(waiting(committed, self.committed or {}))
        self.paused = standing.paused
        self.loaded = standing.committed is not None
        if self.topic and not self.resting:  # only a batch looks whether it may go on with another topic
            self.topic_id = self.topic.topic_id
        self._stands_at(committed)

    def failed(self, error: Exception, now: datetime) -> None:
        """An outage is tried again a few times, everything else ends the table's part of the run."""
        self.failures += 1
        if isinstance(error, Outage) and self.failures < PATIENCE:
            self.trouble, self.retry_at = error, now + timedelta(seconds=2.0**self.failures)
            return
        self.error = error

    def so_far(self, now: datetime) -> Outcome:
        """What the run did to the table until now, without asking anyone."""
        committed = dict(self.committed or {}) if self.loaded else {}
        lag = self.lag(now)
        late = lag.seconds > self.contract.target_lag.total_seconds()
        return replace(
            self.done,
            state="lagging" if late else "fresh",
            from_={**committed, **self.done.from_},
            next=committed,
            seconds=(now - self.started).total_seconds(),
            lag_records=lag.records,
            table_clock=self.table_clock,
        )

    def _stands_at(self, committed: Offsets) -> None:
        self.committed = dict(committed)
        if self.topic is not None:  # whoever committed that has looked at the topic later than this run
            seen = {p: max(end, committed.get(p, 0)) for p, end in self.topic.end.items()}
            self.topic = replace(self.topic, end=seen)
        self.sightings = prune(self.sightings, self.committed)
        self.failures, self.retry_at, self.trouble = 0, None, None
