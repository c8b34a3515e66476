"""Rule: a replay moves counts between fates and never makes or loses a record; a rollback is the old ledger, made newer."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.ledger.ledger import Counts, Entry, Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import (
    FAR,
    Recount,
    counted_before,
    joined_runs,
    quarantined_before,
    replayed,
    rewound,
    runs_between,
    runs_without,
    within,
)
from tidemark.domain.ledger.settlement import Resolution, Settlement, taken_back

offsets = st.sets(st.integers(0, 60))
runs = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 20)).map(lambda r: (r[0], r[0] + r[1])), max_size=30
)
ENTRY = Entry("b", "a", "run", "digest", "0.1.0")


def ledger(**fields):
    return Ledger(**{"cluster_id": "c1", "topic_id": "t1", "topic": "orders", **fields})


def asked(**fields):
    return Settlement(**{"id": "s", "epoch": 0, "run_id": "r", "at": 1, **fields})


@given(offsets, offsets)
def test_runs_hold_what_leaves_and_nothing_that_stays(leaving, staying):
    kept = staying - leaving
    found = runs_between(leaving, kept)
    assert all(within(found, o) for o in leaving)
    assert not any(within(found, o) for o in kept)
    assert len(found) <= len(kept) + 1
    assert found == sorted(found)


@given(
    st.sets(st.integers(0, 30).map(lambda o: o * FAR // 3)),
    st.sets(st.integers(0, 30 * FAR)),
    st.integers(1, 8),
)
def test_runs_leave_out_the_widest_of_what_is_free(leaving, staying, most):
    kept = staying - leaving
    fewest, found = runs_between(leaving, kept, 1), runs_between(leaving, kept, most)
    assert all(within(found, o) for o in leaving)
    assert not any(within(found, o) for o in kept)
    assert len(found) <= max(most, len(fewest))
    left = [b - a for (_, a), (b, _) in pairwise(found)]
    inside = [
        b - a
        for a, b in pairwise(sorted(leaving))
        if within(found, a) and within(found, a + 1) and b - a > FAR
    ]
    if len(found) < most:
        assert not inside
    elif len(fewest) == 1 and left and inside:
        assert min(left) + 1 >= max(inside)


def test_two_far_records_are_two_runs():
    """What lies between them is not read again by a merge."""
    assert runs_between([10, 9_999_990], []) == [(10, 11), (9_999_990, 9_999_991)]
    assert runs_between([10, 12], []) == [(10, 13)]


@given(st.dictionaries(st.integers(0, 2), runs), st.dictionaries(st.integers(0, 2), runs), st.integers(1, 8))
def test_reloaded_never_names_less_than_was_touched(known, more, most):
    found = joined_runs(known, more, most)
    for p in {*known, *more}:
        for a, b in [*known.get(p, []), *more.get(p, [])]:
            assert any(start <= a and b <= end for start, end in found[p])
        assert len(found[p]) <= most
        assert all(one[1] < other[0] for one, other in zip(found[p], found[p][1:], strict=False))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_what_leaves_the_quarantine_is_written_from_then_on(written, moved, stays, tombstones, skipped):
    quarantined = moved + stays
    read = written + quarantined + tombstones + skipped
    before = ledger(next={0: read}, totals={0: Counts(read, written, quarantined, tombstones, skipped)})
    after = replayed(
        before,
        Recount({0: Counts(moved, quarantined=moved)}, {0: Counts(moved, moved)}, {0: [(0, 5)]}),
        asked(resolved={0: [(0, 5)]}),
        ENTRY,
    )
    assert after.totals[0] == Counts(read, written + moved, stays, tombstones, skipped)
    assert (after.kind, after.next, after.revision) == ("replay", before.next, before.revision + 1)
    assert after.reloaded == {0: [(0, 5)]}
    assert after.settlement is not None


def test_more_than_was_counted_cannot_be_moved():
    with pytest.raises(ValueError, match="more than was ever counted"):
        replayed(ledger(), Recount({0: Counts(2, quarantined=2)}, {0: Counts(2, 2)}, {}), None, ENTRY)
    with pytest.raises(ValueError, match="does not balance"):
        replayed(ledger(), Recount({0: Counts(2)}, {}, {}), None, ENTRY)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_how_a_range_was_counted_follows_from_what_is_there_still(written, quarantined, tombstones, skipped):
    """Given a range whose records are read again, when nothing was lost meanwhile, then the old counts come out."""
    old = Counts(written + quarantined + tombstones + skipped, written, quarantined, tombstones, skipped)
    assert (
        counted_before(
            old, old, rows=written, tombstone_rows=0, quarantined=quarantined, null_values=tombstones
        )
        == old
    )


@given(
    st.lists(st.sampled_from(["row", "quarantined", "tombstone"]), max_size=6), st.integers(0, 3), st.data()
)
def test_records_without_a_value_were_what_they_are_no_longer(before, elsewhere, data):
    """Given records without a value that were rows, quarantined or only counted, when they are read again and become
    any of these, then it comes out what they were, whatever of the kind the ledger has counted elsewhere."""
    after = [data.draw(st.sampled_from(["row", "quarantined", "tombstone"])) for _ in before]
    had, now = (
        Counts(len(each), each.count("row"), each.count("quarantined"), each.count("tombstone"))
        for each in (before, after)
    )
    known = had.plus(Counts(3 * elsewhere, elsewhere, elsewhere, elsewhere))
    told = counted_before(
        now,
        known,
        rows=had.written,
        tombstone_rows=had.written,
        quarantined=had.quarantined,
        null_values=len(before),
        quarantined_nulls=had.quarantined,
    )
    assert told == had


def test_a_truncate_that_became_a_row_had_been_skipped():
    now = Counts(5, 5)
    had = Counts(5, 3, skipped=2)
    assert (
        counted_before(now, had, rows=3, tombstone_rows=0, quarantined=0, null_values=0, unskipped=2) == had
    )


def test_what_is_skipped_now_had_been_rows_where_rows_are_there():
    """Given records that would be skipped today, when their rows, quarantine rows and deletes are found, then they were these."""
    had = Counts(5, 3, quarantined=1, tombstones=1)
    now = Counts(5, 0, skipped=5)
    assert counted_before(now, had, rows=3, tombstone_rows=0, quarantined=1, null_values=1) == had


def test_no_more_truncates_had_been_skipped_than_were_counted():
    """Given truncates that are rows today, when two rows are gone and none was ever skipped, then the rows were deleted."""
    now = Counts(5, 5)
    assert (
        counted_before(now, now, rows=3, tombstone_rows=0, quarantined=0, null_values=0, unskipped=2) == now
    )


FATES = ("row", "quarantined", "tombstone", "skipped")
READ_AGAIN = st.lists(
    st.tuples(st.sampled_from(FATES), st.booleans(), st.sampled_from(FATES[:2] + FATES[3:])), max_size=8
)
"""Records: what they were, whether somebody has deleted that since, and what they are today, if they have a value."""


def counts(fates):
    return Counts(len(fates), *map(fates.count, FATES))


def told_of(records, known, unskipped=0):
    """What the records had been by what is left of them, and what they are."""
    had, left = (counts([was for was, gone, _ in records if not (cut and gone)]) for cut in (False, True))
    now = counts([was if was == "tombstone" else becomes for was, _, becomes in records])
    told = counted_before(
        now,
        known.plus(had),
        rows=left.written,
        tombstone_rows=0,
        quarantined=left.quarantined,
        null_values=had.tombstones,
        unskipped=unskipped,
    )
    return told, had, now


@given(READ_AGAIN, st.lists(st.sampled_from(FATES), max_size=8), st.integers(0, 8))
def test_no_replay_takes_away_more_of_a_fate_than_was_ever_counted(records, elsewhere, unskipped):
    """Given records that become anything, of which rows and quarantine rows were deleted, when read again, then the
    totals are those of as many records, and none is negative."""
    told, had, now = told_of(records, counts(elsewhere), unskipped)
    whole = counts(elsewhere).plus(had)
    before = ledger(totals={0: whole}, unrouted=whole.skipped)
    after = replayed(before, Recount({0: told}, {0: now}, {0: [(0, 9)]}, reread=True), None, ENTRY)
    assert after.totals[0].balanced
    assert after.totals[0].read == whole.read
    assert after.unrouted <= after.totals[0].skipped


@given(READ_AGAIN)
def test_of_batches_that_are_read_again_whole_the_counts_are_what_they_were(records):
    """Given records that become anything, skipped ones rows among them, when nothing was deleted, then their batches
    tell of each; likewise when all that was deleted are quarantine rows and none of the others had been skipped."""
    whole = [(was, False, becomes) for was, _, becomes in records]
    told, had, _ = told_of(whole, Counts())
    assert told == had
    few = [(was, was == "quarantined", becomes) for was, _, becomes in records if was != "skipped"]
    told, had, _ = told_of(few, Counts())
    assert told == had


@given(READ_AGAIN, st.lists(st.sampled_from(FATES), max_size=8))
def test_of_a_part_of_what_was_counted_rows_that_may_have_been_skipped_were(records, elsewhere):
    """Given a table of another record type since, when a part is read again of which nothing was deleted, then the
    records of that type had been skipped, whatever of any kind was counted elsewhere."""
    whole = [(was, False, becomes) for was, _, becomes in records]
    told, had, _ = told_of(whole, counts(elsewhere), unskipped=len(records))
    assert told == had


def test_what_was_without_a_route_is_never_more_than_what_was_skipped():
    """Given a record type that has a table by now, when all of it is read again, then status no longer tells of it."""
    before = ledger(totals={0: Counts(100, 5, skipped=95)}, unrouted=95)
    was, now = Counts(100, 5, skipped=95), Counts(100, 60, skipped=40)
    after = replayed(before, Recount({0: was}, {0: now}, {0: [(0, 100)]}, reread=True), None, ENTRY)
    assert (after.totals[0], after.unrouted) == (now, 40)


def test_the_last_truncate_that_is_no_row_is_known_until_it_is_read_again():
    """Given some in three partitions, when one becomes a row and another is followed by a later one, then it says so."""
    before = ledger(truncates={0: 4, 1: 7, 2: 9})
    runs = {0: [(0, 2), (3, 5)], 1: [(0, 7)], 2: [(9, 12)]}
    after = replayed(before, Recount({}, {}, runs, {2: 11}, reread=True), None, ENTRY)
    assert after.truncates == {1: 7, 2: 11}
    earlier = replayed(before, Recount({}, {}, {1: [(0, 5)]}, {1: 3}, reread=True), None, ENTRY)
    assert earlier.truncates == before.truncates
    from_quarantine = replayed(before, Recount({}, {}, {0: [(3, 8)]}), None, ENTRY)
    assert from_quarantine.truncates == before.truncates, "nothing between 3 and 7 was read"
    following = after.after({1: OffsetRange(0, 9)}, {}, replace(ENTRY, truncates={1: 8}))
    assert following.truncates == {1: 8, 2: 11}


def test_a_replay_from_kafka_names_the_first_offset_that_was_read_again():
    """Given runs of two partitions in any order, then it is the lowest of each; of a quarantine's rows none
    was read."""
    touched = {0: [(7, 9), (3, 5)], 1: [(9, 12), (20, 21)]}
    assert replayed(ledger(), Recount({}, {}, touched, reread=True), None, ENTRY).from_ == {0: 3, 1: 9}
    assert replayed(ledger(), Recount({}, {}, touched), None, ENTRY).from_ == {}


def test_a_row_that_waits_in_the_quarantine_as_well_had_been_counted_as_written():
    """Given a row that an attempt which died has left in the quarantine too, then no more is taken away than was counted."""
    now = Counts(10, 10)
    assert counted_before(now, now, rows=10, tombstone_rows=0, quarantined=1, null_values=0) == now


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 18), st.integers(0, 9))
def test_rows_that_somebody_put_into_the_quarantine_leave_it_as_what_they_were(moved, skips, put, left):
    """Given more rows in the quarantine than were counted, when some leave it, then those had been counted as written."""
    now = Counts(moved + skips, moved, skipped=skips)
    put = min(put, now.read)
    known = Counts(50, 50 - left - now.read + put, left + now.read - put)
    assert quarantined_before(now, known, left) == Counts(now.read, put, now.read - put)
    assert quarantined_before(now, Counts(50, 50), left) == Counts(now.read, now.read)


def test_rows_that_were_deleted_since_had_been_counted_as_written():
    now = Counts(10, 10)
    assert counted_before(now, now, rows=7, tombstone_rows=0, quarantined=0, null_values=0) == now
    assert counted_before(now, now, rows=7, tombstone_rows=0, quarantined=0, null_values=2) == now, (
        "delete rows too"
    )


def test_quarantine_rows_that_somebody_removed_are_not_taken_for_rows_of_the_table():
    had = Counts(6, 1, quarantined=5)
    assert counted_before(Counts(6, 6), had, rows=1, tombstone_rows=0, quarantined=0, null_values=0) == had
    assert counted_before(Counts(6, 6), had, rows=0, tombstone_rows=0, quarantined=2, null_values=0) == had


def test_a_rollback_is_the_old_ledger_with_a_revision_of_its_own():
    old = ledger(next={0: 10}, totals={0: Counts(10, 10)}, revision=2)
    head = ledger(next={0: 30, 1: 4}, totals={0: Counts(30, 30)}, revision=5)
    back = rewound(old, head, asked(rewound={0: 10}), ENTRY)
    assert back.contract == head.contract != ENTRY.contract, "an edit since is still to be applied"
    assert (back.next, back.totals, back.kind) == (old.next, old.totals, "rollback")
    assert back.revision == 6
    following = back.after({0: OffsetRange(10, 12)}, {0: Counts(2, 2)}, ENTRY)
    assert following.settlement is None


def test_a_rollback_takes_back_what_replays_did_to_the_quarantine():
    moved = asked(id="moved", run_id="one", at=7, resolved={0: [(1, 2)]})
    read_again = asked(id="again", run_id="two", at=8, resolved={0: [(0, 9)]}, revealed=True)
    earlier = asked(id="back", rewound={0: 4}, undone=[Resolution("zero", 1)])
    assert taken_back([moved, read_again, earlier]) == (
        ["again"],
        [Resolution("one", 7), Resolution("two", 8)],
    )


def test_a_settlement_survives_the_way_through_a_snapshot_summary():
    told = ledger(settlement=asked(resolved={3: [(1, 4)]}, undone=[Resolution("r", 2)], rewound={0: 1}))
    assert Ledger.from_json(told.to_json(), table="t") == told


def test_what_is_kept_inside_a_range_is_left_out_of_its_runs():
    assert runs_without((0, 5), []) == [(0, 5)]
    assert runs_without((0, 5), [0, 3]) == [(1, 3), (4, 5)]
    assert runs_without((0, 3), [0, 1, 2]) == []
    assert runs_without((0, 9), [1, 3, 8], most=2) == [(0, 1), (2, 8)], "never fewer"
