"""Upsert tables the whole way: topic, append table, merge; whatever comes, the table is the topic replayed into a map."""

import threading
from pathlib import Path
from urllib.parse import urlparse

import oracle
import pytest
from lakehouse import Run
from upserted import Upserted
from waiting import until

from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.table.operations import Signature

pytestmark = pytest.mark.makes_code

KEYS = 24_000


@pytest.mark.parametrize("format_version", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_compacted_topic_becomes_its_current_state(lakehouse, format_version):
    """Given updates, deletes and re-inserts in one batch and in many, then the table is the map that replaying gives."""
    made = Upserted(lakehouse, format_version=format_version, partition_by=["region"])
    done = made.both(*((n, f"a{n}") for n in range(10)), (3, None), (4, None), (4, "back"))
    assert (done.inserted, done.absent, done.superseded) == (9, 1, 3)
    expected = {n: f"a{n}" for n in range(10) if n != 3} | {4: "back"}
    assert made.rows() == expected
    identifiers = made.table().schema().identifier_field_ids
    assert [made.table().schema().find_column_name(i) for i in identifiers] == ["id"]

    done = made.both(
        (0, "x"), (1, None), (11, "n"), (11, "m"), (11, None), (12, "n"), (12, "m"), (2, "b", 0, "us")
    )
    assert (done.inserted, done.updated, done.deleted, done.absent) == (1, 2, 1, 1)
    kinds = {row["file_path"].rpartition(".")[2] for row in made.table().inspect.delete_files().to_pylist()}
    assert kinds == ({"puffin"} if format_version == 3 else {"parquet"}), "merge-on-read"
    expected |= {0: "x", 2: "b", 12: "m"}
    del expected[1]
    assert made.rows() == expected, "a row whose partition changed has moved, and is there once"

    lakehouse.spark().sql(f"CALL lake.system.rewrite_data_files(table => '{made.name}')")
    lakehouse.spark().sql(f"CALL lake.system.rewrite_data_files(table => '{made.append.name}')")
    assert made.merge() is None
    assert made.rows() == expected, "compaction brings nothing back"

    before = made.table().metadata.current_snapshot_id
    first = oracle.ledgers(made.table())[0]["snapshot_id"]
    lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{made.name}', {first})")
    assert made.table().metadata.current_snapshot_id != before
    made.merge()
    assert made.rows() == expected, "what a rollback of the upsert table undid is merged again"


@pytest.mark.parametrize(
    "arrive",
    [
        pytest.param(True, id="counted on the way", marks=pytest.mark.long),
        pytest.param(False, id="counts are lost"),
    ],
)
def test_a_first_merge_counts_the_same_whether_its_counts_arrive(lakehouse, monkeypatch, arrive):
    """Also one that has nothing to insert."""
    if not arrive:
        monkeypatch.setattr("tidemark.engine.merge.stage.tally_from", lambda *_: None)
    made = Upserted(lakehouse)
    done = made.both((1, None), (2, None), (2, None))
    assert (done.inserted, done.absent, done.superseded) == (0, 2, 1)
    assert made.rows() == {}
    made.both((1, "a"))
    assert made.rows() == {1: "a"}
    other = Upserted(lakehouse)
    done = other.both((1, "a"), (1, "b"), (2, "c"), (3, "d"), (3, None), (4, None))
    assert (done.inserted, done.absent, done.superseded) == (2, 2, 2)
    assert other.rows() == {1: "b", 2: "c"}


@pytest.mark.long
def test_soft_deletes_keep_the_row_and_mark_it(lakehouse):
    made = Upserted(lakehouse, deletes="soft")
    made.both((1, "a"), (2, "b"))
    done = made.both((1, None), (3, None))
    assert (done.deleted, done.absent) == (1, 1)
    found = {r["id"]: (r["v"], r["_is_deleted"]) for r in made.table().scan().to_arrow().to_pylist()}
    assert found == {1: ("a", True), 2: ("b", False), 3: (None, True)}
    made.both((1, "c"))
    assert made.rows() == {1: "c", 2: "b"}


def test_two_merges_at_once_do_the_work_once_and_a_replay_undoes_nothing(lakehouse):
    """Given the same rows to merge, when two processes start together, then each row is there once and nothing is lost;
    given keys that were changed, deleted and made again after a range, when it is replayed, then they stay so."""
    made = Upserted(lakehouse, partitions=1)
    made.both(*((n, "a") for n in range(20)))
    made.send((0, None), (1, None), (1, "again"), *((n, "b") for n in range(10, 30)))
    made.append.run()
    lakes = [lakehouse.open_lake(), lakehouse.open_lake()]
    results = []
    threads = [threading.Thread(target=lambda each=each: results.append(made.merge(each))) for each in lakes]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(each.read for each in results if each) == 23
    expected = {1: "again"} | dict.fromkeys(range(2, 10), "a") | dict.fromkeys(range(10, 30), "b")
    assert made.rows() == expected

    replay_range(lakehouse.lake, made.append.contract, 0, 0, 12, Signature("ada", "a test", run_id="r"))
    assert made.merge() is not None, "the range is read again"
    assert made.rows() == expected
    assert made.merge() is None


@pytest.mark.long
@pytest.mark.parametrize("format_version", [2, 3])
def test_a_merge_killed_at_any_point_is_continued_exactly(lakehouse, format_version):
    """Given merges killed one after the other at each line before they publish, then nothing of them is seen, and the next one does the work."""
    made = Upserted(lakehouse, format_version=format_version, order_by=["ts"])
    made.both(*((n, "a", 1) for n in range(6)))
    made.send((0, "b", 2), (1, None), (9, "n", 2))
    made.append.run()
    points = ["planned", "branched", "remembered", "merged", "staged", "audited", "receipted", "publishing"]
    for point in points:
        Run.start(lakehouse, [made.name], pause_at=point).dies()
        assert made.rows() == dict.fromkeys(range(6), "a"), point
    Run.start(lakehouse, [made.name], pause_at="published").dies()
    expected = {0: "b", 9: "n", **dict.fromkeys(range(2, 6), "a")}
    assert made.rows() == expected
    made.merge()

    made.send((2, None), (1, "late", 0), (3, "c", 3))
    made.append.run()
    run = Run.start(lakehouse, [made.name], pause_at="audited")
    run.reaches_its_pause()
    for table in (made.name, made.append.name):
        options = "options => map('rewrite-all', 'true')"
        lakehouse.spark().sql(f"CALL lake.system.rewrite_data_files(table => '{table}', {options})")
    run.release()
    assert [each["commits"] for each in run.result()] == [1], "planned again on what compaction left"
    del expected[2]
    expected[3] = "c"
    assert made.rows() == expected, "deleted rows stay deleted"
    assert made.merge() is None


def test_a_merge_killed_while_the_server_writes_for_it_disturbs_no_successor(lakehouse):
    """Given a client killed in the middle of its MERGE statement, then the server goes on for nobody, and the next merge does the work once."""
    made = Upserted(lakehouse, partitions=1)
    made.both(*((n, "a") for n in range(KEYS)))
    made.send(*((n, None if n % 3 == 0 else "b") for n in range(KEYS)))
    made.append.run()
    head, there = made.table().metadata.current_snapshot_id, _files(made.table())
    run = Run.start(lakehouse, [made.name])
    until(lambda: _files(made.table()) - there, "the server to begin writing", 120)
    run.kill()
    refs = made.table().metadata.refs
    (branch,) = (name for name in refs if name.startswith("tidemark_") and name != "tidemark_ledger")
    assert refs[branch].snapshot_id == head, "the MERGE was over before the kill"
    done = made.merge()
    assert (done.updated, done.deleted) == (KEYS - KEYS // 3, KEYS // 3)
    expected = {n: "b" for n in range(KEYS) if n % 3}
    assert made.rows() == expected
    until(
        lambda: made.table().metadata.refs[branch].snapshot_id != head, "the dead client's MERGE to end", 120
    )
    assert made.merge() is None
    assert made.rows() == expected


def _files(table):
    return set((Path(urlparse(table.location()).path) / "data").rglob("*.parquet"))
