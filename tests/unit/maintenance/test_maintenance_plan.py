"""Rules of compaction: nothing below the thresholds, cold before hot, never more than the contract allows."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.config.contract import Compaction
from tidemark.domain.maintenance.compaction import (
    COMMITS,
    Layout,
    Partition,
    is_hot,
    plan_compaction,
    scattered,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KB, MB = 1024, 1024**2
LIMITS = Compaction(target_file_size=256 * MB, min_input_files=8, max_bytes=10 * 1024 * MB)


def partition(name="day=1", sizes=(), **facts):
    return Partition(
        name, f"day = '{name}'", tuple(sizes), **{"written_at": NOW - timedelta(days=2), **facts}
    )


sizes = st.lists(st.integers(1, 600 * MB), max_size=60)
partitions = st.builds(
    partition,
    st.text("abc", min_size=1, max_size=6),
    sizes,
    rows=st.integers(0, 1000),
    deleted_rows=st.integers(0, 1000),
    delete_files=st.integers(0, 5),
    written_at=st.none() | st.integers(0, 48).map(lambda hours: NOW - timedelta(hours=hours)),
)  # fmt: skip


@given(st.lists(partitions, max_size=12, unique_by=lambda p: p.name), st.integers(1, 8 * 1024))
def test_a_run_is_bounded_and_begins_with_what_is_cold(found, megabytes):
    limits = Compaction(target_file_size=256 * MB, min_input_files=8, max_bytes=megabytes * MB)
    plan = plan_compaction(Layout(tuple(found)), limits, NOW)
    assert sum(each.bytes for each in plan.rewrites) <= limits.max_bytes
    assert len(plan.rewrites) <= COMMITS
    heat = [each.hot for each in plan.rewrites]
    assert heat == sorted(heat)
    assert plan.reasons
    by_name = {each.name: each for each in found}
    for rewrite in plan.rewrites:
        assert rewrite.files >= 1
        for name in rewrite.partitions:
            assert is_hot(by_name[name], NOW) is rewrite.hot


@given(st.lists(partitions, max_size=8, unique_by=lambda p: p.name))
def test_what_is_left_out_is_said(found):
    plan = plan_compaction(Layout(tuple(found)), Compaction(max_bytes=1024 * 1024), NOW)
    everything = plan_compaction(Layout(tuple(found)), Compaction(max_bytes=10**15), NOW)
    wanted = sum(each.bytes for each in everything.rewrites) + everything.left
    assert sum(each.bytes for each in plan.rewrites) + plan.left == wanted


def test_below_the_thresholds_nothing_is_done_and_it_says_why():
    plan = plan_compaction(Layout((partition(sizes=[MB] * 7 + [250 * MB]),), manifests=9), LIMITS, NOW)
    assert not plan
    (why,) = plan.reasons
    assert why.startswith(
        "8 files in 1 partition, 0 of them hot; at most 7 small files in one (min_input_files 8"
    )


def test_a_partition_that_is_being_written_waits_longer_and_is_merged_in_tiers():
    """Given a growing partition with one large and many tiny files, when planned, then only the tiny are merged."""
    hot = partition(sizes=[100 * MB, *[MB] * 40], written_at=NOW - timedelta(seconds=30))
    (rewrite,) = plan_compaction(Layout((hot,)), LIMITS, NOW).rewrites
    assert (rewrite.files, rewrite.bytes, rewrite.below) == (40, 40 * MB, 4 * MB)
    assert not plan_compaction(Layout((partition(sizes=[MB] * 31, written_at=NOW),)), LIMITS, NOW)


def test_a_partition_with_many_deleted_rows_is_rewritten_however_few_its_files():
    (rewrite,) = plan_compaction(
        Layout((partition(sizes=[200 * MB], rows=100, deleted_rows=11, delete_files=1, scoped=False),)), LIMITS, NOW
    ).rewrites  # fmt: skip
    assert (rewrite.files, rewrite.unscoped_deletes) == (1, True)
    assert not plan_compaction(Layout((partition(sizes=[200 * MB], rows=100, deleted_rows=10),)), LIMITS, NOW)


def test_a_partition_larger_than_a_run_is_begun_with_as_many_files_as_surely_fit():
    limits = Compaction(target_file_size=256 * MB, min_input_files=8, max_bytes=100 * MB)
    plan = plan_compaction(Layout((partition(sizes=[20 * MB, *[9 * MB] * 30]),)), limits, NOW)
    (rewrite,) = plan.rewrites
    assert rewrite.max_files == rewrite.files == 11
    assert rewrite.bytes <= 100 * MB
    assert rewrite.below == 9 * MB + 1, "the large one, merged before, is left alone"
    assert plan.left > 0


def test_a_partition_heavy_with_deletes_is_begun_with_as_many_as_fit_even_of_the_largest():
    """Given deletes as the need, where files of any size may be taken, then the largest are counted among
    them."""
    limits = Compaction(target_file_size=256 * MB, min_input_files=8, max_bytes=100 * MB)
    heavy = partition(sizes=[9 * MB] * 15 + [20 * MB] + [9 * MB] * 15, rows=100, deleted_rows=11)
    (rewrite,) = plan_compaction(Layout((heavy,)), limits, NOW).rewrites
    assert (rewrite.files, rewrite.bytes, rewrite.below) == (9, 92 * MB, 192 * MB)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=80), st.integers(20, 300))
def test_run_after_run_a_partition_ends_with_fewer_small_files_than_are_worth_it(sizes, room):
    """Given a run that may rewrite little, when it is repeated, then each rewrites no more, and it ends."""
    limits = Compaction(target_file_size=1000, min_input_files=4, max_bytes=room)
    now = sorted(sizes)
    for _ in range(200):
        plan = plan_compaction(Layout((partition(sizes=now),)), limits, NOW)
        if not plan:
            break
        (rewrite,) = plan.rewrites
        candidates = [size for size in now if size < rewrite.below]
        taken = sorted(candidates, reverse=True)[: rewrite.max_files or len(candidates)]
        assert sum(taken) <= room
        for each in taken:
            now.remove(each)
        now = sorted([*now, sum(taken)])
    else:
        raise AssertionError("it goes on for ever")
    assert sum(now) == sum(sizes)
    for bound in now:
        largest_first = [size for size in reversed(now) if size <= bound]
        fitting = [total for total in accumulate(largest_first) if total <= room]
        assert len(fitting) < limits.min_input_files, "what surely fits in one run is merged"


@given(st.lists(st.integers(1, 60), min_size=4, max_size=60), st.integers(1, 300), st.booleans())
def test_begun_is_where_most_files_surely_fit_counted_anew_for_each_size(sizes, room, heavy):
    """Given a partition larger than a run, then files up to the smallest size are taken of whose largest most fit; of all, where deletes are the need."""
    limits = Compaction(target_file_size=1000, min_input_files=4, max_bytes=room)
    plan = plan_compaction(Layout((partition(sizes=sizes, rows=100, deleted_rows=50 * heavy),)), limits, NOW)
    if sum(sizes) <= room:
        wanted = [(len(sizes), sum(sizes), 750, None)]
    else:
        fits = {}
        for bound in [max(sizes)] if heavy else sorted(set(sizes)):
            largest_first = sorted((size for size in sizes if size <= bound), reverse=True)
            fits[bound] = [total for total in accumulate(largest_first) if total <= room]
        bound, totals = max(fits.items(), key=lambda each: len(each[1]))
        below = 750 if heavy else bound + 1
        wanted = [(len(totals), totals[-1], below, len(totals))] if len(totals) >= 4 else []
    assert [(each.files, each.bytes, each.below, each.max_files) for each in plan.rewrites] == wanted
    assert plan.left == sum(sizes) - sum(each[1] for each in wanted)


def test_alike_partitions_share_a_commit():
    many = [partition(f"day={n}", [KB] * 10) for n in range(250)]
    plan = plan_compaction(Layout(tuple(many)), LIMITS, NOW)
    assert [len(each.partitions) for each in plan.rewrites] == [100, 100, 50]
    assert plan.rewrites[0].where.count(" OR ") == 99


def test_partitions_that_together_are_a_quarter_of_a_run_share_a_commit_and_no_more():
    """Given five of an eighth each, then two and two and one."""
    many = [partition(f"day={n}", [128 * MB] * 10) for n in range(5)]
    plan = plan_compaction(Layout(tuple(many)), LIMITS, NOW)
    assert [len(each.partitions) for each in plan.rewrites] == [2, 2, 1]


def test_a_partition_that_cannot_be_said_lets_the_rewrite_see_the_whole_table():
    odd = Partition("x", None, (KB,) * 10)
    (rewrite,) = plan_compaction(Layout((odd, partition(sizes=[KB] * 10))), LIMITS, NOW).rewrites
    assert rewrite.where is None


@pytest.mark.parametrize(
    ("sizes", "specs"),
    [
        ({(0, 0): [8 * KB] * 40}, (0,)),
        ({(0, 0): [7 * MB] * 40}, ()),
        ({(0, 0): [8 * KB] * 31}, ()),
        ({(2, 0): [8 * KB] * 20, (0, 1): [8 * KB] * 20, (1, 0): [8 * KB]}, (0, 2)),
        ({(3, 0): [8 * KB] * 40, (1, 0): [4 * MB] * 2}, (3,)),
        ({(n, kind): [8 * KB] for n in range(20) for kind in (0, 1)}, ()),
    ],
)
def test_manifests_are_rewritten_by_spec_where_they_are_many_and_tiny(sizes, specs):
    """Given manifests of (spec, content), when there are many in all, then those specs are rewritten that have several tiny ones of a kind."""
    each = [size for found in sizes.values() for size in found]
    layout = Layout(manifests=len(each), manifest_bytes=sum(each), scattered=scattered(sizes))
    plan = plan_compaction(layout, LIMITS, NOW)
    assert (plan.manifests, plan.as_json()["manifests"], bool(plan)) == (specs, bool(specs), bool(specs))


def test_read_amplification_is_files_opened_over_files_needed():
    assert Layout((partition(sizes=[MB] * 64),)).read_amplification(256 * MB) == 64
    assert Layout((partition(sizes=[256 * MB], delete_files=1),)).read_amplification(256 * MB) == 2
    assert Layout().read_amplification(256 * MB) == 1


def test_deletes_whose_files_are_gone_are_cleared_once_counts_are_far_off_or_they_are_many():
    """Given delete files that nobody reads any more, then the rows left are told wrongly by so many: to a tenth that can wait."""
    live = partition(sizes=[250 * MB], rows=100, deleted_rows=1, delete_files=300)
    for dangling, cleared in (((10,), False), ((6, 5), True), ((0,) * 300, False), ((0,) * 301, True)):
        plan = plan_compaction(Layout((live,), dangling=dangling), LIMITS, NOW)
        assert (plan.dangling, bool(plan), plan.rewrites) == (cleared, cleared, ())
        told = f"{len(dangling)} delete files of data files that are gone"
        assert (told in plan.reasons) is cleared


def test_the_reasons_count_cold_and_hot_partitions_and_name_the_manifests():
    """Given two cold partitions and one that is written to, all with many small files, and scattered manifests, then it says so."""
    found = (
        *(partition(f"day={n}", [MB] * 9) for n in (1, 2)),
        partition("day=3", [MB] * 99, written_at=NOW),
    )
    layout = Layout(found, manifests=900, manifest_bytes=900 * KB, scattered=(0,))
    small, manifests = plan_compaction(layout, LIMITS, NOW).reasons
    assert small == "2 cold partitions and 1 hot with enough small files (min_input_files 8)"
    assert manifests == f"900 manifests hold {900 * KB} bytes"
