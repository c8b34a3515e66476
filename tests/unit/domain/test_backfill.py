"""Rules of a backfill beside the ledger: nothing is left out between, nothing unread is touched, sources never meet."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import Backfill, Source, corrected, parse_source, place
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.settlement import Settlement


def ledger(start, following):
    return Ledger(cluster_id="c", topic_id="t", topic="orders", start={0: start}, next={0: following})


def test_a_source_is_named_in_one_of_four_ways():
    assert parse_source("", "main") == Source()
    assert parse_source("topic:a.b", "main") == Source("topic", "a.b", "main")
    for path in ("/p/x", "/p//x/", "/p/./x", "file:///p/x/"):
        assert parse_source(f"parquet:{path}", "main") == Source("parquet", "/p/x"), path
    assert parse_source("parquet:s3://b/p/", "main") == Source("parquet", "s3://b/p")
    assert parse_source("topic:old/a", "main") == Source("topic", "a", "old")
    assert str(parse_source("table:shop.old", "main")) == "table:shop.old"
    assert parse_source("parquet:s3://b/x/*.parquet", "main").name == "s3://b/x/*.parquet"
    for wrong in ("orders", "topic:main/"):
        with pytest.raises(Refused, match="no source"):
            parse_source(wrong, "main")


def test_rows_from_elsewhere_are_of_no_epoch_of_the_topic():
    others = [Source("table", "a"), Source("table", "b"), Source("topic", "a", "main")]
    epochs = {each.epoch(3) for each in others}
    assert len(epochs) == 3
    assert all(-(2**31) <= each < 0 for each in epochs)
    assert Source().epoch(3) == 3


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 25), st.integers(0, 25))
def test_what_is_placed_leaves_no_hole_and_touches_nothing_unread(first, read, start, length):
    """Given any first load and any range, when it is placed, then the table holds one stretch of offsets afterwards."""
    following, end = first + read, start + length
    try:
        found = place(ledger(first, following), {0: OffsetRange(start, end)}, "shop.orders")
    except Refused:
        assert min(end, following) < first
        return
    offsets = {o for each in found.ranges.values() for o in range(each.start, each.end)}
    lowered = found.lowered({0: first})[0]
    assert all(o < following for o in offsets)
    assert {o for o in range(start, end) if lowered <= o < following} <= offsets
    assert set(range(lowered, first)) <= offsets
    below = {o for each in found.below.values() for o in range(each.start, each.end)}
    within = {o for each in found.within.values() for o in range(each.start, each.end)}
    assert not below & within
    assert below | within == offsets


def test_a_range_that_ends_where_the_first_load_began_is_loaded_and_one_that_ends_before_it_is_refused():
    """Given a load from 10 on, when the range misses a single offset, then that is named with a later end as
    the way out."""
    late = ledger(10, 20)
    assert place(late, {0: OffsetRange(5, 10)}, "shop.orders").below == {0: OffsetRange(5, 10)}
    with pytest.raises(Refused, match="offsets 9 to 9 would be missing") as refused:
        place(late, {0: OffsetRange(5, 9)}, "shop.orders")
    assert refused.value.fields["range"] == [9, 10]


def test_what_an_earlier_epoch_may_have_is_not_loaded_beside_it():
    """Given an epoch that goes on where a topic was cut off, when offsets before that are asked for, then that is refused."""
    second = ledger(10, 20).model_copy(update={"epoch": 1})
    assert place(second, {0: OffsetRange(10, 30)}, "shop.orders").ranges == {0: OffsetRange(10, 20)}
    with pytest.raises(Refused, match="of an earlier epoch"):
        place(second, {0: OffsetRange(9, 30)}, "shop.orders")


LOADED = Backfill(
    source="own topic",
    since=datetime(2026, 1, 1, tzinfo=UTC),
    until=datetime(2026, 2, 1, tzinfo=UTC),
    start={0: 10, 1: 5},
    end={0: 20, 1: 5},
    epoch=0,
    revision=3,
)


def receipt(kind, revision, *touched, partition=0, following=90):
    """A receipt of a batch or an act."""
    asked = Settlement(id="s", epoch=0, run_id="r", at=0, resolved={partition: list(touched)})
    said = {"kind": kind, "revision": revision}
    return ledger(0, following).model_copy(update={**said, "settlement": asked if touched else None})


BEGAN, BATCH = receipt("append", 3), receipt("append", 4)
BEFORE_THE_PARTITION = receipt("rollback", 4).model_copy(update={"next": {1: 90}})


@pytest.mark.parametrize(
    ("receipts", "so"),
    [
        ([BEGAN], False),
        ([BATCH, receipt("replay", 4, (2, 4), (19, 20)), BEGAN], True),
        ([BATCH, receipt("replay", 4, (2, 10), (20, 30)), BEGAN], False),
        ([receipt("replay", 4, (5, 6), partition=1), BEGAN], False),
        ([receipt("replay", 5, (30, 40)), receipt("replay", 4, (12, 13)), BEGAN], True),
        ([receipt("rollback", 4, following=20), BEGAN], False),
        ([receipt("rollback", 4, following=19), BEGAN], True),
        ([BEFORE_THE_PARTITION, BEGAN], True),
        ([receipt("rollback", 5), BEGAN, receipt("replay", 3, (12, 13))], False),
        ([receipt("rollback", 4), receipt("append", 2)], True),
        ([BATCH, BATCH], True),
        ([], False),
    ],
)
def test_what_was_replayed_or_rolled_back_since_the_load_is_not_taken_back(receipts, so):
    """Given receipts since a load of offsets 10 to 19, when one of them is a replay of such an offset, a rollback to before the last of them or to before a replay that the load knew, or may be, then the loaded rows are not those of today; a rollback that took such a replay back is none, and what receipts that have expired said nobody can tell."""
    assert corrected(LOADED, receipts) == so
    assert not corrected(LOADED.model_copy(update={"revision": None}), receipts)
