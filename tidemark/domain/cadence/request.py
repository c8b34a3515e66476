"""What the lag sensor of a lane asks for: which tables, and why or why not. Pure: the clock is a value.

A table in trouble is asked for again when something about it changed, else after its backoff: short and
doubling for outages (they heal by themselves), long for stop states (a person or a fix resolves them), doubling
as well where the next record may be the one that fits. A run that tries again takes the other stopped tables along
whose time is half over: soon all have one clock, and many stops call a lingering run away as often as one does.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidemark.domain.cadence.lag import DueVerdict, Lag, Sighting, due_verdict, measure
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import SHOWN
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import Offsets
from tidemark.domain.states import HELD_BACK, OUTAGES, State

RUN_START = timedelta(seconds=10)
"""From the decision to the run's first commit; taken off the target lag."""
RECENT = timedelta(hours=1)
"""A table with lag this recently joins the run, so its next records find a run already lingering."""
OUTAGE_BACKOFF = (timedelta(seconds=5), timedelta(minutes=1))
"""First and longest wait; `Seen.patience` is the longest where it is longer, for a retry would end a lingering run."""
SHARED: frozenset[State] = frozenset({"catalog_down", "spark_down", "store_down"})
"""Outages of what all tables need: a run still at work shows that they are over, so no `patience` applies."""
FAILED_BACKOFF = (timedelta(seconds=10), timedelta(minutes=10))
UNFIT_BACKOFF = (timedelta(seconds=30), timedelta(minutes=10))
"""A topic that begins with bad records is `misconfigured` until one can be read: soon, if the contract fits."""
HELD_BACKOFF = (timedelta(minutes=10), timedelta(minutes=30))
"""Each try stages the same batch again, for nothing unless better records have come."""
STOP_BACKOFF = (timedelta(minutes=10), timedelta(minutes=10))


@dataclass(frozen=True, slots=True)
class Trouble:
    """A table's last runs failed.

    In which state, how often in a row, when the last of them ended, and how the table looked then.
    """

    state: State
    failures: int
    failed_at: datetime
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A table and its topic as a tick sees them.

    `committed` None: not known yet, or never loaded (`exists` false). `fault`: the state that reading the table or its
    topic ended in, or `lagging` for a correction, which offsets do not show. `topic_id`: the beginning of the
    ledger's. `tried`: when the last run that had the table ended. `active`: when records last waited. `patience`: the
    longest backoff of any trouble but a shared outage is at least this.
    """

    contract: Contract
    topic: Topic | None
    committed: Offsets | None
    exists: bool = True
    paused: bool = False
    fault: State | None = None
    topic_id: str | None = None
    sightings: Sequence[Sighting] = ()
    mark: str = ""
    trouble: Trouble | None = None
    tried: datetime | None = None
    active: datetime | None = None
    patience: timedelta = OUTAGE_BACKOFF[1]

    @property
    def table(self) -> str:
        """`namespace.name`."""
        return self.contract.table

    def lag(self, now: datetime) -> Lag:
        """By the sightings of earlier ticks. For a first load waits what the topic still holds."""
        end = self.topic.end if self.topic else {}
        start = self.topic.log_start if self.topic and not self.exists else {}
        return measure(self.committed or start, end, self.sightings, now)


@dataclass(frozen=True, slots=True)
class Runs:
    """Tables that runs of the lane work on: `kept` until the run ends by itself, `lingering` until one is asked for.

    `starting`: a run that the sensor asked for and that has not begun. `waits_for`: the run that holds it up, which
    the sensor did not ask for. `behind`: tables that none has in hand yet, with the run in the queue that is for them.
    """

    kept: Collection[str] = ()
    lingering: Collection[str] = ()
    starting: str | None = None
    waits_for: str | None = None
    behind: Mapping[str, str] = field(default_factory=dict)
    leaving: bool = False
    """One that lingered is about to end: its tables may be asked for."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The decision of one tick: the tables to run (none: skip), those of them that are due, and the reason."""

    tables: tuple[str, ...]
    due: tuple[str, ...]
    reason: str
    lags: Mapping[str, Lag] = field(default_factory=dict)


def mark_of(contract: str, topic_id: str | None, state: str) -> str:
    """What must change for a stop state to be tried again, as a short digest.

    `contract`: its digest; `state`: the table's own mark, or the state that reading it ended in.
    """
    return hashlib.sha256(f"{contract}|{topic_id}|{state}".encode()).hexdigest()[:8]


def backoff(trouble: Trouble, patience: timedelta = OUTAGE_BACKOFF[1]) -> timedelta:
    """How long after the last failure a table is tried again without any change; `patience`: see `Seen`."""
    first, longest = STOP_BACKOFF
    if trouble.state in OUTAGES:
        first, longest = OUTAGE_BACKOFF
    elif trouble.state == "failed":
        first, longest = FAILED_BACKOFF
    elif trouble.state == "misconfigured":
        first, longest = UNFIT_BACKOFF
    elif trouble.state in HELD_BACK:
        first, longest = HELD_BACKOFF
    if trouble.state not in SHARED:
        longest = max(longest, patience)
    for _ in range(1, trouble.failures):
        if first >= longest:
            break
        first *= 2
    return min(first, longest)


def why_not_asked(seen: Seen, now: datetime) -> str | None:
    """Why a table is not asked for, however much waits; None when it may be."""
    if seen.paused:
        return "paused"
    if seen.fault in OUTAGES:
        return f"{seen.fault}, looked at again in a moment"
    trouble = seen.trouble
    if trouble is None or (trouble.mark and trouble.mark != seen.mark):
        return None
    left = trouble.failed_at + backoff(trouble, seen.patience) - now
    if left <= timedelta(0):
        return None
    return f"{trouble.state}, tried again in {left.total_seconds():.0f} s or when something changes"


def verdict(seen: Seen, now: datetime) -> DueVerdict:
    """Whether a table needs a run now: the first rule that has an opinion decides."""
    for rule in (_troubled, _never_loaded, _another_topic):
        found = rule(seen, now)
        if found:
            return found
    contract = seen.contract
    return due_verdict(
        seen.lag(now),
        target_lag=contract.target_lag,
        max_records=contract.ingest.max_records,
        head_start=RUN_START,
    )


def _troubled(seen: Seen, now: datetime) -> DueVerdict | None:
    if why := why_not_asked(seen, now):
        return DueVerdict(due=False, reason=why)
    if seen.trouble is not None:
        return DueVerdict(due=True, reason=f"{seen.trouble.state} is tried again")
    if seen.fault is not None:
        return DueVerdict(due=True, reason=seen.fault)
    return None


def _never_loaded(seen: Seen, now: datetime) -> DueVerdict | None:
    if not seen.exists:
        fresh = seen.tried is None or now - seen.tried >= STOP_BACKOFF[0]
        waits = seen.lag(now).records > 0 and (seen.tried is None or now - seen.tried >= seen.patience)
        return DueVerdict(
            due=fresh or waits, reason="first load" if fresh or waits else "nothing could be loaded yet"
        )
    if seen.committed is None:
        return DueVerdict(due=False, reason="not read yet")
    return None


def _another_topic(seen: Seen, _now: datetime) -> DueVerdict | None:
    why = why_another_topic(seen.topic, seen.topic_id, seen.committed or {})
    return DueVerdict(due=True, reason=why) if why else None


def why_another_topic(topic: Topic | None, topic_id: str | None, committed: Offsets) -> str | None:
    """Why the topic is not the one that was read; `topic_id`: the beginning of that one's. None while it may be."""
    if topic is None:
        return "the topic is missing"
    if topic_id and topic.topic_id and not topic.topic_id.startswith(topic_id):
        return "the topic was made anew"
    if any(topic.end.get(p, 0) < offset for p, offset in committed.items()):
        return "the topic ends before the ledger"
    return None


def ask(tables: Iterable[Seen], runs: Runs, now: datetime) -> Ask:
    """What to request: the due tables that no run works on, and with them those that records may soon reach.

    A run that tries tables in trouble again is theirs alone. Where it tries a stopped one, others that have stopped are
    due with it once they have waited half their time.
    """
    everything = list(tables)
    verdicts = {seen.table: verdict(seen, now) for seen in everything}
    lags = {seen.table: seen.lag(now) for seen in everything}
    if runs.starting:
        held = f"waits for run {runs.waits_for}, which ends when it has caught up"
        why = held if runs.waits_for else "is about to start"
        return Ask((), (), f"run {runs.starting} {why}", lags)
    free = [each for each in everything if each.table not in runs.kept and each.table not in runs.lingering]
    due = [each.table for each in free if verdicts[each.table].due]
    if not due:
        return Ask((), (), _why_not(everything, verdicts, runs, now), lags)
    troubled = {seen.table for seen in everything if seen.trouble or seen.fault}
    along = {seen.table for seen in everything if seen.table not in runs.kept and _soon(seen, now)}
    if troubled.issuperset(due):
        along = set()  # their run ends as soon as they stop again: nobody else is drawn into it
    reasons = first_reasons(due, lambda table: f"{table}: {verdicts[table].reason}")
    if any(_stopped(each) and verdicts[each.table].due for each in free):
        due += [each.table for each in free if not verdicts[each.table].due and _half_waited(each, now)]
    return Ask(tuple(sorted({*due, *along})), tuple(due), "; ".join(reasons), lags)


def _stopped(seen: Seen) -> bool:
    return seen.trouble is not None and seen.trouble.state not in OUTAGES


def _half_waited(seen: Seen, now: datetime) -> bool:
    trouble = seen.trouble
    if trouble is None or not _stopped(seen) or seen.paused or seen.fault in OUTAGES:
        return False
    return now - trouble.failed_at >= backoff(trouble, seen.patience) / 2


def _soon(seen: Seen, now: datetime) -> bool:
    if why_not_asked(seen, now) or not seen.exists or seen.topic is None:
        return False
    return bool(seen.lag(now).records) or (seen.active is not None and now - seen.active < RECENT)


def _why_not(tables: Sequence[Seen], verdicts: Mapping[str, DueVerdict], runs: Runs, now: datetime) -> str:
    taken = [seen.table for seen in tables if seen.table in runs.kept or seen.table in runs.lingering]
    behind = Counter(runs.behind[table] for table in taken if table in runs.behind)
    served = len(taken) - behind.total()
    rest = [seen for seen in tables if seen.table not in taken]
    held = [seen.table for seen in rest if why_not_asked(seen, now)]
    level = [seen.table for seen in rest if verdicts[seen.table].reason == "caught up"]
    waiting = [seen.table for seen in rest if seen.table not in held and seen.table not in level]
    parts = first_reasons([*waiting, *held], lambda table: f"{table}: {verdicts[table].reason}")
    parts += [f"{served} served by a run"] if served else []
    parts += [f"{count} behind run {run}, which waits in the queue" for run, count in behind.items()]
    parts += [f"{len(level)} of {len(tables)} caught up"] if level or not parts else []
    return "; ".join(parts)


def first_reasons(tables: Sequence[str], say: Callable[[str], str]) -> list[str]:
    """What is said of the first ones, and how many more there are."""
    more = len(tables) - SHOWN
    return [say(table) for table in tables[:SHOWN]] + ([f"and {more} more"] if more > 0 else [])
