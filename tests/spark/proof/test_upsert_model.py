"""Rule: whatever comes, in whatever cuts, through deaths, replays, rollbacks and compaction, the table is the map.

Many random logs share one table, so that a few merges try hundreds of them. The append table is filled without Kafka.
"""

import random

import pytest
from append_log import AppendLog
from current_state import UNKNOWN, Event, current
from dying import POINTS, dying_at
from random_logs import COLUMNS, KEYS, Logs, region, row_of
from seeds import seed

from tidemark.domain.ledger.merge_plan import joined
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.merge.pair import next_step, own_receipts, read_pair
from tidemark.engine.merge.plan import LIMIT
from tidemark.engine.operate.accept_upsert import accept_either
from tidemark.engine.table.operations import Signature

pytestmark = pytest.mark.makes_code

LOGS = 80


class Trial:
    """One append table with its upsert table, and the logs that go through both."""

    def __init__(self, lakehouse, monkeypatch, dice, format_version, upsert):
        self.lakehouse, self.monkeypatch, self.dice = lakehouse, monkeypatch, dice
        keys = {"keys": ["log", "account.id"], "partition_by": ["account.region"], "on_truncate": "apply"}
        self.log = AppendLog(
            lakehouse,
            COLUMNS,
            value={"format": "avro", "envelope": "debezium"},
            format_version=format_version,
            upsert={**keys, **upsert},
        )
        order = upsert.get("order_by", [])
        self.logs = Logs(
            dice,
            LOGS,
            by_source="ts" in order,
            by_time="_kafka.timestamp" in order,
            by_pos="_cdc.pos" in order,
        )
        self.name = self.log.current.contract.table

    def send(self, **how):
        return self.log.commit(map(row_of, self.logs.more(**how)), self.logs.next, epoch=self.logs.epoch)

    def merge(self):
        """Merge, often after a merge that died; the table is the map."""
        if self.dice.random() < 0.5:
            with dying_at(self.monkeypatch, self.dice.choice(POINTS)):
                catch_up_merges(self.log.lake, self.log.current, "dies")
        outcome = catch_up_merges(self.log.lake, self.log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        assert self.rows() == self.logs.expected()
        return outcome

    def rows(self):
        """(log, id) -> value as PyIceberg reads it; Spark reads the same, and each key once."""
        found = self.lakehouse.catalog.load_table(self.name).scan().to_arrow().to_pylist()
        by_spark = self.lakehouse.spark().sql(f"SELECT log, account.id, v FROM {self.name}").collect()
        assert sorted((r["log"], r["account"]["id"], r["v"] or "") for r in found) == sorted(
            (r["log"], r["id"], r["v"] or "") for r in by_spark
        )
        assert len({(r["log"], r["account"]["id"]) for r in found}) == len(found), "a key is there twice"
        there = [row for row in found if not row.get("_is_deleted")]
        assert all(row["account"]["region"] == region(row["_kafka"]["offset"]) for row in there)
        return {(row["log"], row["account"]["id"]): row["v"] for row in there}

    def replay(self):
        """What was held back comes, older than much of what is merged, in two replays: the second is merged alone."""
        for most in (5, None):
            rows, ranges = self.logs.release(most)
            self.log.commit(
                map(row_of, rows), self.logs.next, kind="replay", epoch=self.logs.epoch, touched=ranges
            )
            step = next_step(self.log.lake, read_pair(self.log.lake, self.log.current), LIMIT)
            again = {p: joined([OffsetRange(*each) for each in several]) for p, several in ranges.items()}
            assert (step.rows.reloaded if step else {}) == again
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

    def truncate(self):
        """The source is emptied and goes on; what was held back before that stays out."""
        self.send(truncated=True)
        self.merge()

    def new_topic(self):
        self.logs.new_topic()
        self.send()

    def undo_upsert(self):
        back, _ = own_receipts(self.log.lake, self.name)[1]
        self.lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{self.name}', {back})")
        self.merge()


@pytest.mark.random
@pytest.mark.parametrize(
    ("format_version", "upsert"),
    [
        pytest.param(2, {}, marks=pytest.mark.long),
        pytest.param(3, {"order_by": ["ts"]}, marks=pytest.mark.long),
        pytest.param(2, {"order_by": ["ts", "_kafka.timestamp"]}, marks=pytest.mark.long),
        pytest.param(2, {"order_by": ["ts"], "deletes": "soft"}, marks=pytest.mark.long),
        (3, {"order_by": ["_cdc.pos"]}),
        pytest.param(2, {"order_by": ["_cdc.pos"], "deletes": "soft"}, marks=pytest.mark.long),
    ],
)
def test_the_table_is_the_map_after_every_merge(lakehouse, monkeypatch, format_version, upsert):
    """Given 80 random logs with changed keys and truncations, when they are merged through deaths, replays, rollbacks,
    compaction and a new epoch, then after every merge the table is what replaying all of them into a map gives."""
    trial = Trial(lakehouse, monkeypatch, random.Random(seed()), format_version, upsert)
    trial.send()
    trial.merge()
    trial.compact()
    trial.undo_append()
    trial.truncate()
    trial.replay()
    trial.new_topic()
    trial.merge()
    trial.undo_upsert()


@pytest.mark.random
@pytest.mark.parametrize(
    ("order", "deletes"),
    [
        pytest.param(["ts"], "hard", marks=pytest.mark.long),
        pytest.param(["ts", "_kafka.timestamp"], "soft", marks=pytest.mark.long),
        pytest.param(["ts", "_kafka.timestamp"], "hard", marks=pytest.mark.long),
        pytest.param(["ts"], "soft", marks=pytest.mark.long),
    ],
)
def test_it_makes_no_difference_how_a_log_is_cut(lakehouse, monkeypatch, order, deletes):
    """Given logs whose record times go back, whose orders tie across partitions or are missing, with deletes that bring
    none, when they are merged commit by commit, and made anew at once, then both tables are the map."""
    upsert = {"order_by": order, "deletes": deletes}
    trial = Trial(lakehouse, monkeypatch, random.Random(seed()), 2, upsert)
    for _ in range(3):
        trial.send()
        trial.merge()
    apart = trial.rows()
    lakehouse.spark().sql(f"DROP TABLE {trial.name} PURGE")
    lakehouse.spark().sql(f"DROP TABLE IF EXISTS {trial.log.current.memory} PURGE")
    accept_either(
        trial.log.lake, trial.log.current.contract, "first-load", Signature("ada", "a test", run_id="r")
    )
    trial.merge()
    assert trial.rows() == apart


@pytest.mark.parametrize("deletes", ["hard", pytest.param("soft", marks=pytest.mark.long)])
def test_a_tombstone_has_no_place_in_the_databases_log(lakehouse, deletes):
    """Given a tombstone that took a row, and a truncate that comes later and has that row, but not the tombstone, before
    it, then the tombstone is still remembered: it takes what was there before it, whenever that comes."""
    keys = {
        "keys": ["log", "account.id"],
        "order_by": ["_cdc.pos"],
        "on_truncate": "apply",
        "deletes": deletes,
    }
    value = {"format": "avro", "envelope": "debezium"}
    log, sent = AppendLog(lakehouse, COLUMNS, value=value, upsert=keys), []
    for commit in (
        [Event(0, 0, 0, 100, "old", time=1, pos=100), Event(0, 0, 1, None, None, time=50)],
        [Event(0, 1, 0, None, None, time=10, truncates=True, pos=200)],
        [Event(0, 1, 1, 250, "late", time=20, pos=250), Event(1, 1, 2, 260, "new", time=60, pos=260)],
    ):
        sent += commit
        following = {p: max((e.offset + 1 for e in sent if e.partition == p), default=0) for p in (0, 1)}
        log.commit(map(row_of, commit), following)
        outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
        there = {row["account"]["id"]: row["v"] for row in found if not row.get("_is_deleted")}
        assert there == current(sent, by_source=True, by_pos=True)


@pytest.mark.parametrize(
    ("deletes", "envelope"),
    [("hard", "debezium"), pytest.param("soft", "debezium_flat", marks=pytest.mark.long)],
)
def test_what_a_delete_says_of_the_row_before_it_is_no_order_of_its_own(lakehouse, deletes, envelope):
    """Given deletes that tell the oldest order there is (columns that Postgres did not know), or that of the newest
    event from a lower partition, when they are merged, and replayed, then they take the row; what is newer comes."""
    keys = {"keys": ["log", "account.id"], "order_by": ["ts"], "deletes": deletes}
    log, sent = AppendLog(lakehouse, COLUMNS, value={"format": "avro", "envelope": envelope}, upsert=keys), []
    took = [Event(0, 0, 1, 0, None, time=2, op="d"), Event(1, 0, 2, 7, None, time=2, op="d")]
    again = {"kind": "replay", "touched": {0: [(1, 3)]}, "without": "_cdc.op = 'd'"}
    for commit, how in (
        ([Event(0, 0, 0, 26, "a", time=1), Event(1, 2, 5, 7, "b", time=1)], {}),
        (took, {}),
        (took, again),
        ([Event(0, 0, 3, 25, "late", time=3), Event(1, 0, 4, 8, "new", time=3)], {}),
    ):
        sent += commit
        following = {p: max((e.offset + 1 for e in sent if e.partition == p), default=0) for p in range(3)}
        log.commit(map(row_of, commit), following, **how)
        outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
        there = {row["account"]["id"]: row["v"] for row in found if not row.get("_is_deleted")}
        assert there == current(sent, by_source=True)
    assert there == {1: "new"}


@pytest.mark.parametrize("deletes", ["hard", pytest.param("soft", marks=pytest.mark.long)])
def test_what_a_replay_brings_or_takes_is_told_as_if_it_had_always_been_so(lakehouse, deletes):
    """Given rows and marks with values of older events than their newest, when a replay brings or takes such an event,
    then they hold what they would hold if all had come in order."""
    keys = {"keys": ["log", "account.id"], "deletes": deletes}
    log = AppendLog(lakehouse, COLUMNS, value={"format": "avro", "envelope": "debezium"}, upsert=keys)
    told = ["first", "late", UNKNOWN], ["first", "taken", UNKNOWN], ["late", UNKNOWN], ["first", "late", None]
    sent = [
        Event(key, 0, 10 * key + n, None, value, time=10 * key + n)
        for key, values in enumerate(told)
        for n, value in enumerate(values)
    ]
    sent += [Event(4, 0, 40, None, "untouched"), Event(4, 0, 41, None, UNKNOWN)]
    late = [each for each in sent if each.value == "late"]
    log.commit([row_of(each) for each in sent if each not in late], {0: 50})

    def key(row):
        return row["log"] * KEYS + row["account"]["id"]

    def merged():
        outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        rows = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
        marked = {key(row) for row in rows if row.get("_is_deleted")}
        return {key(row): row["v"] for row in rows}, marked

    marks = {3} if deletes == "soft" else set()
    held = dict.fromkeys(marks, "first")
    assert merged() == ({0: "first", 1: "taken", 2: UNKNOWN, 4: "untouched", **held}, marks)
    ranges = [(each.offset, each.offset + 1) for each in sent if each.value in ("late", "taken")]
    log.commit(map(row_of, late), {0: 50}, kind="replay", touched={0: ranges}, without="v = 'taken'")
    held = dict.fromkeys(marks, "late")
    assert merged() == ({0: "late", 1: "first", 2: "late", 4: "untouched", **held}, marks)
