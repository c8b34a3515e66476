"""Rule: a ledger only moves forward, without gap or overlap, and says where every record went."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import (
    LEDGER_VERSION,
    Counts,
    Entry,
    Gap,
    Ledger,
    add_up,
    batch_id,
    branch_name,
)
from tidemark.domain.ledger.offsets import OffsetRange, cut, waiting

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
small = st.integers(0, 10**6)
fates = st.tuples(small, small, small, small)
balanced = fates.map(lambda f: Counts(sum(f), *f))


def ledger(**fields):
    return Ledger(**{"cluster_id": "c1", "topic_id": "t1", "topic": "orders", **fields})


def entry(**fields):
    plain = {"batch_id": "b", "attempt": "a", "run_id": "r", "contract": "d", "tidemark": "0.1.0"}
    return Entry(**{**plain, **fields})


@given(balanced, balanced)
def test_counts_add_up_field_by_field_and_stay_balanced(one, other):
    both = one.plus(other)
    assert both.balanced
    assert tuple(both) == tuple(a + b for a, b in zip(one, other, strict=True))
    assert add_up([one, other]) == both


def test_a_record_without_a_fate_is_out_of_balance():
    assert not Counts(read=3, written=2).balanced
    assert add_up([]) == Counts()


@given(
    st.dictionaries(st.integers(0, 9), st.integers(0, 5000), min_size=1, max_size=8),
    st.lists(st.dictionaries(st.integers(0, 9), st.integers(0, 300), max_size=8), max_size=6),
    st.integers(1, 400),
)
def test_successive_batches_leave_no_offset_out_and_none_in_twice(start, growth, limit):
    """Given a first load anywhere, when batches follow each other, their ranges tile [start, next) exactly."""
    state = ledger(kind="first", start=start, next=start)
    end = dict(start)
    read = {}
    for growing in growth:
        end = {p: end.get(p, 0) + growing.get(p, 0) for p in {*end, *growing}}
        ranges = cut(waiting(state.next, end), limit)
        counts = {p: Counts(len(each), len(each)) for p, each in ranges.items()}
        state = state.after(ranges, counts, entry())
        for partition, each in ranges.items():
            read.setdefault(partition, []).extend(range(each.start, each.end))
    for partition, offsets in read.items():
        assert offsets == list(range(state.start[partition], state.next[partition]))
        assert state.totals[partition].read == len(offsets)
    assert set(state.next) <= set(state.start)


@pytest.mark.parametrize(
    ("of", "counted_by", "then"),
    [
        ("at", "at", NOON),
        (None, "at", NOON),
        ("at", "ordered_at", NOON - timedelta(hours=1)),
        ("at", None, NOON),
    ],
)
def test_the_watermark_is_of_one_column(of, counted_by, then):
    """Given a watermark, when a batch counts by another column, then it begins anew; one that counts by none leaves it."""
    seen = entry(event_time=counted_by, watermark=NOON - timedelta(hours=1) if counted_by else None)
    after = ledger(watermark=NOON, event_time=of).after({}, {}, seen)
    assert (after.watermark, after.event_time) == (then, counted_by or of)


def test_a_batch_that_skips_offsets_is_refused():
    with pytest.raises(ValueError, match="does not follow 10"):
        ledger(next={0: 10}).after({0: OffsetRange(12, 15)}, {0: Counts(3, 3)}, entry())


def test_a_batch_that_reads_offsets_again_is_refused():
    with pytest.raises(ValueError, match="does not follow 10"):
        ledger(next={0: 10}).after({0: OffsetRange(8, 15)}, {0: Counts(7, 7)}, entry())


def test_a_batch_whose_counts_do_not_balance_is_refused():
    with pytest.raises(ValueError, match="does not balance"):
        ledger(next={0: 0}).after({0: OffsetRange(0, 3)}, {0: Counts(3, 2)}, entry())


def test_a_partition_that_appears_later_starts_at_zero():
    grown = ledger(start={0: 7}, next={0: 9}).after({1: OffsetRange(0, 2)}, {1: Counts(2, 2)}, entry())
    assert grown.start == {0: 7, 1: 0}
    assert grown.next == {0: 9, 1: 2}


def test_compacted_and_aborted_offsets_are_passed_without_being_read():
    moved = ledger(next={0: 0}).after({0: OffsetRange(0, 100)}, {0: Counts(60, 60)}, entry())
    assert moved.next == {0: 100}
    assert moved.totals[0].read == 60


def test_the_latest_record_time_never_falls_back():
    state = ledger(next={0: 0}, max_timestamp=NOON)
    late = state.after(
        {0: OffsetRange(0, 1)}, {0: Counts(1, 1)}, entry(max_timestamp=NOON - timedelta(hours=1))
    )
    unknown = late.after({0: OffsetRange(1, 2)}, {0: Counts(1, 1)}, entry())
    assert late.max_timestamp == unknown.max_timestamp == NOON


def test_records_of_no_table_add_up_over_batches():
    """Given batches of a topic with several record types, then those that no table takes are counted from the
    first load on."""
    state = ledger(next={0: 0}, unrouted=2)
    for offset, unrouted in enumerate((3, 0, 4)):
        state = state.after({0: OffsetRange(offset, offset + 1)}, {0: Counts(1, 1)}, entry(unrouted=unrouted))
    assert state.unrouted == 9


def test_accepted_gaps_and_reloaded_ranges_are_carried_on():
    state = ledger(next={0: 5}, gaps=[Gap(partition=0, start=1, end=3)], reloaded={0: [(0, 1)]})
    moved = state.after({0: OffsetRange(5, 6)}, {0: Counts(1, 1)}, entry())
    assert moved.gaps == state.gaps
    assert moved.reloaded == state.reloaded


@given(
    st.dictionaries(st.integers(0, 99), st.integers(0, 2**62), max_size=5),
    st.dictionaries(st.integers(0, 99), balanced, max_size=5),
    st.lists(st.integers(1, 10**6), max_size=4),
    st.none() | st.datetimes().map(lambda t: t.replace(tzinfo=UTC)),
)
def test_a_ledger_reads_back_as_it_was_written(next_, totals, ids, at):
    state = ledger(
        kind="rollback",
        epoch=3,
        next=next_,
        from_=next_,
        totals=totals,
        schema_ids=ids,
        max_timestamp=at,
        gaps=[Gap(partition=1, start=2, end=3, epoch=1)],
        reloaded={0: [(1, 2)]},
    )
    assert Ledger.from_json(state.to_json(), table="lake.orders") == state


@pytest.mark.parametrize("column", [None, "at"])
def test_the_column_of_the_watermark_is_only_told_where_there_is_one(column):
    """Given processes of two versions during a rollout, then the earlier one, which knows no `event_time`, reads on what the later has written of tables without one."""
    text = ledger(event_time=column).to_json()
    assert ("event_time" in text) == bool(column)
    assert Ledger.from_json(text, table="lake.orders").event_time == column


def test_a_ledger_of_a_newer_tidemark_is_refused_by_name():
    text = ledger().model_copy(update={"version": LEDGER_VERSION + 1}).to_json()
    with pytest.raises(Stopped, match="newer Tidemark") as stop:
        Ledger.from_json(text, table="lake.orders")
    assert stop.value.state == "misconfigured"


def test_a_newer_ledger_is_refused_by_name_even_when_it_holds_unknown_fields():
    with pytest.raises(Stopped) as stop:
        Ledger.from_json(f'{{"version": {LEDGER_VERSION + 1}, "shape": "new"}}', table="lake.orders")
    assert stop.value.state == "misconfigured"


@pytest.mark.parametrize(
    "text", ["", "{}", "null", '{"version": 1}', '{"version": 1, "topic": "t", "topic_id": 1}']
)
def test_a_ledger_that_cannot_be_read_is_missing_and_never_a_first_run(text):
    with pytest.raises(Stopped) as stop:
        Ledger.from_json(text, table="lake.orders")
    assert stop.value.state == "ledger_missing"


def test_the_same_batch_has_the_same_id_in_every_attempt():
    forward = batch_id("lake.orders", 0, {0: OffsetRange(0, 5), 1: OffsetRange(2, 3)})
    backward = batch_id("lake.orders", 0, {1: OffsetRange(2, 3), 0: OffsetRange(0, 5)})
    assert forward == backward
    assert branch_name(forward, "a1") == f"tidemark_{forward}_a1"


def test_another_table_epoch_or_range_is_another_batch():
    one = {0: OffsetRange(0, 5)}
    ids = {
        batch_id("lake.orders", 0, one),
        batch_id("lake.orders2", 0, one),
        batch_id("lake.orders", 1, one),
        batch_id("lake.orders", 0, {0: OffsetRange(0, 6)}),
        batch_id("lake.orders", 0, {1: OffsetRange(0, 5)}),
    }
    assert len(ids) == 5
