"""Rule: whatever is loaded, backfilled, replayed, rolled back, compacted, expired and paused, and wherever a process dies in between, the quarantine comes to say what the ledger says."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from quarantine_rows import SCHEMA

from tidemark.domain.config.contract import Snapshots
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import place
from tidemark.domain.ledger.ledger import LEDGER_TAG, Counts, Entry, Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import Recount, counted_before, replayed, rewound, runs_between
from tidemark.domain.ledger.settlement import Resolution, Settlement, taken_back
from tidemark.domain.maintenance import snapshot_keep
from tidemark.domain.maintenance.snapshot_keep import MAIN, Ref, Snap
from tidemark.domain.times import DAY_MS
from tidemark.engine.table.counted_quarantine import OPEN, as_settled

FIRST = 4
"""Where the first load begins; what lies before it can only be backfilled."""
BEGAN = datetime(1970, 1, 1, tzinfo=UTC)


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
    receipt: bool = True
    """A compaction is none: it carries no ledger of its own."""


@dataclass
class World:
    """One partition; a record whose offset is in `bad` cannot be decoded at the moment."""

    lineage: list[State] = field(
        default_factory=lambda: [
            State(Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: FIRST}, start={0: FIRST}))
        ]
    )
    held: list[Held] = field(default_factory=list)
    settled: str = ""
    bad: frozenset[int] = frozenset()
    clock: int = 0
    paused: bool = False

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
        if self.paused:
            return
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
        recount = Recount({0: Counts(n, quarantined=n)}, {0: Counts(n, n)}, asked.resolved)
        ledger = replayed(self.now.ledger, recount, asked, entry(asked.id))
        assert not fits & self.now.rows
        self.publish(State(ledger, self.now.rows | fits, self.now.waiting - fits), dies=dies)

    def replay_range(self, start: int, end: int, *, dies: bool) -> None:
        self.settle()
        end = min(end, self.now.ledger.next[0])
        start = max(start, self.now.ledger.start[0])
        if start >= end:
            return
        span, bad = set(range(start, end)), self.bad & set(range(start, end))
        asked = self.asked(resolved={0: [(start, end)]}, revealed=bool(bad))
        self.held += [Held(o, asked.id, asked.staged, self.clock) for o in bad]
        now = Counts(len(span), len(span - bad), len(bad))
        before = counted_before(
            now,
            self.now.ledger.totals[0],
            rows=len(self.now.rows & span),
            tombstone_rows=0,
            quarantined=len(self.open() & span),
            null_values=0,
        )
        recount = Recount({0: before}, {0: now}, asked.resolved, reread=True)
        ledger = replayed(self.now.ledger, recount, asked, entry(asked.id))
        state = State(ledger, (self.now.rows - span) | (span - bad), (self.now.waiting - span) | bad)
        self.publish(state, dies=dies)

    def backfill(self, start: int, end: int, *, dies: bool) -> None:
        """What `engine/operate/backfill/cutover.py` publishes of the own topic; the shadow has read it all."""
        self.settle()
        ledger = self.now.ledger
        try:
            placed = place(ledger, {0: OffsetRange(start, max(start, end))}, "shop.orders")
        except Refused:
            return
        if not placed.ranges:
            return
        whole, within = (
            set(range(r.start, r.end)) if r else set() for r in (placed.ranges[0], placed.within.get(0))
        )
        asked = self.asked(resolved={0: [(min(whole), max(whole) + 1)]}, revealed=bool(self.bad & whole))
        self.held += [Held(o, asked.id, asked.staged, self.clock) for o in self.bad & whole]
        inner = Counts(len(within), len(within - self.bad), len(within & self.bad))
        before = counted_before(
            inner,
            ledger.totals.get(0, Counts()),
            rows=len(self.now.rows & within),
            tombstone_rows=0,
            quarantined=len(self.open() & within),
            null_values=0,
        )
        after = Counts(len(whole), len(whole - self.bad), len(whole & self.bad))
        lowered = ledger.model_copy(update={"start": placed.lowered(ledger.start)})
        recount = Recount({0: before}, {0: after}, asked.resolved, reread=True)
        new = replayed(lowered, recount, asked, entry(asked.id))
        rows, waiting = self.now.rows - whole, self.now.waiting - whole
        self.publish(State(new, rows | (whole - self.bad), waiting | (whole & self.bad)), dies=dies)

    def compact(self) -> None:
        self.lineage.append(replace(self.now, receipt=False))

    def expire(self, keep: int) -> None:
        """What maintenance keeps of old snapshots; a chain ends where one is missing."""
        newest = max(n for n, state in enumerate(self.lineage) if state.receipt)
        snaps = [Snap(n, n - 1 if n else None, 0, state.receipt) for n, state in enumerate(self.lineage)]
        refs = [Ref(MAIN, "branch", len(snaps) - 1), Ref(LEDGER_TAG, "tag", newest)]
        limits = Snapshots(max_age=timedelta(days=1), min_keep=keep, max_count=100)
        kept = snapshot_keep.keep(snaps, refs, (), limits, now=30 * DAY_MS).kept
        while len(self.lineage) > 1 and not set(range(len(snaps) - len(self.lineage), len(snaps))) <= set(
            kept
        ):
            del self.lineage[0]

    def rollback(self, back: int, *, dies: bool) -> None:
        self.settle()
        place = max(0, len(self.lineage) - 1 - back)
        target, undone = self.lineage[place], [s for s in self.lineage[place + 1 :] if s.receipt]
        if not any(s.receipt for s in self.lineage[: place + 1]):
            return
        self.paused = True
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
        found = as_settled(batch, self.now.ledger, self.pending()).to_pylist()
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
    st.tuples(st.just("backfill"), offsets, offsets, st.booleans()),
    st.tuples(st.just("compact")),
    st.tuples(st.just("expire"), st.integers(1, 4)),
    st.tuples(st.just("pause"), st.booleans()),
)


@settings(max_examples=100)
@given(st.frozensets(offsets, min_size=3), st.lists(steps, min_size=4, max_size=16))
def test_every_record_is_in_one_place_after_every_step(bad, story):  # noqa: C901 - one case for each step
    """Given a process that dies between the two commits as often as it likes, when looked at, then table and quarantine together hold each record once."""
    world = World(bad=bad)
    for step in [("load", 6), *story, ("pause", False), ("load", 1)]:
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
            case ("backfill", start, end, dies):
                world.backfill(start, end, dies=dies)
            case ("compact",):
                world.compact()
            case ("expire", keep):
                world.expire(keep)
            case ("pause", paused):
                world.paused = paused
        state, waits = world.now, world.open()
        assert waits == state.waiting
        assert not state.rows & waits
        loaded = range(state.ledger.start[0], state.ledger.next[0])
        assert state.rows | waits == set(loaded)
        counted = state.ledger.totals.get(0, Counts())
        assert counted == Counts(len(loaded), len(state.rows), len(waits))
    world.settle()
    assert {h.offset for h in world.held if h.by is None} == world.now.waiting
