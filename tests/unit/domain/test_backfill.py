"""Rules of a backfill beside the ledger: nothing is left out between, nothing unread is touched, sources never meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import Source, parse_source, place
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange


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
