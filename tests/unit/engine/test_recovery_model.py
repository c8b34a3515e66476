"""Rule: whatever is loaded, replayed and rolled back, and wherever a process dies in between, the quarantine comes to say what the ledger says."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.domain.ledger.ledger import Counts, Entry, Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import counted_before, replayed, rewound, runs_between
from tidemark.domain.ledger.settlement import Resolution, Settlement, taken_back
from tidemark.engine.table.standing import OPEN, standing

BEGAN = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("epoch", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("batch_id", pa.string()),
        ("resolved_by", pa.string()),
        ("resolved_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Held:
    """A quarantine row. The run id is the same everywhere: marks must be told apart by their moment."""

    offset: int
    batch: str
    by: str | None = None
    at: int | None = None


@dataclass(frozen=True)
class State:
    """A snapshot of the table: its rows and its ledger."""

    ledger: Ledger
    rows: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()
    """The model: what should wait in the quarantine."""


@dataclass
class World:
    """One partition; a record whose offset is in `bad` cannot be decoded at the moment."""

    lineage: list[State] = field(
        default_factory=lambda: [
            State(Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 0}, start={0: 0}))
        ]
    )
    held: list[Held] = field(default_factory=list)
    settled: str = ""
    bad: frozenset[int] = frozenset()
    clock: int = 0

    @property
    def now(self) -> State:
        return self.lineage[-1]

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def pending(self) -> Settlement | None:
        asked = self.now.ledger.settlement
        return asked if asked and asked.id != self.settled else None

    def settle(self) -> None:
        """What `engine/table/settle.py` does in SQL."""
        asked = self.pending()
        if asked is None:
            return
        held = [h for h in self.held if h.batch not in asked.dropped]
        undone = set(asked.undone)
        held = [
            replace(h, by=None, at=None) if h.by and Resolution(h.by, h.at or 0) in undone else h
            for h in held
        ]
        if asked.rewound is not None:
            held = [h for h in held if h.offset < asked.rewound[0]]
        runs = asked.resolved.get(0, [])
        held = [
            replace(h, by=asked.run_id, at=asked.at)
            if h.by is None and h.batch != asked.id and any(a <= h.offset < b for a, b in runs)
            else h
            for h in held
        ]
        if asked.revealed:
            held = [replace(h, by=None, at=None) if h.by == asked.staged else h for h in held]
        self.held, self.settled = held, asked.id

    def load(self, size: int) -> None:
        self.settle()
        start = self.now.ledger.next[0]
        read, bad = range(start, start + size), self.bad & set(range(start, start + size))
        self.held = [h for h in self.held if h.by or h.offset not in read]
        self.held += [Held(o, f"b{self.tick()}") for o in bad]
        counts = {0: Counts(size, size - len(bad), len(bad))}
        ledger = self.now.ledger.after({0: OffsetRange(start, start + size)}, counts, entry("b"))
        self.lineage.append(State(ledger, self.now.rows | (set(read) - bad), self.now.waiting | bad))

    def replay_quarantine(self, *, dies: bool) -> None:
        self.settle()
        open_ = self.open()
        fits = open_ - self.bad
        if not fits:
            return
        asked = self.asked(resolved={0: runs_between(fits, open_ - fits)})
        n = len(fits)
        ledger = replayed(
            self.now.ledger,
            {0: Counts(n, quarantined=n)},
            {0: Counts(n, n)},
            asked.resolved,
            asked,
            entry(asked.id),
        )
        assert not fits & self.now.rows
        self.publish(State(ledger, self.now.rows | fits, self.now.waiting - fits), dies=dies)

    def replay_range(self, start: int, end: int, *, dies: bool) -> None:
        self.settle()
        end = min(end, self.now.ledger.next[0])
        if start >= end:
            return
        span, bad = set(range(start, end)), self.bad & set(range(start, end))
        asked = self.asked(resolved={0: [(start, end)]}, revealed=bool(bad))
        self.held += [Held(o, asked.id, asked.staged, self.clock) for o in bad]
        now = Counts(len(span), len(span - bad), len(bad))
        before = counted_before(
            now,
            rows=len(self.now.rows & span),
            tombstone_rows=0,
            quarantined=len(self.open() & span),
            null_values=0,
        )
        ledger = replayed(
            self.now.ledger, {0: before}, {0: now}, asked.resolved, asked, entry(asked.id), reread=True
        )
        state = State(ledger, (self.now.rows - span) | (span - bad), (self.now.waiting - span) | bad)
        self.publish(state, dies=dies)

    def rollback(self, back: int, *, dies: bool) -> None:
        self.settle()
        place = max(0, len(self.lineage) - 1 - back)
        target, undone = self.lineage[place], self.lineage[place + 1 :]
        dropped, marks = taken_back(s.ledger.settlement for s in undone if s.ledger.settlement)
        asked = self.asked(dropped=dropped, undone=marks, rewound=dict(target.ledger.next))
        ledger = rewound(target.ledger, self.now.ledger, asked, entry(asked.id))
        self.lineage = self.lineage[: place + 1]
        self.publish(State(ledger, target.rows, target.waiting), dies=dies)

    def asked(self, **what) -> Settlement:
        at = self.tick()
        return Settlement(id=f"s{at}", epoch=0, run_id="run", at=at, **what)

    def publish(self, state: State, *, dies: bool) -> None:
        self.lineage.append(state)
        if not dies:
            self.settle()

    def open(self) -> frozenset[int]:
        """The quarantine as `status` and `reconcile` read it."""
        rows = [
            (0, 0, h.offset, h.batch, h.by, None if h.at is None else BEGAN + timedelta(microseconds=h.at))
            for h in self.held
        ]
        batch = pa.RecordBatch.from_pylist(
            [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
        )
        found = standing(batch, self.now.ledger, self.pending()).to_pylist()
        waits = [r["offset"] for r in found if r[OPEN]]
        assert len(waits) == len(set(waits)), "twice in the quarantine"
        return frozenset(waits)


def entry(batch: str) -> Entry:
    return Entry(batch, "a", "run", "digest", "0.1.0")


offsets = st.integers(0, 11)
steps = st.one_of(
    st.tuples(st.just("load"), st.integers(1, 4)),
    st.tuples(st.just("mend"), st.frozensets(offsets)),
    st.tuples(st.just("quarantine"), st.booleans()),
    st.tuples(st.just("range"), offsets, offsets, st.booleans()),
    st.tuples(st.just("rollback"), st.integers(0, 4), st.booleans()),
)


@settings(max_examples=100, deadline=None)
@given(st.frozensets(offsets, min_size=3), st.lists(steps, min_size=4, max_size=16))
def test_every_record_is_in_one_place_after_every_step(bad, story):
    """Given a process that dies between the two commits as often as it likes, when looked at, then table and quarantine together hold each record once."""
    world = World(bad=bad)
    for step in [("load", 6), *story, ("load", 1)]:
        match step:
            case ("load", size):
                world.load(size)
            case ("mend", decodable):
                world.bad = decodable
            case ("quarantine", dies):
                world.replay_quarantine(dies=dies)
            case ("range", start, end, dies):
                world.replay_range(start, end, dies=dies)
            case ("rollback", back, dies):
                world.rollback(back, dies=dies)
        state, waits = world.now, world.open()
        assert waits == state.waiting
        assert not state.rows & waits
        assert state.rows | waits == set(range(state.ledger.next[0]))
        counted = state.ledger.totals.get(0, Counts())
        assert counted == Counts(state.ledger.next[0], len(state.rows), len(waits))
    world.settle()
    assert {h.offset for h in world.held if h.by is None} == world.now.waiting
