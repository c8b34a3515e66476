"""Rule: whatever comes, in whatever cuts, through deaths, replays, rollbacks and compaction, the table is the map.

Many random logs share one table, so that a few merges try hundreds of them. The append table is filled without Kafka.
"""

import os
import random
import secrets
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from append_log import AppendLog
from current_state import Event, current

import tidemark.engine.merge.merge as merging
import tidemark.engine.merge.plan as planning
import tidemark.engine.merge.stage as staging
import tidemark.engine.table.publish as publishing
from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.engine.lane.merge_catch_up import merge_up
from tidemark.engine.merge.state import own_receipts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACCOUNT = Struct((Field("id", LONG), Field("region", STRING)))
COLUMNS = Struct(
    (Field("log", LONG), Field("account", ACCOUNT), Field("v", STRING), Field("ts", LONG), KAFKA_COLUMN)
)
LOGS = 80
DEATHS = ["branched", "remembered", "merged", "staged", "audited", "receipted", "publishing", "published"]


class Died(BaseException):
    """Stands for SIGKILL: nothing is caught, nothing cleared up."""


@contextmanager
def dying_at(monkeypatch, point):
    """The process ends at `point` of the commit path, if it comes there."""

    def end(here):
        if here == point:
            raise Died

    with monkeypatch.context() as patch:
        for module in (planning, staging, publishing):
            patch.setattr(module, "pause_point", end)
        patch.setattr(merging, "drop_branch", lambda *_: None)
        yield


class Logs:
    """Random logs over two partitions and two epochs of one topic; `sent` is what the append table holds."""

    def __init__(self, dice, *, by_source):
        self.dice, self.by_source = dice, by_source
        self.epoch, self.time, self.next = 0, 0, {0: 0, 1: 0}
        self.sent, self.held, self.undone = [], [], []

    def more(self):
        """A batch of new events; a few are held back, as records that went to quarantine."""
        fresh = self.undone or self._made()
        self.undone = []
        held = [each for each in fresh if self.dice.random() < 0.05]
        self.held += held
        fresh = [each for each in fresh if each not in held]
        self.sent += fresh
        return fresh

    def undo(self, count):
        """The newest `count` events were never sent: they come again."""
        self.undone, self.sent = self.sent[-count:], self.sent[:-count]

    def _made(self):
        fresh = []
        for _ in range(LOGS * 2):
            key = self.dice.randrange(LOGS) * 4 + self.dice.randrange(4)
            partition = self.dice.randint(0, 1) if self.by_source and key % 8 == 0 else key % 2
            deleted = self.dice.random() < 0.3
            value = None if deleted else f"v{self.dice.randint(0, 99)}"
            ts = (
                self.dice.randint(0, 10**9)
                if self.by_source and not (deleted and self.dice.random() < 0.5)
                else None
            )
            self.time += 1
            fresh.append(Event(key, partition, self.next[partition], ts, value, self.epoch, self.time))
            self.next[partition] += 1
        return fresh

    def release(self):
        """What was held back in this epoch, and the ranges in which it lies."""
        found, self.held = [e for e in self.held if e.epoch == self.epoch], []
        self.sent += found
        ranges = {p: [(e.offset, e.offset + 1) for e in found if e.partition == p] for p in (0, 1)}
        return found, {p: each for p, each in ranges.items() if each}

    def new_topic(self):
        self.epoch, self.next = self.epoch + 1, {0: 0, 1: 0}

    def expected(self):
        return current(self.sent, by_source=self.by_source)


def row_of(event):
    at = NOON + timedelta(seconds=event.time)
    account = (event.key % 4, None if event.value is None else region(event.value))
    kafka = ("t", event.partition, event.offset, at, 0, None, None, None, event.value is None, event.epoch)
    return (event.key // 4, account, event.value, event.ts, kafka)


def region(value):
    """The partition of a row changes with its value."""
    return f"r{int(value[1:]) % 3}"


def held_by(lakehouse, log):
    """Key -> value as PyIceberg reads it; Spark reads the same, and each key once."""
    name = log.current.contract.table
    found = lakehouse.catalog.load_table(name).scan().to_arrow().to_pylist()
    by_spark = lakehouse.spark().sql(f"SELECT log, account.id, v FROM {name}").collect()
    rows = {(r["log"], r["account"]["id"]): r["v"] for r in found if not r.get("_is_deleted")}
    assert sorted((r["log"], r["account"]["id"], r["v"] or "") for r in found) == sorted(
        (r["log"], r["id"], r["v"] or "") for r in by_spark
    )
    assert len({(r["log"], r["account"]["id"]) for r in found}) == len(found), "a key is there twice"
    for row in found:
        assert row.get("_is_deleted") or row["account"]["region"] == region(row["v"])
    return rows


class Trial:
    """One append table with its upsert table, and the logs that go through both."""

    def __init__(self, lakehouse, monkeypatch, dice, format_version, upsert):
        self.lakehouse, self.monkeypatch, self.dice = lakehouse, monkeypatch, dice
        keys = {"keys": ["log", "account.id"], "partition_by": ["account.region"]}
        self.log = AppendLog(
            lakehouse,
            COLUMNS,
            value={"format": "json"},
            format_version=format_version,
            upsert={**keys, **upsert},
        )
        self.logs = Logs(dice, by_source=bool(upsert))
        self.name = self.log.current.contract.table

    def send(self):
        return self.log.commit(map(row_of, self.logs.more()), self.logs.next, epoch=self.logs.epoch)

    def merge(self):
        """Merge, often after a merge that died; the table is the map."""
        if self.dice.random() < 0.5:
            with dying_at(self.monkeypatch, self.dice.choice(DEATHS)), suppress(Died):
                merge_up(self.log.lake, self.log.current, "dies")
        outcome = merge_up(self.log.lake, self.log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        expected = {(key // 4, key % 4): value for key, value in self.logs.expected().items()}
        assert held_by(self.lakehouse, self.log) == expected
        return outcome

    def replay(self):
        """What was held back comes, older than much of what is merged."""
        rows, ranges = self.logs.release()
        self.log.commit(map(row_of, rows), self.logs.next, kind="replay", reloaded=ranges)
        self.merge()

    def compact(self):
        for table in (self.name, self.log.contract.table):
            options = "options => map('rewrite-all', 'true')"
            self.lakehouse.spark().sql(f"CALL lake.system.rewrite_data_files(table => '{table}', {options})")
        assert self.merge().commits == 0

    def undo_append(self):
        """A commit of the append table is merged, rolled back, and comes again with the next one."""
        ledger, head = self.log.ledger, self.lakehouse.catalog.load_table(self.log.contract.table).metadata
        many = len(self.logs.sent)
        self.send()
        self.merge()
        self.logs.undo(len(self.logs.sent) - many)
        self.log.roll_back(head.current_snapshot_id, ledger)
        self.merge()
        self.send()
        self.merge()

    def undo_upsert(self):
        back, _ = own_receipts(self.log.lake, self.name)[1]
        self.lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{self.name}', {back})")
        self.merge()


@pytest.mark.parametrize(
    ("format_version", "upsert"),
    [
        pytest.param(2, {}, marks=pytest.mark.long),
        (3, {"order_by": ["ts"]}),
        pytest.param(2, {"order_by": ["ts"], "deletes": "soft"}, marks=pytest.mark.long),
    ],
)
def test_the_table_is_the_map_after_every_merge(lakehouse, monkeypatch, format_version, upsert):
    """Given 80 random logs, when they are merged through deaths, replays, rollbacks, compaction and a new epoch,
    then after every merge the table is what replaying all of them into a map gives."""
    seed = int(os.environ.get("TIDEMARK_TEST_SEED", secrets.randbelow(2**32)))
    print(f"TIDEMARK_TEST_SEED={seed}")
    trial = Trial(lakehouse, monkeypatch, random.Random(seed), format_version, upsert)
    for disturbance in (
        trial.replay,
        trial.compact,
        trial.undo_append,
        trial.logs.new_topic,
        trial.undo_upsert,
    ):
        trial.send()
        trial.merge()
        disturbance()
