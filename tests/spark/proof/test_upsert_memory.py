"""Rule: what is remembered of hard deletes goes with the published rows, through deaths, expiry and rollbacks, for seven days."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from append_log import AppendLog
from dying import dying_at

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.domain.config.upsert import DELETED_FOR_DAYS
from tidemark.engine.access.table_state import read_state
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.merge import memory
from tidemark.engine.table.publish import publish_receipt

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = Struct((Field("id", LONG), Field("v", STRING), Field("ts", LONG), KAFKA_COLUMN))


class Remembering:
    """One Kafka partition of (id, v, ts); v None is a delete. An old snapshot is soon expired."""

    def __init__(self, lakehouse):
        self.lakehouse, self.next = lakehouse, 0
        self.log = AppendLog(
            lakehouse,
            COLUMNS,
            value={"format": "json"},
            upsert={"keys": ["id"], "order_by": ["ts"]},
            maintenance={"snapshots": {"max_age": "1s", "min_keep": 1}},
        )
        self.name, self.memory = self.log.current.contract.table, self.log.current.memory

    def send(self, *events):
        rows = []
        for key, value, ts in events:
            kafka = ("t", 0, self.next, NOON, 0, None, None, None, value is None, 0)
            rows.append((key, value, ts, kafka))
            self.next += 1
        return self.log.commit(rows, {0: self.next})

    def both(self, *events):
        self.send(*events)
        return self.merge()

    def merge(self):
        outcome = catch_up_merges(self.log.lake, self.log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        return outcome.changes

    def expire(self):
        found = list(maintain(self.log.lake, self.log.contract, ("snapshot_expiry",)))
        assert not [each for each in found if each.error], found

    @property
    def named(self):
        return read_state(self.lakehouse.catalog, self.name).merged.memory

    def remembered(self):
        """Keys as PyIceberg reads the newest snapshot."""
        found = self.lakehouse.catalog.load_table(self.memory).scan().to_arrow()["key"].to_pylist()
        return sorted(found)

    def rows(self):
        found = self.lakehouse.catalog.load_table(self.name).scan().to_arrow().to_pylist()
        return {row["id"]: row["v"] for row in found}


@pytest.mark.long  # row by row in test_merge_rows.py, with whole tables at random in test_upsert_model.py
def test_an_older_event_never_overwrites_a_newer_row(lakehouse):
    """Given a source order, when older events come in the same and in a later merge, or after a delete, then they lose."""
    made = Remembering(lakehouse)
    made.both((1, "new", 10), (1, "old", 5), (2, "b", 7), (3, "c", 7))
    assert made.rows() == {1: "new", 2: "b", 3: "c"}
    done = made.both((1, "older", 3), (2, None, None), (3, "c2", 8))
    assert (done.stale, done.deleted, done.updated) == (1, 1, 1)
    done = made.both((2, "late", 6), (1, "newest", 11))
    assert (done.stale, done.updated, done.inserted) == (1, 1, 0), "the delete is remembered"
    assert made.rows() == {1: "newest", 3: "c2"}


def test_expiry_keeps_the_memory_that_the_ledger_names(lakehouse, monkeypatch):
    """Given a delete that only a dead attempt remembers, and that was undone, when the memory is expired to its head,
    then the published deletes are still remembered, and the undone one is not."""
    made = Remembering(lakehouse)
    made.both((1, "a", 5), (2, "b", 5))
    made.both((1, None, 6))
    published, before, offset = made.named, made.log.ledger, made.next
    head = lakehouse.catalog.load_table(made.log.contract.table).metadata.current_snapshot_id
    made.send((2, None, 9), (7, None, 9))
    with dying_at(monkeypatch, "remembered"):
        catch_up_merges(made.log.lake, made.log.current, "dies")
    made.log.roll_back(head, before)
    made.next = offset
    metadata = lakehouse.catalog.load_table(made.memory).metadata
    assert metadata.current_snapshot_id != published
    now = int(time.time() * 1000)
    monkeypatch.setattr("tidemark.engine.maintain.expire._now", lambda: now + 5_000)
    made.expire()
    assert published in {
        each.snapshot_id for each in lakehouse.catalog.load_table(made.memory).metadata.snapshots
    }
    done = made.both((1, "late", 4), (2, "c", 7), (7, "d", 7), (3, None, 7))
    assert (done.stale, done.updated, done.inserted) == (1, 1, 1)
    assert made.rows() == {2: "c", 7: "d"}
    assert len(made.remembered()) == 2, "what the dead attempt remembered is gone"


def test_a_delete_is_forgotten_after_seven_days_and_not_before(lakehouse, monkeypatch):
    made = Remembering(lakehouse)
    made.both((1, "a", 5), (2, "b", 5), (3, "c", 5), (4, "d", 5))
    made.both((1, None, 6))
    real = memory._today()

    monkeypatch.setattr(memory, "_today", lambda: real + timedelta(days=DELETED_FOR_DAYS))
    done = made.both((1, "late", 4), (2, None, 6), (3, "late", 4))
    assert (done.stale, done.deleted) == (2, 1), "a deleted row's and a present one's"
    assert len(made.remembered()) == 2

    monkeypatch.setattr(memory, "_today", lambda: real + timedelta(days=DELETED_FOR_DAYS + 1))
    made.both((3, None, 6))
    assert len(made.remembered()) == 1, "the days that are out of bounds were dropped"
    made.both((1, "very late", 4))
    assert made.rows() == {1: "very late", 4: "d"}


def test_somebody_elses_table_is_not_the_memory(lakehouse):
    """Given a table that no merge has made where deletes are remembered, when one comes, then that table keeps its rows."""
    made = Remembering(lakehouse)
    made.both((1, "a", 5), (2, "b", 5))
    made.log.lake.spark().sql(f"CREATE TABLE lake.{made.memory} USING iceberg AS SELECT 'mine' AS key")
    for key in (1, 2):
        made.send((key, None, 6))
        outcome = catch_up_merges(made.log.lake, made.log.current, "test")
        assert outcome.error["state"] == "table_incompatible", outcome.error
        assert made.memory in outcome.error["message"]
    assert (made.remembered(), made.rows()) == (["mine"], {1: "a", 2: "b"})


def test_a_ledger_that_names_no_memory_goes_with_all_of_it(lakehouse):
    """Given deletes from before ledgers named their memory, when older events and further deletes come, then both stay deleted."""
    made = Remembering(lakehouse)
    made.both((1, "a", 1), (2, "a", 1), (3, "a", 1))
    made.both((1, None, 9), (2, None, 9))
    lake = made.log.lake
    state = lake.state(made.name)
    publish_receipt(lake, state, state.merged.model_copy(update={"memory": None}))
    made.both((1, "late", 5), (3, None, 9))
    assert made.rows() == {}
    made.both((2, "late", 5), (3, "late", 5), (4, "new", 1))
    assert made.rows() == {4: "new"}
