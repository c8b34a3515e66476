"""Rule: what is not known of a record is said, not guessed."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.ledger.fate import (
    batches_within,
    by_offset,
    counted_within,
    quarantined_runs,
    reader_of,
)
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Counts, Entry, Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import Recount, replayed
from tidemark.domain.ledger.settlement import Settlement

ENTRY = Entry("b", "a", "run", "digest", "0.1.0")
FIRST = Ledger(
    kind="first", cluster_id="c", topic_id="t", topic="orders", start={0: 0}, next={0: 0}, from_={0: 0}
)
SKIPS = st.lists(st.booleans(), min_size=1, max_size=9)
"""Of a batch: whether each record is skipped, or else a row."""


def test_a_fate_says_when_kafka_could_not_be_asked() -> None:
    """Given a record that the table has not read, when Kafka does not answer, then `not yet` says that nobody knows whether there is one."""
    topic = Topic("orders", "c", "t", {0: 0}, {0: 9}, {0: 9})
    assert by_offset(None, topic, 0, 3) == ("not_yet", "the table has read up to 0")
    fate, why = by_offset(None, None, 0, 3) or ("", "")
    assert fate == "not_yet"
    assert "Kafka could not be asked" in why


def test_a_record_that_an_open_transaction_holds_back_is_not_called_missing() -> None:
    """Given a readable end below the high watermark, then what lies between is held back, and beyond there is nothing."""
    topic = Topic("orders", "c", "t", {0: 0}, {0: 3}, {0: 9})
    held = "an open transaction holds back offsets 3 to 8: they are read once it has ended"
    assert [by_offset(FIRST, topic, 0, offset) for offset in (2, 3, 8, 9)] == [
        ("not_yet", "the table has read up to 0"),
        ("not_yet", held),
        ("not_yet", held),
        ("not_yet", "the partition ends at 3: no such record is committed"),
    ]


def counts(skips: list[bool]) -> dict[int, Counts]:
    return {0: Counts(len(skips), len(skips) - sum(skips), skipped=sum(skips))}


def loaded(batches: list[list[bool]]) -> list[Ledger]:
    """The receipts of these batches, oldest first."""
    ledgers = [FIRST]
    for skips in batches:
        at = ledgers[-1].next[0]
        ledgers.append(ledgers[-1].after({0: OffsetRange(at, at + len(skips))}, counts(skips), ENTRY))
    return ledgers


def read_again(ledgers: list[Ledger], fates: list[bool], run: tuple[int, int], skips: list[bool]) -> None:
    """A replay of the run, whose records are skipped or not by another contract."""
    asked = Settlement(id="s", epoch=0, run_id="r", at=1, resolved={0: [run]})
    before, after = counts(fates[slice(*run)]), counts(skips)
    ledgers.append(replayed(ledgers[-1], Recount(before, after, {0: [run]}, reread=True), asked, ENTRY))
    fates[slice(*run)] = skips


def replayed_history(
    batches: list[list[bool]], replays: list[tuple[int, list[bool]]]
) -> tuple[list[Ledger], list[bool]]:
    """Receipts of batches and of the replays that lie within them, and which records are skipped in the end."""
    ledgers, fates = loaded(batches), [*chain.from_iterable(batches)]
    for start, skips in replays:
        if start + len(skips) <= len(fates):
            read_again(ledgers, fates, (start, start + len(skips)), skips)
    return ledgers, fates


@st.composite
def windows(draw: st.DrawFn, fates: list[bool], ledgers: list[Ledger]) -> tuple[int, int, int]:
    """Offsets [first, end), and how many receipts have not expired."""
    first = draw(st.integers(0, len(fates) - 1))
    return first, draw(st.integers(first + 1, len(fates))), draw(st.integers(1, len(ledgers)))


@given(st.lists(SKIPS, min_size=1, max_size=8), st.lists(st.tuples(st.integers(0, 60), SKIPS)), st.data())
def test_receipts_never_tell_of_fewer_skips_than_there_are(
    batches: list[list[bool]], replays: list[tuple[int, list[bool]]], data: st.DataObject
) -> None:
    """Given batches, replays of any runs, and receipts that have expired, when a window is asked for, then none of its skips is left out, or nothing is said."""
    ledgers, fates = replayed_history(batches, replays)
    first, end, kept = data.draw(windows(fates, ledgers))
    found = counted_within(reversed(ledgers[-kept:]), {0: OffsetRange(first, end)})
    assert not found or found[0].skipped >= sum(fates[first:end])
    assert kept < len(ledgers) or found


@given(st.lists(SKIPS, min_size=1, max_size=8), st.lists(st.tuples(st.integers(0, 60), SKIPS)), st.data())
def test_no_batch_tells_of_fewer_skips_than_it_has(
    batches: list[list[bool]], replays: list[tuple[int, list[bool]]], data: st.DataObject
) -> None:
    """Given batches, replays of any runs, and receipts that have expired, when those of a window are asked for, then they lie one behind the other to its end, each counts all that it skips, and just these where no replay has touched it."""
    ledgers, fates = replayed_history(batches, replays)
    first, end, kept = data.draw(windows(fates, ledgers))
    found = batches_within(reversed(ledgers[-kept:]), {0: OffsetRange(first, end)})[0]
    assert [each.end for each in found[:-1]] == [each.start for each in found[1:]]
    assert all(each.start < end and each.end > first for each in found)
    assert not found or found[-1].end >= end
    assert kept < len(ledgers) or found[0].start <= first
    for each in found:
        skipped = sum(fates[each.start : each.end])
        assert each.counts.skipped == skipped if each.once else each.counts.skipped >= skipped


def test_what_waits_in_quarantine_lies_in_the_batches_that_counted_it() -> None:
    """Given a batch with bad records among good ones, then its offsets are named; when its receipt has expired, all that expired ones have read, unless those that are left count all that waits; after a replay that too."""

    def after(ledger: Ledger, quarantined: int) -> Ledger:
        at = ledger.next[0]
        counted = {0: Counts(5, 5 - quarantined, quarantined)}
        return ledger.after({0: OffsetRange(at, at + 5)}, counted, ENTRY)

    ledgers = [FIRST]
    for quarantined in (0, 2, 0, 1, 0):
        ledgers.append(after(ledgers[-1], quarantined))
    newest = ledgers[-1]

    def runs(kept: int, ledger: Ledger = newest) -> list[tuple[int, int]]:
        return sorted(quarantined_runs(reversed(ledgers[-kept:]), ledger)[0])

    assert (runs(6), runs(4)) == ([(5, 10), (15, 20)], [(5, 10), (15, 20)])
    assert runs(2) == [(0, 15), (15, 20)]
    assert runs(4, newest.model_copy(update={"reloaded": {0: [(0, 1)]}})) == [(0, 5), (5, 10), (15, 20)]
    assert quarantined_runs(reversed(ledgers[:2]), ledgers[1]) == {}


def test_the_first_offset_that_is_not_read_is_not_yet_and_says_where_the_partition_ends() -> None:
    """Given a table that has read up to 5 of 8, then 4 was read, 5 to 7 wait, and 8 is no record; what Kafka
    has deleted is past reading."""
    read, topic = FIRST.model_copy(update={"next": {0: 5}}), Topic("orders", "c", "t", {0: 0}, {0: 8}, {0: 8})
    assert by_offset(read, topic, 0, 4) is None
    for offset in (5, 7):
        assert by_offset(read, topic, 0, offset) == ("not_yet", "the table has read up to 5")
    none_such = "the partition ends at 8: no such record is committed"
    assert by_offset(read, topic, 0, 8) == ("not_yet", none_such)
    cut = Topic("orders", "c", "t", {0: 7}, {0: 8}, {0: 8})
    fates = [(by_offset(read, cut, 0, offset) or ("", ""))[0] for offset in (5, 6, 7)]
    assert fates == ["expired_unread", "expired_unread", "not_yet"]


def test_neighbours_of_a_window_add_nothing_to_its_counts() -> None:
    """Given batches before and after, and replays of both, when the one between is asked for, then its counts
    are its own; with a replay of which one run lies in it, that one's too."""
    batches = [[True, True], [True, False, True], [True, True, True]]
    ledgers, fates = loaded(batches), [*chain.from_iterable(batches)]
    read_again(ledgers, fates, (0, 2), [True, True])
    read_again(ledgers, fates, (5, 7), [True, True])
    window = {0: OffsetRange(2, 5)}
    assert counted_within(reversed(ledgers), window) == counts(batches[1])
    asked = Settlement(id="s", epoch=0, run_id="r", at=1, resolved={0: [(0, 1), (3, 4)]})
    skipped = replayed(ledgers[-1], Recount({}, counts([True, True]), {}, reread=True), asked, ENTRY)
    assert counted_within([skipped, *reversed(ledgers)], window)[0].skipped == 4


def test_what_the_quarantine_kept_of_a_gap_is_counted_and_was_not_read() -> None:
    """Given two records of offsets that Kafka lost and that were accepted, when asked for, then they are told of with
    the batch around them, and no receipt is said to have read them."""
    [*_, last] = ledgers = loaded([[True, False]])
    lost = {"kind": "gap", "from_": {0: 2}, "next": {0: 6}, "counts": {0: Counts(2, quarantined=2)}}
    ledgers.append(last.model_copy(update=lost))
    found = counted_within(reversed(ledgers), {0: OffsetRange(1, 4)})
    assert found == {0: Counts(4, 1, 2, skipped=1)}
    assert reader_of(reversed(ledgers), 0, 3) is None


@given(st.lists(SKIPS, min_size=2, max_size=8))
def test_of_whole_batches_the_receipts_tell_exactly(batches: list[list[bool]]) -> None:
    """Given batches of which none was read again, when a window begins with one, then its skips are those of the batches from there on."""
    newest = OffsetRange(len(batches[0]), sum(map(len, batches)))
    found = counted_within(reversed(loaded(batches)), {0: newest})
    assert found[0] == counts([*chain.from_iterable(batches[1:])])[0]
    assert counted_within(reversed(loaded(batches)[3:]), {0: newest}) == {}


def test_a_record_before_the_start_is_told_with_the_load_that_began_behind_it() -> None:
    """Given a table that began in the middle of a topic, when an earlier record is asked for, then it says where, and after which topic was made anew."""
    late = FIRST.model_copy(update={"start": {0: 5}, "next": {0: 9}})
    assert by_offset(late, None, 0, 4) == ("before_start", "the first load began at 5")
    assert by_offset(late.model_copy(update={"epoch": 2}), None, 0, 4) == (
        "before_start",
        "epoch 2 began at 5",
    )
    assert by_offset(late, None, 0, 5) is None


def test_the_last_reader_of_a_record_is_the_replay_only_where_that_looked() -> None:
    """Given a batch and a replay of two ranges of it, then each offset names the newest receipt that read it."""
    batch = loaded([[False] * 6])[-1]
    runs = {0: [(0, 2), (4, 5)]}
    asked = Settlement(id="s", epoch=0, run_id="r", at=1, resolved=runs)
    replay = replayed(batch, Recount({}, {}, runs, reread=True), asked, ENTRY)
    readers = [reader_of([replay, batch], 0, offset) for offset in range(7)]
    assert readers == [0, 0, 1, 1, 0, 1, None]
