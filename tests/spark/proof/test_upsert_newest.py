"""Rule: told by places alone, or by all events of a key sent to each other: the same rows, and the same counts."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from append_log import AppendLog
from seeds import seed

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.engine.access.table_state import read_state
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.merge import batch, newest

COLUMNS = Struct((Field("id", LONG), Field("part", STRING), Field("v", STRING), KAFKA_COLUMN))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PARTITIONS, KEYS = 3, 40


class Log:
    """Random events of some keys, some of which lack a part of theirs, deletes apart; a key may be in any partition."""

    def __init__(self, dice):
        self.dice, self.events, self.epoch, self.next = dice, [], 0, dict.fromkeys(range(PARTITIONS), 0)

    def more(self, count):
        rows = []
        for _ in range(count):
            partition = self.dice.randrange(PARTITIONS)
            offset, self.next[partition] = (
                self.next[partition],
                self.next[partition] + self.dice.randint(1, 3),
            )
            value = self.dice.choice([None, "x", "y"])
            key = self.dice.randrange(KEYS), self.dice.choice(["a", "b", None] if value else ["a", "b"])
            self.events.append(((self.epoch, offset, partition), key, value))
            at = NOON + timedelta(seconds=self.dice.randrange(100))
            kafka = ("t", partition, offset, at, 0, None, None, None, value is None, self.epoch)
            rows.append((*key, value, kafka))
        return rows

    def recreated(self):
        self.epoch, self.next = self.epoch + 1, dict.fromkeys(range(PARTITIONS), 0)

    def expected(self):
        newest_first = sorted((e for e in self.events if e[1][1] is not None), reverse=True)
        last = {}
        for _, key, value in newest_first:
            last.setdefault(key, value)
        return {key: value for key, value in last.items() if value is not None}


@pytest.fixture
def taken(monkeypatch):
    """Of every merge, whether it was told by places."""
    found = []

    def told(*given, **how):
        found.append(newest.told_by_place(*given, **how))
        return found[-1]

    monkeypatch.setattr(batch, "told_by_place", told)
    return found


def made(lakehouse, **upsert):
    return AppendLog(lakehouse, COLUMNS, value={"format": "json"}, upsert={"keys": ["id", "part"], **upsert})


def rows(lakehouse, log):
    found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
    held = {(row["id"], row["part"]): row["v"] for row in found}
    assert len(held) == len(found), "a key is there twice"
    return held


def merged(log):
    outcome = catch_up_merges(log.lake, log.current, "test")
    assert outcome.error is None, outcome.error["message"]
    return read_state(log.lake.catalog, log.current.contract.table).merged.changes


def test_places_tell_what_all_events_tell(lakehouse, monkeypatch, taken):
    """Given two tables of one log, a first merge, and more over what is stored, of a new epoch."""
    log = Log(random.Random(seed()))
    by_place, by_events = made(lakehouse), made(lakehouse, partition_by=["part"])
    counts = []
    for turn in range(2):
        if turn:
            log.recreated()
        fresh = log.more(300)
        for table, many in ((by_place, 1), (by_events, 10**9)):
            monkeypatch.setattr(newest, "MANY", many)
            table.commit(fresh, log.next, epoch=log.epoch)
            counts.append(merged(table))
            assert rows(lakehouse, table) == log.expected()
        assert counts[-1] == counts[-2]
    assert taken == [True, False] * 2


@pytest.mark.parametrize("before", [pytest.param(0, marks=pytest.mark.long), 100])
def test_a_record_that_lies_twice_in_the_append_table_is_one_row(lakehouse, monkeypatch, taken, before):
    """Given someone who has written all rows again, when they are merged, alone or over stored rows."""
    monkeypatch.setattr(newest, "MANY", 1)
    log, table = Log(random.Random(seed())), made(lakehouse)
    if before:
        table.commit(log.more(before), log.next)
        merged(table)
    table.commit(log.more(200), log.next)
    name = table.lake.identifier(table.contract.table)
    table.lake.spark().sql(f"INSERT INTO {name} SELECT * FROM {name}")
    merged(table)
    assert rows(lakehouse, table) == log.expected()
    assert all(taken)


@pytest.mark.parametrize(
    "upsert",
    [
        {"deletes": "soft"},
        {"order_by": ["v"]},
        pytest.param({"order_by": ["_kafka.timestamp"]}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_where_older_events_are_asked_for_places_do_not_tell(lakehouse, monkeypatch, taken, upsert):
    monkeypatch.setattr(newest, "MANY", 1)
    log, table = Log(random.Random(seed())), made(lakehouse, **upsert)
    table.commit(log.more(50), log.next)
    merged(table)
    assert taken == [False]
