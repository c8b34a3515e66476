"""Rule: a batch is a prefix of what waits, bounded, fair, and never runs backwards."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.ledger.offsets import (
    OffsetRange,
    advance,
    cut,
    cut_before,
    total,
    waiting,
)

partitions = st.integers(0, 40)
offsets = st.dictionaries(partitions, st.integers(0, 10**12), max_size=20)
ranges = st.dictionaries(
    partitions,
    st.builds(
        lambda start, size: OffsetRange(start, start + size), st.integers(0, 10**9), st.integers(0, 10**7)
    ),
    max_size=25,
)
limits = st.integers(1, 10**7)


@pytest.mark.parametrize(("start", "end"), [(5, 4), (-1, 3), (-2, -1)])
def test_a_range_that_runs_backwards_is_refused(start, end):
    with pytest.raises(ValueError, match="no offset range"):
        OffsetRange(start, end)


def test_a_range_holds_its_start_and_not_its_end():
    each = OffsetRange(3, 6)
    assert [offset for offset in range(10) if offset in each] == [3, 4, 5]
    assert len(each) == 3
    assert "3" not in each


@given(offsets, offsets)
def test_what_waits_begins_at_the_committed_offset_and_ends_at_the_end(committed, end):
    found = waiting(committed, end)
    assert advance(committed, found) == {
        **committed,
        **{p: e for p, e in end.items() if e > committed.get(p, 0)},
    }
    assert all(each.start == committed.get(p, 0) and each.end == end[p] for p, each in found.items())


def test_a_partition_that_the_ledger_does_not_know_starts_at_zero():
    assert waiting({0: 10}, {0: 10, 1: 4}) == {1: OffsetRange(0, 4)}


def test_an_end_behind_the_ledger_is_not_a_range_to_read():
    assert waiting({0: 10}, {0: 7}) == {}


@given(ranges, limits)
def test_a_batch_is_a_bounded_prefix_of_every_partition(backlog, limit):
    batch = cut(backlog, limit)
    assert total(batch) == min(limit, total(backlog))
    for partition, each in batch.items():
        assert each.start == backlog[partition].start
        assert 0 < len(each) <= len(backlog[partition])


@given(ranges, limits)
def test_a_huge_partition_never_starves_a_small_one(backlog, limit):
    nonempty = {p for p, each in backlog.items() if len(each)}
    if limit >= len(nonempty):
        assert set(cut(backlog, limit)) == nonempty


def test_fifty_quiet_partitions_move_beside_a_flood():
    backlog = {0: OffsetRange(0, 1_000_000), **{p: OffsetRange(0, 1) for p in range(1, 51)}}
    batch = cut(backlog, 100)
    assert set(batch) == set(range(51))
    assert len(batch[0]) == 50


@given(ranges, limits)
def test_the_share_of_a_partition_follows_its_backlog(backlog, limit):
    batch = cut(backlog, limit)
    behind = sorted(backlog, key=lambda p: len(backlog[p]))
    sizes = [len(batch.get(p, ())) for p in behind]
    assert all(later >= earlier - 1 for earlier, later in itertools.pairwise(sizes))


@given(ranges, st.integers(1, 1000))
def test_cutting_again_and_again_drains_everything_once(backlog, limit):
    limit = max(limit, total(backlog) // 20 + 1)
    end = {p: each.end for p, each in backlog.items()}
    committed = {p: each.start for p, each in backlog.items()}
    read = dict.fromkeys(backlog, 0)
    while left := waiting(committed, end):
        batch = cut(left, limit)
        for partition, each in batch.items():
            assert each.start == committed[partition]
            read[partition] += len(each)
        committed = advance(committed, batch)
    assert read == {p: len(each) for p, each in backlog.items()}


@pytest.mark.parametrize("limit", [0, -1])
def test_a_batch_of_nothing_is_refused(limit):
    with pytest.raises(ValueError, match="at least one offset"):
        cut({0: OffsetRange(0, 3)}, limit)


@given(ranges, offsets)
def test_a_batch_ends_before_the_first_offender(backlog, offenders):
    kept = cut_before(backlog, offenders)
    for partition, each in backlog.items():
        offender = offenders.get(partition)
        if offender is None or offender >= each.end:
            assert kept.get(partition, OffsetRange(each.start, each.start)) == each
        elif offender <= each.start:
            assert partition not in kept
        else:
            assert kept[partition] == OffsetRange(each.start, offender)
