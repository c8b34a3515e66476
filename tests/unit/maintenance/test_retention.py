"""Rows go by the time of their record, at midnight, and never before someone has read them."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.maintenance.retention import (
    EXPIRED_BEFORE,
    NOTED,
    TAKEN,
    Taken,
    expired_before,
    merged_filter,
    retention_cut,
    taken,
)
from tidemark.engine.access.foreign_commits import by_retention
from tidemark.engine.maintain import expire_rows
from tidemark.engine.verify.marks import OLD, RECORD, ROW, Count, mark

TIMES = st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@given(TIMES, st.integers(1, 5000).map(lambda h: timedelta(hours=h)), st.none() | TIMES)
def test_nothing_younger_than_the_retention_and_nothing_still_needed_goes(now, kept, needed):
    cut = retention_cut(now, kept, needed)
    assert cut <= now - kept
    assert needed is None or cut <= needed
    assert (cut.minute, cut.second) == (0, 0)
    assert kept < timedelta(days=2) or cut.hour == 0
    if needed is None:
        assert now - kept - cut < timedelta(days=1)


@pytest.mark.parametrize(("hours", "cut"), [(47, (10, 13)), (48, (10, 0)), (49, (10, 0))])
def test_rows_that_are_kept_for_two_days_or_more_go_at_midnight_and_others_at_the_full_hour(hours, cut):
    """Given half past twelve on the 12th, then a retention below two days ends within the hour."""
    found = retention_cut(datetime(2026, 1, 12, 12, 30, tzinfo=UTC), timedelta(hours=hours))
    assert (found.day, found.hour) == cut


def test_the_table_says_itself_what_may_be_gone():
    cut = datetime(2026, 1, 1, tzinfo=UTC)
    assert expired_before({EXPIRED_BEFORE: cut.isoformat()}) == cut
    assert expired_before({}) is None


def test_what_was_taken_is_known_as_far_as_any_delete_went():
    """Given deletes one after the other, then per partition the furthest counts, in the newest epoch alone; a merge
    ledger lacks what it lies before, and nothing of earlier epochs."""
    first = Taken(snapshot=1, epoch=0, next={0: 20, 1: 5})
    both = Taken(snapshot=2, epoch=0, next={0: 10, 2: 7}).joined(first)
    assert both == Taken(snapshot=2, epoch=0, next={0: 20, 1: 5, 2: 7})
    assert taken({TAKEN: both.model_dump_json()}) == both
    assert taken({}) is None
    later = Taken(snapshot=3, epoch=1, next={0: 1})
    assert later.joined(both) == later
    assert both.joined(later) == later.model_copy(update={"snapshot": 2})
    merged = MergeLedger(append_table="t", append_uuid="u", append_snapshot=1, next={0: 20, 1: 4})
    assert both.beyond(merged) == {1: 5, 2: 7}
    assert both.beyond(merged.model_copy(update={"epoch": 1, "next": {}})) == {}
    assert later.beyond(merged) == {0: 1}


def test_a_rollback_knows_the_cut_of_its_target(tmp_path):
    """Given two deletes, each behind its note, a batch between the second note and its delete, then at each snapshot
    the cut is that of the deletes up to it; a note that no delete has followed yet stays."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = catalog.create_table("shop.orders", rows.schema)
    first, second, third = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3))

    def batch():
        table.append(rows, {LEDGER_PROPERTY: "{}"})
        return table.metadata.current_snapshot_id

    def noted(cut):
        with table.transaction() as change:
            change.set_properties(expire_rows._note(table, expire_rows._Cut(0, cut)))

    def deleted(row):
        table.delete(f"id == {row}")
        return table.metadata.current_snapshot_id

    def cut_as_of(snapshot):
        said = {**table.metadata.properties, **expire_rows.cut_as_of(table.metadata, snapshot)}
        return expired_before(said), len(json.loads(said[NOTED]))

    at_first = batch()
    noted(first)
    without_one = deleted(1)
    at_second = batch()
    noted(second)
    assert cut_as_of(at_first) == (None, 0)
    assert cut_as_of(at_second) == (second, 2), "its delete may be on its way"
    between = batch()
    without_two = deleted(2)
    newest = batch()
    known = [cut_as_of(each) for each in (at_first, without_one, at_second, between, without_two, newest)]
    assert known == [(None, 0), (first, 1), (first, 1), (first, 1), (second, 2), (second, 2)]
    for _ in range(2):
        noted(second)
        assert cut_as_of(newest) == (second, 3), "the next delete of the same cut is noted, too, and once"
    table.manage_snapshots().rollback_to_snapshot(without_one).commit()
    noted(third)
    deleted(2)
    assert cut_as_of(without_one) == (second, 1), (
        "nobody has told of that rollback, and the cut that stood stays"
    )


def test_every_delete_of_retention_is_known_as_its_own_while_it_is_there(tmp_path):
    """Given a table without batches that retention deletes of again and again, also within one cut, when the heads of
    its notes expire, then each delete that is left is retention's."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3, 4]}), {LEDGER_PROPERTY: "{}"})
    deletes = []
    for row, day in ((1, 1), (2, 1), (3, 2), (4, 3)):
        cut = expire_rows._Cut(0, datetime(2026, 1, day, tzinfo=UTC))
        if row == 4:
            older = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in deletes]
            table.maintenance.expire_snapshots().by_ids([*older, deletes[0]]).commit()
        with table.transaction() as change:
            change.set_properties(expire_rows._note(table, cut))
        table.delete(f"id == {row}")
        deletes += [each.snapshot_id for each in table.metadata.snapshots][-1:]
    assert by_retention(table.metadata) == set(deletes[1:])


def test_an_old_record_without_a_row_is_no_gap_and_a_young_one_is():
    """Given ten records, the first five old, when rows 3 and 7 are missing, then only 7 is a gap."""
    marks = np.zeros(10, dtype=np.uint8)
    mark(marks, 0, np.arange(10), RECORD)
    mark(marks, 0, np.arange(5), OLD)
    mark(marks, 0, np.array([0, 1, 2, 4, 5, 6, 8, 9]), ROW)
    count = Count(0, 0, 10)
    count.add(marks, 0)
    assert (count.gaps, count.duplicates, count.unknown) == ([(7, 8)], [], [])
    assert (count.kafka_records, count.rows) == (9, 8)


@given(
    st.integers(0, 2),
    st.dictionaries(st.integers(0, 3), st.integers(0, 5)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6))),
)
def test_only_rows_that_were_merged_pass_the_filter(epoch, merged, rows):
    """Given rows of known and unknown partitions and of three epochs, then just those before the merged offsets pass."""
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE t (epoch int, partition int, "offset" int)')
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    passed = database.execute(f"SELECT * FROM t AS _kafka WHERE {merged_filter(epoch, merged)}").fetchall()
    database.close()
    expected = [(e, p, o) for e, p, o in rows if e < epoch or (e == epoch and o < merged.get(p, 0))]
    assert sorted(passed) == sorted(expected)


@pytest.mark.parametrize(
    ("microseconds", "oldest"),
    [
        (None, None),
        (1_767_225_600_000_000, datetime(2026, 1, 1, tzinfo=UTC)),
        (1_763_900_000_000_000_000, None),
    ],
)
def test_a_row_from_beyond_every_datetime_holds_back_no_retention(microseconds, oldest):
    answer = SimpleNamespace(collect=lambda: [{"oldest": microseconds}])
    lake = SimpleNamespace(
        spark=lambda: SimpleNamespace(sql=lambda _text: answer), identifier=lambda name: name
    )
    assert expire_rows._oldest_unmerged(lake, SimpleNamespace(table="shop.orders"), "true") == oldest


def test_rows_that_come_in_meanwhile_are_not_taken_from_those_that_are_deleted(tmp_path):
    """Given ten rows of which three are deleted, when twenty come in before that and thirty after, and one by hand, then three is what is told."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))

    def batch(*ids):
        table.append(pa.table({"id": list(range(*ids))}), snapshot_properties={LEDGER_PROPERTY: "{}"})

    batch(10)
    since = table.metadata.current_snapshot_id
    batch(10, 30)
    table.delete("id < 3")
    table.append(pa.table({"id": [100]}))
    batch(30, 60)
    assert expire_rows._rows_deleted(table, since) == 3
    assert expire_rows._rows_deleted(table, table.metadata.current_snapshot_id) == 0
