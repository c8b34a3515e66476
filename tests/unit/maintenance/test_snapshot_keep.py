"""Rules of expiry: whatever others name or a ledger needs stays, however the table is bent; the rest goes."""

from dataclasses import replace
from datetime import timedelta
from time import process_time, time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Snapshots
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, LEDGER_PROPERTY
from tidemark.domain.maintenance.snapshot_keep import (
    Ref,
    Snap,
    began_at,
    chain,
    fitting,
    given_up,
    is_dead,
    keep,
)
from tidemark.domain.times import DAY_MS
from tidemark.engine.maintain import expire as expiry
from tidemark.engine.maintain.named_snapshots import NAMED, Named, noted

NOW = 100 * DAY_MS
LIMITS = Snapshots(max_age=timedelta(days=7), min_keep=1, max_count=2000)


@st.composite
def tables(draw):
    """A snapshot graph with branches, tags, receipts here and there, and refs of every age."""
    count = draw(st.integers(1, 25))
    snaps: list[Snap] = []
    for n in range(count):
        parent = draw(st.sampled_from([None, *(s.id for s in snaps)])) if snaps and draw(st.booleans()) else (
            snaps[-1].id if snaps else None
        )  # fmt: skip
        at = draw(st.integers(0, NOW)) if parent is None else draw(st.integers(snaps[parent - 1].at, NOW))
        receipt, act, batch = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
        snaps.append(Snap(n + 1, parent, at, receipt, act, batch))
    cut = draw(st.sets(st.sampled_from([s.id for s in snaps]), max_size=3))  # a stranger's expiry
    left = [s for s in snaps if s.id not in cut] or snaps
    ids = st.sampled_from([s.id for s in left])
    refs = [Ref("main", "branch", draw(ids))]
    for n in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(["tidemark_abc_", "audit_", "v"])) + str(n)
        age = draw(st.none() | st.integers(1, 20 * DAY_MS))
        refs.append(Ref(name, draw(st.sampled_from(["branch", "tag"])), draw(ids), age))
    named = draw(st.sets(ids | st.integers(900, 910), max_size=3))
    limits = Snapshots(
        max_age=timedelta(days=draw(st.integers(1, 30))),
        min_keep=draw(st.integers(1, 5)),
        max_count=draw(st.integers(1, 30)),
    )
    read_on_from = draw(st.sets(ids, max_size=1))
    return left, refs, named, limits, read_on_from


@given(tables())
def test_what_anyone_names_is_kept_and_nothing_is_both(table):
    snapshots, refs, named, limits, read_on_from = table
    found = keep(snapshots, refs, named, limits, NOW, read_on_from=read_on_from)
    ids, by_id = {s.id for s in snapshots}, {s.id: s for s in snapshots}
    assert {*found.kept} | {*found.expired} == ids
    assert not {*found.kept} & {*found.expired}
    assert named & ids <= {*found.kept}
    head = refs[0].snapshot
    for ref in refs:
        if not is_dead(ref, by_id, head, NOW) and not given_up(ref, by_id, NOW):
            assert ref.snapshot in found.kept


@given(tables(), st.data())
def test_every_reader_that_has_noted_a_snapshot_keeps_it(table, data):
    """Given an upsert table's ledger, dbt models and open reviews that note snapshots, then each of them can be read, and what the upsert table has merged."""
    snapshots, refs, _, limits, merged = table
    ids = st.sampled_from([s.id for s in snapshots])
    readers = data.draw(st.dictionaries(st.sampled_from(["dbt.daily", "review.4711", "audit"]), ids))
    properties = {f"{NAMED}{who}": str(snapshot) for who, snapshot in readers.items()}
    found = keep(
        snapshots, refs, noted({**properties, "owner": "7"}) | merged, limits, NOW, read_on_from=merged
    )
    assert {*readers.values(), *merged} <= {*found.kept}


@given(tables())
def test_from_every_kept_snapshot_its_own_ledger_can_be_walked_to(table):
    snapshots, refs, named, limits, read_on_from = table
    found = keep(snapshots, refs, named, limits, NOW, read_on_from=read_on_from)
    by_id = {s.id: s for s in snapshots}
    after = {i: s for i, s in by_id.items() if i in found.kept}
    for each in found.kept:
        before = next((s.id for s in chain(by_id, each) if s.receipt), None)
        assert before is None or next((s.id for s in chain(after, each) if s.receipt), None) == before


@given(tables())
def test_expiring_twice_is_expiring_once(table):
    snapshots, refs, named, limits, read_on_from = table
    first = keep(snapshots, refs, named, limits, NOW, read_on_from=read_on_from)
    rest = [s for s in snapshots if s.id in first.kept]
    refs = [ref for ref in refs if ref.snapshot in first.kept and ref.name not in first.dead_branches]
    again = keep(rest, refs, named, limits, NOW, read_on_from=read_on_from)
    assert not set(again.expired) & set(first.kept) or any(r.max_age for r in refs)


@given(tables())
def test_main_keeps_its_head_its_newest_and_what_a_reader_has_not_read_and_must_know_of(table):
    snapshots, refs, named, limits, read_on_from = table
    found = keep(snapshots, refs, named, limits, NOW, read_on_from=read_on_from)
    by_id = {s.id: s for s in snapshots}
    lineage = [s.id for s in chain(by_id, refs[0].snapshot)]
    assert set(lineage[: limits.min_keep]) <= {*found.kept}
    for each in read_on_from & set(lineage):
        unread = lineage[: lineage.index(each)]
        assert {each, *unread[: 2 * limits.max_count]} <= {*found.kept}
        assert {i for i in unread if by_id[i].act} <= {*found.kept}


def test_a_branch_keeps_what_is_its_own_down_to_main_and_a_tag_one_snapshot():
    """Given both beside an old main, each with two commits of its own, then of main stays where the branch
    left it, and nothing before."""
    parents = {1: None, 2: 1, 3: 2, 10: 2, 11: 10, 20: 2, 21: 20}
    snapshots = [Snap(n, parent, NOW - 30 * DAY_MS + n, receipt=True) for n, parent in parents.items()]
    refs = [Ref("main", "branch", 3), Ref("audit", "branch", 11), Ref("v", "tag", 21)]
    found = keep(snapshots, refs, (), LIMITS, NOW)
    assert found.expired == (1, 20)
    assert (found.kept[10], found.kept[21]) == ("branch audit", "tag v")


def line(count, *, every=1, receipts=()):
    """A straight history, one snapshot each `every` ms, the newest at NOW."""
    return [Snap(n, n - 1 or None, NOW - (count - n) * every, n in receipts) for n in range(1, count + 1)]


def test_a_head_far_from_its_receipt_keeps_the_whole_way():
    """Given forty compactions since the last receipt, all older than max_age, when expired, then the way to it stays."""
    snapshots = line(50, every=DAY_MS, receipts={5, 10})
    found = keep(snapshots, [Ref("main", "branch", 50)], (), LIMITS, NOW)
    assert found.expired == tuple(range(1, 10))


def test_max_count_bounds_a_busy_table_and_min_keep_a_quiet_one():
    busy = keep(line(100, receipts=range(1, 101)), [Ref("main", "branch", 100)], (),
                Snapshots(max_age=timedelta(days=7), min_keep=5, max_count=30), NOW)  # fmt: skip
    assert len(busy.kept) == 30
    quiet = keep(line(100, every=10 * DAY_MS, receipts=range(1, 101)), [Ref("main", "branch", 100)], (),
                 Snapshots(max_age=timedelta(days=7), min_keep=20, max_count=30), NOW)  # fmt: skip
    assert len(quiet.kept) == 20


@pytest.mark.parametrize(
    ("said", "partitions", "most"),
    [
        ({}, 1, 2000),
        ({}, 85, 2000),
        ({}, 500, 369),
        ({}, 100_000, 20),
        ({"min_keep": 900}, 500, 900),
        ({"max_count": 2000}, 500, 2000),
    ],
)
def test_long_ledgers_leave_room_for_fewer_snapshots_unless_the_contract_says_how_many(
    said, partitions, most
):
    """Given a ledger in every second snapshot, some 90 letters a partition, then at most 8 MB of them stay, for each commit writes all of them again."""
    limits = Snapshots.model_validate(said)
    ledgers = [0, 500 + 90 * partitions] * 5000
    assert fitting(limits, ledgers).max_count == most
    assert fitting(limits, ledgers[:6]).max_count >= 6, "what is there fits"


@pytest.mark.parametrize(("acted_at", "stay"), [(None, 61), (50, 61), (20, 83), (1, 61)])
def test_a_consumer_that_pauses_keeps_no_history_without_end(acted_at, stay):
    """Given an upsert table that has merged the first of a hundred snapshots and reads no more, then twice as many as the table may have stay, and more only from an act on that it does not know of, with what it was done upon; so it is at the next expiry, when main is cut."""
    limits, refs = (
        Snapshots(max_age=timedelta(days=7), min_keep=5, max_count=30),
        [Ref("main", "branch", 100)],
    )
    snapshots = [replace(each, act=each.id == acted_at) for each in line(100, receipts=range(1, 101))]
    for _ in range(2):
        found = keep(snapshots, refs, {1}, limits, NOW, read_on_from={1})
        assert len(found.kept) == stay
        assert 1 in found.kept
        snapshots = [each for each in snapshots if each.id in found.kept]
    found = keep(
        [*snapshots, Snap(101, 100, NOW, receipt=True)], [Ref("main", "branch", 101)], {1}, limits, NOW
    )
    assert len(found.kept) == 31, "it has read on"


def test_dropped_stages_stay_for_a_day_and_what_was_rolled_back_or_others_have_staged_while_it_is_young():
    """Given a rollback, a stage that somebody is to pick, and stages whose branches were dropped, each of them two days ago, when expired, then the dropped ones go; a week later all but the head have gone."""
    snapshots = [
        Snap(1, None, NOW - 3 * DAY_MS, receipt=True),
        Snap(2, 1, NOW - 2 * DAY_MS, batch=True),
        Snap(3, 2, NOW - 2 * DAY_MS, receipt=True),
        Snap(4, 1, NOW - 2 * DAY_MS, batch=True),
        Snap(5, 1, NOW - DAY_MS + 1, batch=True),
        Snap(6, 1, NOW - DAY_MS, receipt=True),
        Snap(7, 1, NOW - 2 * DAY_MS),
    ]
    refs = [Ref("main", "branch", 6)]
    assert keep(snapshots, refs, (), LIMITS, NOW).expired == (4,)
    assert keep(snapshots, refs, (), LIMITS, NOW + 6 * DAY_MS).expired == (1, 2, 3, 4, 7, 5)


def test_the_property_of_a_batch_tells_its_stage_from_somebody_elses(tmp_path, monkeypatch):
    """Given two snapshots whose branches were dropped, one of a batch, when expired two days later, then that one goes."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("shop.orders", rows.schema)
    table.append(rows, snapshot_properties={LEDGER_PROPERTY: "{}"})
    for says in ({BATCH_PROPERTY: "b/1"}, {"wap.id": "audit"}):
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "stage").commit()
        table.append(rows, snapshot_properties=says, branch="stage")
        table.manage_snapshots().remove_branch("stage").commit()
    monkeypatch.setattr(expiry, "_now", lambda: int(time() * 1000) + 2 * DAY_MS)
    staged = table.metadata.snapshots[1].snapshot_id
    assert expiry.plan_expiry(table.metadata, LIMITS, Named()).expired == (staged,)


def test_what_was_rolled_back_is_walked_through_once():
    """Given as many snapshots as a table may have, all but the first rolled back, when expired, then in a moment, where each walked back for itself took minutes."""
    undone = line(20_000, receipts=range(1, 20_001))
    began = process_time()
    found = keep(
        [*undone, Snap(20_001, 1, NOW, receipt=True)], [Ref("main", "branch", 20_001)], (), LIMITS, NOW
    )
    assert (found.expired, process_time() - began < 5) == ((), True)


def test_branches_of_attempts_die_after_a_day_counted_from_their_making():
    """Given a table whose head is a week old, when an attempt branches off just now, then no expirer takes it for dead."""
    by_id = {1: Snap(1, None, NOW - 7 * DAY_MS, receipt=True)}
    fresh = Ref("tidemark_batch_a", "branch", 1, max_age=8 * DAY_MS - 60_000)
    stale = Ref("tidemark_batch_b", "branch", 1, max_age=2 * DAY_MS)
    assert not is_dead(fresh, by_id, 1, NOW)
    assert is_dead(stale, by_id, 1, NOW)
    assert not given_up(fresh, by_id, NOW)


def test_the_stage_of_a_live_attempt_stays_and_that_of_a_dead_one_goes():
    snapshots = [
        Snap(1, None, NOW - 3 * DAY_MS, receipt=True),
        Snap(2, 1, NOW - 3 * DAY_MS + 1),
        Snap(3, 1, NOW - 5),
    ]
    refs = [
        Ref("main", "branch", 1),
        Ref("tidemark_x_dead", "branch", 2, DAY_MS),
        Ref("tidemark_x_live", "branch", 3, 4 * DAY_MS),
    ]
    found = keep(snapshots, refs, (), LIMITS, NOW)
    assert (found.dead_branches, found.expired) == (("tidemark_x_dead",), (2,))


def test_an_attempt_began_where_its_branch_left_main():
    """Given an attempt with two commits of its own, then its age is counted from main's snapshot, and by its retention."""
    snaps = [Snap(1, None, 10, receipt=True), Snap(2, 1, 20, receipt=True), Snap(3, 2, 30), Snap(4, 3, 40)]
    by_id = {each.id: each for each in snaps}
    assert began_at(Ref("tidemark_abc_0", "branch", 4, DAY_MS), by_id, head=2) == 20
    assert began_at(Ref("tidemark_abc_0", "branch", 4, DAY_MS + 5), by_id, head=2) == 25
    assert began_at(Ref("tidemark_abc_0", "branch", 9, DAY_MS), by_id, head=2) == 0
