"""Every offset in exactly one place: the arithmetic of reconcile against a plain count."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.cli.reconcile import _remarks
from tidemark.domain.ledger.fate import Batch
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.verify.marks import (
    FEW,
    OLD,
    QUARANTINED,
    RECORD,
    ROW,
    TOMBSTONE,
    Count,
    beyond,
    inside,
    mark,
    runs,
    split,
    windows,
)
from tidemark.engine.verify.reconcile import Reconciliation

OFFSETS = st.lists(st.integers(10, 39), max_size=40)


def count(
    *,
    values: list[int],
    tombstones: list[int],
    rows: list[int],
    quarantined: list[int],
    start: int = 10,
    skipped: int = 0,
    counted: int = 30,
) -> Count:
    marks = np.zeros(30, dtype=np.uint8)
    for offsets, bit in (
        (values, RECORD),
        (tombstones, TOMBSTONE),
        (rows, ROW),
        (quarantined, QUARANTINED),
    ):
        for part in (offsets[::2], offsets[1::2]):
            mark(marks, 10, np.array(part, dtype=np.int64), bit)
    made = Count(0, start, 40)
    made.add(marks, 10)
    batch = Batch(10, 40, Counts(skipped=skipped, tombstones=counted))
    made.settle([batch], batch.counts, 10)
    return made


def within(found: list[tuple[int, int]]) -> list[int]:
    return [offset for a, b in found for offset in range(a, b)]


@given(st.sets(st.integers(10, 39)), st.sets(st.integers(10, 39)), OFFSETS, OFFSETS, st.integers(10, 39))
def test_gaps_and_duplicates_are_what_a_plain_count_finds(
    values: set[int], tombstones: set[int], rows: list[int], quarantined: list[int], start: int
) -> None:
    tombstones -= values
    found = count(
        values=sorted(values), tombstones=sorted(tombstones), rows=rows, quarantined=quarantined, start=start
    )
    placed = [*rows, *quarantined]
    assert within(found.gaps) == [o for o in sorted(values - set(placed)) if o >= start]
    assert within(found.duplicates) == sorted({o for o in placed if placed.count(o) > 1})
    assert within(found.unknown) == [o for o in sorted(set(placed) - values - tombstones) if o >= start]
    assert found.kafka_records == len([o for o in values | tombstones if o >= start])
    assert found.tombstones == len([o for o in tombstones - set(placed) if o >= start])


def test_tombstones_that_are_rows_are_missed_when_they_are_gone() -> None:
    lost = count(values=[10], tombstones=[11, 12, 14], rows=[10, 14], quarantined=[], counted=1)
    assert (lost.gaps, lost.tombstones) == ([(11, 13)], 0)
    counted = count(values=[10], tombstones=[11, 12, 14], rows=[10, 14], quarantined=[], counted=2)
    assert (counted.gaps, counted.tombstones) == ([], 2)


def test_a_hole_of_rows_is_one_gap_whatever_its_records_were() -> None:
    """Given rows of values and a tombstone that somebody has deleted, when they are counted, then each is counted once, and as one hole."""
    values, rows = [10, 11, 13, 14], [10]
    found = count(values=values, tombstones=[12], rows=rows, quarantined=[], counted=0)
    assert found.gaps == [(11, 15)]
    assert found.kafka_records == found.rows + found.tombstones + sum(b - a for a, b in found.gaps)


def test_holes_of_transactions_and_compaction_are_no_gaps() -> None:
    found = count(values=[10, 12, 30], tombstones=[14], rows=[10, 12], quarantined=[30])
    assert (found.gaps, found.duplicates, found.unknown) == ([], [], [])
    assert (found.kafka_records, found.rows, found.quarantined, found.tombstones) == (4, 2, 1, 1)


def test_a_tombstone_that_became_a_row_is_a_row() -> None:
    found = count(values=[10], tombstones=[11], rows=[10, 11], quarantined=[])
    assert (found.rows, found.tombstones, found.gaps) == (2, 0, [])


@pytest.mark.parametrize(("skipped", "gaps"), [(2, []), (3, []), (1, [(12, 14)]), (0, [(12, 14)])])
def test_skips_explain_records_without_a_place_but_one_too_many_makes_all_of_them_gaps(
    skipped: int, gaps: list[tuple[int, int]]
) -> None:
    found = count(values=[10, 11, 12, 13], tombstones=[], rows=[10, 11], quarantined=[], skipped=skipped)
    assert found.gaps == gaps
    assert found.skipped == (0 if gaps else 2)


def test_json_is_what_the_contract_says() -> None:
    found = count(values=[10, 11, 12], tombstones=[], rows=[10, 10], quarantined=[])
    assert found.as_json() == {
        "partition": 0,
        "from": 10,
        "to": 40,
        "kafka_records": 3,
        "rows": 1,
        "quarantined": 0,
        "tombstones": 0,
        "skipped": 0,
        "gaps": [[11, 13]],
        "duplicates": [[10, 11]],
        "never_committed": [],
        "beyond": 0,
    }


def test_rows_without_a_record_are_told_unless_compaction_explains_them() -> None:
    found = count(values=[10], tombstones=[], rows=[10, 12], quarantined=[])
    assert found.as_json()["never_committed"] == [[12, 13]]
    assert found.as_json(compacted=True)["never_committed"] == []


def test_a_compaction_that_nobody_could_ask_about_explains_nothing() -> None:
    made = count(values=[10], tombstones=[], rows=[10, 12], quarantined=[])
    whole = count(values=[10], tombstones=[], rows=[10], quarantined=[])

    def sound(found: Count, *, compacted: bool | None) -> bool:
        return Reconciliation("shop.orders", 0, {0: 10}, (found,), (), 0, compacted, 1.0, 1.0).sound

    assert [sound(made, compacted=each) for each in (True, False, None)] == [True, False, False]
    assert sound(whole, compacted=None)
    assert made.as_json(compacted=None)["never_committed"] == [[12, 13]]


@pytest.mark.parametrize("doubtful", [0, 1])
def test_skips_that_the_ledger_cannot_place_are_told_as_possible_losses(
    capsys: pytest.CaptureFixture[str], doubtful: int
) -> None:
    made = count(values=[10, 11], tombstones=[], rows=[10], quarantined=[], skipped=5)
    made.doubtful = doubtful
    _remarks(Reconciliation("shop.orders", 0, {0: 10}, (made,), (), 0, False, 1.0, 1.0), "orders")
    said = "partition 0: 1 record without a row, skipped or lost: the receipts" in capsys.readouterr().err
    assert said == bool(doubtful)


def settled(
    batches: list[Batch], *, rows: list[int], old: list[int], most: int, start: int = 0, **how: Any
) -> Count:
    """Offsets 0 to 39 are records of a topic whose first load began at 0, `old` of them beyond retention."""
    marks = np.zeros(40, dtype=np.uint8)
    for offsets, bit in (([*range(start, 40)], RECORD), (old, OLD), (rows, ROW)):
        mark(marks, 0, np.array(offsets, dtype=np.int64), bit)
    made = Count(0, start, 40)
    made.add(marks, 0)
    made.settle(batches, Counts(skipped=most), 0, **how)
    return made


def test_a_lost_row_is_a_gap_whatever_was_skipped_in_other_batches() -> None:
    """Given a batch whose skipped records are old by now, one with skips that are there, and one that skipped nothing, when a row of the last is lost, then it alone is a gap; one of the batch with skips is told among them."""
    batches = [Batch(a, a + 10, Counts(skipped=n)) for a, n in ((0, 10), (10, 4), (20, 0), (30, 0))]
    young = [*range(10, 16), *range(20, 40)]
    sound = settled(batches[1:], rows=young, old=[*range(10)], most=14)
    assert (sound.gaps, sound.skipped, sound.doubtful) == ([], 4, 0)
    lost = settled(batches[1:], rows=[o for o in young if o != 25], old=[*range(10)], most=14)
    assert (lost.gaps, lost.skipped, lost.doubtful) == ([(25, 26)], 4, 0)
    among = settled(batches[1:], rows=[o for o in young if o != 12], old=[*range(10)], most=14)
    assert (among.gaps, among.skipped) == ([(12, 13), (16, 20)], 0)


@pytest.mark.parametrize(
    ("how", "doubtful"),
    [
        ({}, 0),
        ({"old": [10]}, 4),
        ({"old": [9]}, 0),
        ({"start": 11}, 4),
        ({"start": 10}, 0),
        ({"compacted": True}, 4),
        ({"compacted": None}, 4),
        ({"once": False, "start": 10}, 4),
        ({"once": False}, 0),
    ],
)
def test_skips_are_told_for_certain_where_all_of_their_batch_was_looked_at(
    how: dict[str, Any], doubtful: int
) -> None:
    """Given a batch that counts no more skips than are found, when Kafka, retention or compaction has taken records that it may have counted, or a replay has counted some again, then nobody can say that none is lost; where the whole epoch is there its totals say it."""
    given = {"old": [], **how}
    batches = [
        Batch(0, 10, Counts()),
        Batch(10, 20, Counts(skipped=4), given.pop("once", True)),
        Batch(20, 40, Counts()),
    ]
    first, old = given.get("start", 0), given["old"]
    rows = [o for o in (*range(first, 16), *range(20, 40)) if o not in old]
    found = settled(batches, rows=rows, most=4, **given)
    assert (found.gaps, found.skipped, found.doubtful) == ([], 4, doubtful)


def test_what_expired_receipts_had_read_is_explained_by_what_the_other_batches_leave_of_the_totals() -> None:
    """Given one batch whose receipt is left, when as many are missing before it as the epoch has skipped besides, then they may be skips; one more and they are gaps, however few of the batch's own are found."""
    left = [Batch(20, 40, Counts(skipped=5))]
    rows = [*range(17), *range(20, 38)]
    found = settled(left, rows=rows, old=[], most=5)
    assert (found.gaps, found.skipped, found.doubtful) == ([], 5, 0)
    found = settled(left, rows=rows, old=[], most=5, start=1)
    assert (found.gaps, found.skipped, found.doubtful) == ([], 5, 3)
    found = settled(left, rows=rows, old=[], most=4)
    assert (found.gaps, found.skipped) == ([(17, 20)], 2)


def test_rows_that_a_replay_made_of_skipped_records_are_gaps_when_they_are_gone() -> None:
    batch = Batch(0, 40, Counts(skipped=5), once=False)
    assert settled([batch], rows=[*range(35)], old=[], most=5).gaps == []
    assert settled([batch], rows=[*range(35)], old=[], most=0).gaps == [(35, 40)]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), max_size=6),
    st.lists(st.integers(0, 45), max_size=4),
)
def test_runs_are_split_at_borders_without_loss(lengths: list[tuple[int, int]], borders: list[int]) -> None:
    found, at = [], 0
    for length, space in lengths:
        found.append((at + space, at + space + length))
        at += space + length
    parts = split(found, sorted(borders))
    edges = [-1, *sorted(borders), 100]
    for part, (first, end) in zip(parts, pairwise(edges), strict=True):
        assert within(part) == [o for o in within(found) if first <= o < end]


def test_of_a_gap_is_asked_who_removed_it_before_it_is_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that were erased on purpose are a gap too."""
    made = count(values=[10, 11], tombstones=[], rows=[10], quarantined=[], skipped=0)
    _remarks(Reconciliation("shop.orders", 0, {0: 10}, (made,), (), 0, False, 1.0, 1.0), "orders")
    told = capsys.readouterr().err
    assert "Next: tidemark where orders 0:11 tells" in told
    assert "tidemark replay shop.orders --partition 0 --from 11 --to 12 --reason" in told


def test_runs_are_half_open() -> None:
    assert runs(np.array([1, 1, 0, 0, 1], dtype=np.uint8), 100) == [(100, 102), (104, 105)]
    assert runs(np.zeros(0, dtype=np.uint8), 5) == []


@given(
    st.dictionaries(st.integers(0, 4), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=5),
    st.integers(1, 60),
)
def test_windows_cover_every_offset_once_within_the_limit(
    sizes: dict[int, tuple[int, int]], limit: int
) -> None:
    ranges = {p: OffsetRange(start, start + size) for p, (start, size) in sizes.items()}
    covered: dict[int, list[int]] = {p: [] for p in ranges}
    for window in windows(ranges, limit):
        assert 0 < sum(len(each) for each in window.values()) <= limit
        for p, each in window.items():
            covered[p] += range(each.start, each.end)
    assert covered == {p: list(range(each.start, each.end)) for p, each in ranges.items()}


def test_a_window_takes_of_every_partition_so_that_each_file_is_read_in_few_of_them() -> None:
    """Given partitions of very different lengths, whose rows lie in the same files, then they end together."""
    found = list(windows({0: OffsetRange(0, 90), 1: OffsetRange(500, 510)}, 50))
    assert [sorted(window) for window in found] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("partitions", [2, FEW + 1])
def test_filters_skip_files_and_no_row(tmp_path: Path, partitions: int) -> None:
    """Given a file per partition, each at offsets of its own, then one file is read for what lies in one of few."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    places = {p: range(100 * p, 100 * p + 10) for p in range(partitions + 1)}
    rows = [
        pa.table({"partition": pa.array([p] * 10, pa.int32()), "offset": [*o]}) for p, o in places.items()
    ]
    table = catalog.create_table("shop.orders", rows[0].schema)
    for each in rows:
        table.append(each)

    def read(where: str) -> tuple[int, set[tuple[int, int]]]:
        scan = table.scan(row_filter=where)
        found = {(row["partition"], row["offset"]) for row in scan.to_arrow().to_pylist()}
        return len(list(scan.plan_files())), found

    window = {p: OffsetRange(100 * p, 100 * p + 5) for p in range(partitions)}
    files, found = read(inside(window))
    assert {(p, o) for p in window for o in range(100 * p, 100 * p + 5)} <= found
    assert files == partitions
    files, found = read(
        beyond({p: 100 * p + 10 for p in range(partitions - 1)} | {partitions - 1: 100 * partitions - 95})
    )
    late = {(partitions - 1, o) for o in range(100 * partitions - 95, 100 * partitions - 90)}
    assert late | {(partitions, o) for o in places[partitions]} <= found
    if partitions <= FEW:
        assert (files, len(found)) == (2, 15)
