"""Rule: a merge reads exactly what is not merged, and history that was undone is undone here too."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Entry, Ledger
from tidemark.domain.ledger.merge_filters import before, reloaded, unmerged, up_to_end
from tidemark.domain.ledger.merge_ledger import Changes, MergeLedger, Truncation, is_merge_ledger
from tidemark.domain.ledger.merge_plan import (
    AppendHistory,
    AppendReceipt,
    GoBack,
    Merge,
    Rebuild,
    Unmerged,
    is_behind,
    joined,
    lag_since,
    plan_merge,
    unmerged_offsets,
)
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import MOST_RANGES, Recount
from tidemark.domain.ledger.replay import replayed as after_replay
from tidemark.domain.ledger.settlement import Settlement

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def receipt(snapshot, following, epoch=0, kind="append", touched=None, revision=0, reread=None):
    """`reread`: ranges that were read from Kafka again, as a replay of them names them."""
    settlement = Settlement(id="", epoch=epoch, run_id="", at=0, resolved=reread) if reread else None
    ledger = Ledger(
        from_={p: min(runs)[0] for p, runs in (reread or {}).items()},
        settlement=settlement,
        kind=kind,
        cluster_id="c",
        topic_id="t",
        topic="t",
        epoch=epoch,
        next=following,
        reloaded=touched or {},
        revision=revision,
    )
    return AppendReceipt(snapshot, NOON + timedelta(minutes=snapshot), ledger)


def replayed(ledger, touched, rows_of_epoch=None):
    """The ledger after a replay as the engine writes it; `rows_of_epoch`: of a backfill from elsewhere."""
    epoch, offsets = (ledger.epoch, touched) if rows_of_epoch is None else (rows_of_epoch, {0: [(0, 99)]})
    settlement = Settlement(id="b", epoch=epoch, run_id="r", at=0, resolved=offsets)
    return after_replay(ledger, Recount({}, {}, touched), settlement, Entry("b", "a", "r", "c", "v"))


def history(*receipts, whole=True, uuid="u"):
    newest_first = tuple(sorted(receipts, key=lambda each: -each.snapshot))
    chain = tuple(each.snapshot for each in newest_first)
    return AppendHistory(uuid, chain[0], chain, newest_first, whole)


def merged(snapshot, following, epoch=0, uuid="u", revision=None):
    return MergeLedger(
        append_table="s.t",
        append_uuid=uuid,
        append_snapshot=snapshot,
        append_revision=revision,
        epoch=epoch,
        next=following,
    )


def test_a_merge_knows_from_where_on_everything_was_read_again():
    """Given replays of a range, when they reach what is merged, then from there on; not what comes from a quarantine."""
    before = merged(1, {0: 20, 1: 20})
    touched = {0: [(0, 25)], 1: [(3, 20)]}
    reread = receipt(2, {0: 25, 1: 20}, kind="replay", touched=touched, reread={0: [(10, 25)]})
    earlier = receipt(3, {0: 25, 1: 20}, kind="replay", touched=touched, reread={0: [(5, 10)], 1: [(3, 19)]})
    quarantine = receipt(4, {0: 25, 1: 20}, kind="replay", touched=touched)
    told = history(receipt(1, {0: 20, 1: 20}), reread, earlier, quarantine)
    assert plan_merge([(9, before)], told).rows.again == {0: 5}


def test_the_first_merge_takes_everything():
    step = plan_merge([], history(receipt(1, {0: 5, 1: 3})))
    assert step == Merge(Unmerged(0, {}, 0, {0: 5, 1: 3}), None)


def test_only_what_is_new_is_merged_then_nothing():
    append = history(receipt(1, {0: 5}), receipt(2, {0: 9, 1: 2}))
    before = merged(1, {0: 5})
    step = plan_merge([(10, before)], append)
    assert step == Merge(Unmerged(0, {0: 5}, 0, {0: 9, 1: 2}), before)
    assert plan_merge([(11, merged(2, {0: 9, 1: 2}))], append) is None


def test_a_limit_cuts_and_what_is_left_comes_next():
    append = history(receipt(1, {0: 5}), receipt(2, {0: 1005}))
    step = plan_merge([(10, merged(1, {0: 5}))], append, limit=100)
    assert step.rows.end == {0: 105}
    assert plan_merge([(11, merged(2, {0: 105}))], append).rows.start == {0: 105}


def test_compaction_and_expiry_change_nothing():
    """Given a head that is no receipt, or a named snapshot that expired with everything before it."""
    compacted = AppendHistory("u", 3, (3, 2, 1), (receipt(2, {0: 5}), receipt(1, {0: 1})), whole=True)
    assert plan_merge([(10, merged(2, {0: 5}))], compacted) is None
    expired = history(receipt(7, {0: 9}), whole=False)
    assert plan_merge([(10, merged(2, {0: 5}))], expired).rows.start == {0: 5}


def test_what_the_tag_alone_still_tells_of_is_not_merged_twice():
    """Given a merged rollback or replay whose receipt an expirer has cut off, then it is neither undone nor read again."""
    for kind, touched in (("rollback", None), ("replay", {0: [(1, 3)]})):
        cut = AppendHistory("u", 9, (9,), (receipt(3, {0: 5}, kind=kind, touched=touched),), whole=False)
        assert plan_merge([(12, merged(3, {0: 5}))], cut) is None
        assert isinstance(
            plan_merge([(12, merged(2, {0: 5}))], cut), Rebuild if kind == "rollback" else Merge
        )


def test_a_rollback_of_the_append_table_goes_back_to_the_own_receipt_before_it():
    append = history(receipt(1, {0: 5}), receipt(4, {0: 5}, kind="rollback"))
    own = [(12, merged(3, {0: 9})), (11, merged(2, {0: 7})), (10, merged(1, {0: 5}))]
    step = plan_merge(own, append)
    assert isinstance(step, GoBack)
    assert step.snapshot == 10
    assert "was rolled back" in step.why


def test_without_such_a_receipt_or_with_another_table_it_is_rebuilt():
    append = history(receipt(1, {0: 5}), receipt(4, {0: 5}, kind="rollback"))
    assert isinstance(plan_merge([(12, merged(3, {0: 9}))], append), Rebuild)
    assert isinstance(plan_merge([(12, merged(1, {0: 5}, uuid="old"))], append), Rebuild)


def test_what_someone_had_made_anew_does_not_go_back_to_an_earlier_receipt():
    """Given an accepted rebuild that is not done yet, when an earlier receipt is of the history still, then all rows are merged."""
    append = history(receipt(1, {0: 5}), receipt(3, {0: 9}))
    accepted = merged(3, {0: 9}, uuid="").model_copy(update={"why": "accepted by ann"})
    step = plan_merge([(12, accepted), (10, merged(1, {0: 5}))], append)
    assert isinstance(step, Rebuild)
    assert (step.why, step.rows.end) == ("accepted by ann", {0: 9})


def test_one_partition_that_fell_back_betrays_a_rollback_though_others_went_on():
    """Given a named snapshot that expired, when one of two partitions fell back, then it is made anew."""
    append = history(receipt(6, {0: 12, 1: 4}), whole=False)
    assert isinstance(plan_merge([(12, merged(3, {0: 9, 1: 9}))], append), Rebuild)


def test_what_was_accepted_of_another_table_is_nothing_to_go_back_to():
    """Given an accepted rebuild before a rollback, then the receipt before it is gone back to."""
    append = history(receipt(1, {0: 5}), receipt(3, {0: 9}), receipt(7, {0: 9}, kind="rollback"))
    own = [(13, merged(6, {0: 12})), (12, merged(3, {0: 9}, uuid="")), (10, merged(1, {0: 5}))]
    assert plan_merge(own, append).snapshot == 10


def test_offsets_that_fell_back_betray_a_rollback_even_when_the_named_snapshot_expired():
    append = history(receipt(6, {0: 4}), whole=False)
    assert isinstance(plan_merge([(12, merged(3, {0: 9}))], append), Rebuild)


def test_a_replay_that_is_gone_betrays_a_rollback_by_hand():
    """Given offsets that a run has read again since, then the count of replays tells that one of them was taken back."""
    append = history(receipt(6, {0: 12}, revision=1), whole=False)
    assert isinstance(plan_merge([(12, merged(3, {0: 9}, revision=2))], append), Rebuild)
    assert isinstance(plan_merge([(12, merged(3, {0: 9}, revision=1))], append), Merge)


@pytest.mark.parametrize(
    ("went_back_to", "further"),
    [
        ((60, 2), True),
        ((51, 2), True),
        ((50, 2), False),
        ((49, 2), False),
        ((60, 1), False),
        (None, False),
    ],
)
def test_a_rollback_to_what_came_after_what_was_merged_takes_nothing_of_it_back(went_back_to, further):
    """Given a history that expiry has cut since the merge at offset 50, after the second replay, when a rollback took a third one back, then the next merge goes on by offsets; made anew is the table where the target was read no further, or only as far because the merge had a limit and knew more replays, or is no longer there."""
    target = [] if went_back_to is None else [receipt(5, {0: went_back_to[0]}, revision=went_back_to[1])]
    offset = went_back_to[0] if went_back_to else 60
    back = receipt(7, {0: offset}, kind="rollback", revision=4)
    cut = history(*target, back, receipt(8, {0: 80}, revision=4), whole=False)
    step = plan_merge([(12, merged(3, {0: 50}, revision=2))], cut)
    assert isinstance(step, Merge if further else Rebuild)
    if further:
        assert step.rows == Unmerged(0, {0: 50}, 0, {0: 80})
        lost = history(*target, back, receipt(8, {0: 80}, revision=5), whole=False)
        assert isinstance(plan_merge([(12, merged(3, {0: 50}, revision=2))], lost), Rebuild)


def test_a_replay_whose_receipt_someone_expired_is_not_taken_for_none():
    """Given a history that others cut short, then only replays that are still told of are read again; with one that is
    not, or a rollback, the table is made anew."""
    before, touched = merged(3, {0: 50}, revision=1), {0: [(10, 20)]}
    cut = history(receipt(7, {0: 60}, revision=2, touched=touched), whole=False)
    step = plan_merge([(12, before)], cut)
    assert isinstance(step, Rebuild)
    assert "no longer in its history" in step.why
    replayed = receipt(6, {0: 50}, kind="replay", revision=2, touched=touched)
    told = history(replayed, receipt(7, {0: 60}, revision=2, touched=touched), whole=False)
    assert plan_merge([(12, before)], told).rows.reloaded == {0: (OffsetRange(10, 20),)}
    same = history(receipt(7, {0: 60}, revision=1), whole=False)
    assert plan_merge([(12, before)], same).rows == Unmerged(0, {0: 50}, 0, {0: 60})
    assert isinstance(plan_merge([(12, merged(3, {0: 50}))], cut), Merge), "an older ledger does not say"


def test_a_new_epoch_is_merged_after_the_rest_of_the_old_one():
    append = history(receipt(1, {0: 5}), receipt(2, {0: 8}), receipt(3, {0: 2}, epoch=1, kind="epoch"))
    step = plan_merge([(10, merged(1, {0: 5}))], append)
    assert step.rows == Unmerged(0, {0: 5}, 1, {0: 2})


def test_ranges_that_a_replay_touched_are_read_again_once():
    append = history(
        receipt(1, {0: 50}),
        receipt(2, {0: 60}, kind="replay", touched={0: [(10, 20), (15, 30), (55, 70)]}),
        receipt(3, {0: 70}),
    )
    step = plan_merge([(10, merged(1, {0: 50}))], append)
    assert step.rows.reloaded == {0: (OffsetRange(10, 30),)}
    assert plan_merge([(11, merged(3, {0: 70}))], append) is None


def test_a_replay_of_every_other_record_is_read_again_in_few_ranges():
    """Given more ranges than one query can say, then neighbours are one, and each of them is held."""
    touched = [(n, n + 1) for n in range(0, 10_000, 2)]
    ledger = replayed(receipt(1, {}).ledger, {0: touched})
    append = history(
        receipt(1, {0: 50_000}), AppendReceipt(2, NOON, ledger.model_copy(update={"next": {0: 50_000}}))
    )
    found = plan_merge([(10, merged(1, {0: 9_000}))], append).rows.reloaded[0]
    assert len(found) <= MOST_RANGES
    assert all(any(first in each for each in found) == (first < 9_000) for first, _ in touched)


def test_a_replay_is_merged_alone_though_its_ledger_names_all_that_were_replayed_before():
    """Given everything replayed and merged, when one record is, then it alone is read again, and nothing once rows of
    elsewhere came; all of it where a ledger of old does not say whether receipts in between were expired."""
    everything, one = {0: [(0, 10**9)]}, {0: [(7, 8)]}
    after, end = replayed(receipt(2, {}).ledger, everything), {0: 10**9}
    assert after.reloaded == everything
    first = AppendReceipt(2, NOON, after.model_copy(update={"next": end}))
    second = AppendReceipt(3, NOON, replayed(first.ledger, one))
    other = AppendReceipt(4, NOON, replayed(second.ledger, {}, rows_of_epoch=-1))
    assert second.ledger.reloaded == other.ledger.reloaded == everything
    before = merged(2, end)
    assert plan_merge([(9, before)], history(first, second)).rows.reloaded == {0: (OffsetRange(7, 8),)}
    assert plan_merge([(9, before)], history(first, second, other)).rows.reloaded == {0: (OffsetRange(7, 8),)}
    assert plan_merge([(9, merged(3, end))], history(first, second, other)) is None
    cut = history(second, whole=False)
    assert plan_merge([(9, before)], cut).rows.reloaded == {0: (OffsetRange(0, 10**9),)}
    revised = merged(2, end, revision=first.ledger.revision)
    assert plan_merge([(9, revised)], cut).rows.reloaded == {0: (OffsetRange(7, 8),)}


def test_lag_is_counted_from_the_oldest_commit_that_waits():
    append = history(receipt(1, {0: 5}), receipt(2, {0: 8}), receipt(3, {0: 9}))
    assert lag_since(merged(1, {0: 5}), append) == NOON + timedelta(minutes=2)
    assert unmerged_offsets(merged(1, {0: 5}), append) == 4
    assert lag_since(merged(3, {0: 9}), append) is None
    one_alone = history(receipt(1, {0: 5, 1: 5}), receipt(2, {0: 5, 1: 8}), receipt(3, {0: 9, 1: 8}))
    assert lag_since(merged(1, {0: 5, 1: 5}), one_alone) == NOON + timedelta(minutes=2)


def test_a_replay_or_rollback_waits_from_its_own_commit_on_though_it_brings_no_offsets():
    """Given a rollback to what is merged and a replay, then that waits; of one behind it, the rollback."""
    first, again = receipt(1, {0: 9}), receipt(4, {0: 9}, kind="replay", touched={0: [(1, 3)]})
    append = history(first, receipt(3, {0: 9}, kind="rollback"), again, receipt(5, {0: 9}))
    assert is_behind(merged(1, {0: 9}), append)
    assert lag_since(merged(1, {0: 9}), append) == again.at
    assert not is_behind(merged(5, {0: 9}), append)
    back = receipt(3, {0: 9}, kind="rollback")
    assert is_behind(merged(2, {0: 12}), history(first, back))
    assert lag_since(merged(2, {0: 12}), history(first, back, again)) == back.at
    assert is_behind(None, history(first))
    later = receipt(60, {0: 13})
    assert lag_since(merged(1, {0: 9}), history(first, again, later)) == again.at, "more records hide neither"
    assert lag_since(merged(2, {0: 12}), history(first, back, later)) == back.at


places = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 12))
offsets = st.dictionaries(st.integers(0, 2), st.integers(0, 12))


def holds(condition, place):
    """A filter's text, evaluated for one row."""
    text = condition.replace("_kafka.epoch", str(place[0])).replace("_kafka.partition", str(place[1]))
    text = text.replace("_kafka.offset", str(place[2])).replace(" AND ", " and ").replace(" OR ", " or ")
    text = text.replace(" NOT IN (", " not in (0.5, ").replace(" = ", " == ")
    return bool(eval(text, {"true": True, "false": False}))  # noqa: S307 - text of our own


@given(st.integers(0, 2), offsets, st.integers(0, 2), offsets, places)
def test_the_filter_is_what_the_ledgers_say(epoch, start, further, end, place):
    """A row is read exactly when it is not merged yet, and lies below the append table's ledger."""
    last = epoch + further
    if not further:
        end = {p: max(end.get(p, 0), start.get(p, 0)) for p in {*start, *end}}
    before = MergeLedger(append_table="t", append_uuid="u", append_snapshot=1, epoch=epoch, next=start)
    upto = MergeLedger(append_table="t", append_uuid="u", append_snapshot=1, epoch=last, next=end)
    rows = Unmerged(epoch, start, last, end)
    assert holds(unmerged(rows), place) == (not before.covers(*place) and upto.covers(*place))
    assert holds(up_to_end(rows), place) == upto.covers(*place)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)).map(lambda r: OffsetRange(r[0], sum(r)))), places
)
def test_joined_ranges_hold_the_same_offsets(ranges, place):
    once = joined(ranges)
    assert any(place[2] in each for each in ranges) == any(place[2] in each for each in once)
    assert all(one.end < other.start for one, other in pairwise(once))
    touched = any(place[2] in each for each in ranges) and place[1] == 1 and place[0] == 0
    assert holds(reloaded(0, {1: tuple(ranges)}), place) == touched


def test_a_merge_ledger_comes_back_as_it_was_and_is_told_apart():
    ledger = MergeLedger(
        append_table="s.t",
        append_uuid="u",
        append_snapshot=2**62,
        next={0: 5},
        truncated={1: Truncation(0, 7, 123)},
        changes=Changes(3, 1, 1, 1),
        max_timestamp=NOON,
    )
    assert MergeLedger.from_json(ledger.to_json(), table="s.t") == ledger
    assert "no_keys" not in ledger.to_json(), "a version that does not know it reads it"
    without = ledger.model_copy(update={"no_keys": (0, {1: 8})})
    assert MergeLedger.from_json(without.to_json(), table="s.t") == without
    assert is_merge_ledger(ledger.to_json())
    assert not is_merge_ledger(Ledger(cluster_id=None, topic_id=None, topic="t").to_json())
    assert not is_merge_ledger("nonsense")


def test_a_merge_ledger_of_a_newer_tidemark_is_refused_by_name_and_what_is_none_is_missing():
    for text, state in {'{"version": 2, "shape": "new"}': "misconfigured", "": "ledger_missing"}.items():
        with pytest.raises(Stopped) as stop:
            MergeLedger.from_json(text, table="s.t")
        assert stop.value.state == state


def test_truncates_of_one_partition_take_together_what_each_of_them_takes():
    """Given a second truncate whose record time is behind that of the first, then offset and time are those of whichever
    reaches further, in any order; one of a later epoch takes everything before it."""
    first, second = Truncation(0, 0, 100), Truncation(0, 1, 50)
    assert first.joined(second) == second.joined(first) == Truncation(0, 1, 100)
    assert Truncation(1, 0, 10).joined(first) == first.joined(Truncation(1, 0, 10)) == Truncation(1, 0, 10)


def test_truncates_of_which_one_has_no_place_have_none_together():
    """Given one that tells its place in the log after one that does not, then time alone tells rows apart."""
    unplaced, placed = Truncation(0, 5, 100), Truncation(0, 10, 90, "500")
    assert unplaced.joined(placed) == placed.joined(unplaced) == Truncation(0, 10, 100)


def came_before(truncation, place, *, by_pos):
    """Whether an event (partition, offset, record time, place in the log) counts as before a truncate in partition 1."""
    partition, offset, at, pos = place
    text = before({1: truncation}, pos="pos", by_pos=by_pos).replace("timestamp_millis", "int")
    for sql, python in {
        "unix_millis": "int",
        "_kafka.timestamp": str(at),
        "NOT abs": "not abs",
        "<>": "!=",
    }.items():
        text = text.replace(sql, python)
    for sql, python in {
        "pos IS NOT NULL": pos is not None,
        "pos IS NULL": pos is None,
        "pos": repr(pos),
    }.items():
        text = text.replace(sql, str(python))
    return holds(text, (0, partition, offset))


@pytest.mark.parametrize("by_pos", [False, True])
def test_a_log_that_begins_anew_neither_takes_what_comes_after_a_truncate_nor_keeps_what_was_there(by_pos):
    """Given places of one life of the database's log and of the next, then they only tell apart what came near each
    other: rows from long after a truncate stay, and one of the new life takes rows of the old one."""
    hour = 3_600_000
    truncation = Truncation(0, 10, 100 * hour, "500")
    near, long_before, long_after = (at * hour for at in (100.5, 98, 102))

    def taken(*place):
        return came_before(truncation, place, by_pos=by_pos)

    assert taken(0, 99, near, "499")
    assert not taken(0, 0, near - hour, "501")
    assert not taken(0, 99, long_after, "3")
    assert not taken(1, 11, long_after, "3")
    assert taken(1, 9, long_before, "900")
    assert taken(0, 99, long_before, "900")
    assert taken(0, 99, long_before, None)
    truncation = truncation.joined(Truncation(0, 20, 124 * hour, "50"))
    assert taken(0, 99, 124.5 * hour, "49")
    assert not taken(0, 99, 124.5 * hour, "60"), "what is loaded anew after a nightly truncate"
    assert taken(0, 99, long_before, "900")
    for n in range(1, 4):
        truncation = truncation.joined(Truncation(0, 20 + n, int((124 + n / 2) * hour), str(10 + n)))
    assert truncation == Truncation(0, 23, int(125.5 * hour), "13")
    assert not taken(0, 99, 125.6 * hour, "14"), "nor after one of many, each soon after the one before"
