"""A table that anything may happen to, and a model that says what it must then hold.

The model is sets of offsets; what decides them is what was sent, never the product. A verb that was killed has either
happened or not: the table says which, and must be wholly that.
"""

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

from headless import change
from lakehouse import Lakehouse, Run, Table
from topics import ORDER, order
from waiting import until

from tidemark.engine.verify.reconcile import reconcile

PARTITIONS = 2
NEWER = {**ORDER, "doc": "the same fields, another schema"}
SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 4}}
_PUBLISHED, _SETTLED = ("receipted", "publishing", "published"), ("settling", "settled")
_REPLAY = ("branched", "staged", "audited", *_PUBLISHED, *_SETTLED)
REACHED = {
    "load": ("planned", "branched", "staged", "audited", "quarantined", *_PUBLISHED),
    "quarantine": _REPLAY,
    "range": _REPLAY,
    "rollback": ("branched", *_PUBLISHED, *_SETTLED),
    "maintenance": ("compaction_planned", "compacted", "expiry_planned", "expired"),
}
"""The points at which a step may be killed; the last ones only where there is something to settle, or to expire."""
Place = tuple[int, int]


@dataclass(frozen=True)
class Holds:
    """What the table must hold: rows and waiting records by (partition, offset), and the next offsets."""

    rows: frozenset[Place] = frozenset()
    waiting: frozenset[Place] = frozenset()
    next: tuple[int, ...] = (0,) * PARTITIONS


@dataclass
class Story:
    """One table, its model, and the steps that may come; every random choice is `dice`'s."""

    lakehouse: Lakehouse
    dice: random.Random
    now: Holds = field(default_factory=Holds)
    mended: bool = False
    paused: bool = False
    fates: list[list[str]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    receipts: dict[int, Holds] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topic = self.lakehouse.cluster.topic("story", PARTITIONS)
        self.known = self.topic.schema_id
        self.elsewhere = self.lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id
        self.table: Table = self.lakehouse.table(self.topic, quarantine={"fail": 1.0}, maintenance=SOON)
        self.sent = 0

    def send(self, count: int, *, only: str | None = None) -> None:
        """Good records, tombstones, poison, and strange ones, of a schema that the topic must not carry yet."""
        messages = []
        for _ in range(count):
            p = self.dice.randrange(PARTITIONS)
            fate = only or self.dice.choices(("good", "dead", "poison", "strange"), (12, 1, 1, 3))[0]
            self.topic.schema_id = self.elsewhere if fate == "strange" else self.known
            value = {"dead": None, "poison": b"poison"}.get(fate, self.topic.encode(order(self.sent)))
            messages.append((str(self.sent).encode(), value, p))
            self.fates[p].append(fate)
            self.sent += 1
        self.topic.send_raw(messages)

    def judged(self, place: Place) -> str:
        fate = self.fates[place[0]][place[1]]
        return {"poison": "waits", "strange": "row" if self.mended else "waits", "dead": "none"}.get(
            fate, "row"
        )

    def with_read(self, holds: Holds, places: frozenset[Place]) -> Holds:
        """`places` as they are decoded today, in the place of what was there."""
        rows = frozenset(each for each in places if self.judged(each) == "row")
        waits = frozenset(each for each in places if self.judged(each) == "waits")
        return replace(holds, rows=holds.rows - places | rows, waiting=holds.waiting - places | waits)

    # steps: what is done, by the engine or by a process that is killed, and what must be there afterwards

    def load(self) -> tuple[dict[str, Any] | None, Holds]:
        self.send(self.dice.randint(3, 12))
        return None, self.now if self.paused else self.everything_read()

    def everything_read(self) -> Holds:
        ends = tuple(len(each) for each in self.fates)
        fresh = frozenset((p, o) for p in range(PARTITIONS) for o in range(self.now.next[p], ends[p]))
        return replace(self.with_read(self.now, fresh), next=ends)

    def quarantine(self) -> tuple[dict[str, Any], Holds]:
        fits = frozenset(each for each in self.now.waiting if self.judged(each) == "row")
        after = replace(self.now, rows=self.now.rows | fits, waiting=self.now.waiting - fits)
        return {"verb": "replay", "quarantine": True}, after

    def range(self) -> tuple[dict[str, Any], Holds] | None:
        p = self.dice.randrange(PARTITIONS)
        if not self.now.next[p]:
            return None
        start = self.dice.randrange(self.now.next[p])
        end = self.dice.randint(start + 1, self.now.next[p])
        verb = {"verb": "replay", "partition": p, "from_offset": start, "to_offset": end}
        return verb, self.with_read(self.now, frozenset((p, o) for o in range(start, end)))

    def rollback(self) -> tuple[dict[str, Any], Holds] | None:
        targets = [each for each in self.lineage()[1:] if each in self.receipts]
        if not targets:
            return None
        target = self.dice.choice(targets)
        return {"verb": "rollback", "snapshot": target}, self.receipts[target]

    def maintenance(self) -> tuple[dict[str, Any], Holds]:
        return {"verb": "maintain"}, self.now

    def mend(self) -> None:
        """From now on the topic may carry the strange schema; nothing that could be killed."""
        if not self.mended:
            self.mended = True
            self.lakehouse.cluster.register(f"{self.topic.name}-value", NEWER)
            self.told.append("the strange schema is registered")

    def lineage(self) -> list[int]:
        """The snapshots on the way to main, newest first."""
        metadata = self.table.iceberg().metadata
        parents = {each.snapshot_id: each.parent_snapshot_id for each in metadata.snapshots}
        found, at = [], metadata.current_snapshot_id
        while at in parents:
            found.append(at)
            at = parents[at]
        return found

    def live_at_random(self) -> None:
        """One step, killed at one of the points that it may reach as often as not."""
        if self.dice.random() < 0.2:
            self.set_paused(not self.paused)
        if self.dice.random() < 0.2:
            self.mend()
        step = self.dice.choice(("load", *REACHED))
        self.live(step, self.dice.choice((None, self.dice.choice(REACHED[step]))))

    def live(self, step: str, point: str | None) -> None:
        """This step, killed at `point` if it gets there."""
        planned = getattr(self, step)()
        if planned is None:
            return
        verb, after = planned
        self.told.append(f"{step} {verb or ''}{f', to be killed at {point}' if point else ''}")
        died = self.do(verb, point)
        if died:
            self.died.append(step)
        if verb and verb["verb"] == "rollback" and (not died or self.is_paused()):
            self.paused = True  # also when it died right after that
        self.settle_on((self.now, after) if died else (after,))

    def do(self, verb: dict[str, Any] | None, point: str | None) -> bool:
        """Here, or in a process of its own that may be killed at `point`; true when it was. Maintenance is eager there."""
        eager = bool(verb and verb["verb"] == "maintain")
        if point is None and not eager:
            lake, contract = self.lakehouse.lake, self.table.contract
            outcome = change(lake, contract, "by-hand", **verb) if verb else self.table.run().as_json()
            assert not outcome.get("error"), f"{self}\n{outcome}"
            return False
        words = [self.table.name] if not verb or eager else [self.table.name, json.dumps(verb)]
        environment = {"HEADLESS": "maintain"} if eager else {}
        run = Run.start(self.lakehouse, words, pause_at=point, environment=environment)
        until(
            lambda: run.marker.exists() or run.process.poll() is not None, "the verb to end or to pause", 180
        )
        if run.marker.exists():
            run.kill()
            return True
        assert run.process.returncode == 0, f"{self}\n{run.log.read_text()[-3000:]}"
        return False

    def settle_on(self, allowed: tuple[Holds, ...]) -> None:
        """The table is wholly one of these, and the story goes on from there."""
        found = reconcile(self.lakehouse.lake, self.table.contract)
        assert found.sound, f"{self}\n{[each.as_json() for each in found.counts]}"
        waits = sum(each.quarantined for each in found.counts)
        told = (self.found_rows(), waits, self.following())
        matches = [each for each in allowed if told == (each.rows, len(each.waiting), each.next)]
        assert matches, f"{self}\n{told}\nis none of\n{allowed}"
        self.now = matches[-1]
        self.receipts[self.lineage()[0]] = self.now

    def found_rows(self) -> frozenset[Place]:
        rows = self.table.iceberg().scan(selected_fields=("_kafka",)).to_arrow()["_kafka"].to_pylist()
        places = [(row["partition"], row["offset"]) for row in rows]
        assert len(places) == len(set(places)), f"{self}\nrows are there twice"
        return frozenset(places)

    def following(self) -> tuple[int, ...]:
        said = self.table.ledger["next"]
        return tuple(said[str(p)] for p in range(PARTITIONS))

    def is_paused(self) -> bool:
        return "tidemark.paused" in self.table.iceberg().properties

    def set_paused(self, paused: bool) -> None:
        verb = "pause" if paused else "resume"
        change(self.lakehouse.lake, self.table.contract, "by-hand", verb=verb)
        self.paused = paused
        self.told.append(verb)

    def __str__(self) -> str:
        return "so far:\n  " + "\n  ".join(self.told)
