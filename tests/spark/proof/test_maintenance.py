"""Rule: maintenance changes files and snapshots, never rows, offsets or what someone still needs."""

import os
import threading
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from urllib.parse import urlparse

import oracle
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import SetSnapshotRefUpdate
from topics import order

from tidemark.domain.config.contract import Compaction, Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.backfill import Backfill, Source
from tidemark.domain.maintenance import compaction
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.access.foreign_commits import by_retention
from tidemark.engine.access.table_state import read_state
from tidemark.engine.ingest import microbatch as ingest
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain import expire, expire_rows
from tidemark.engine.maintain.compact import compact
from tidemark.engine.maintain.foreign_retention import is_aside
from tidemark.engine.maintain.health import health
from tidemark.engine.maintain.maintain import maintain, maintain_now, relieve
from tidemark.engine.operate.backfill.hold import hold
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.lease import INGEST_FIRST, Leased, lease
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_offset

pytestmark = pytest.mark.makes_code

SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 1}}
"""A hot partition then waits for eight files; only what is needed outlives an expiry."""
DAY_MS = 86_400_000
ADA = Signature("ada", "a test")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def gains(table, *kinds, **how):
    found = {(g.table, g.kind): g for g in maintain(table.lakehouse.lake, table.contract, kinds, **how)}
    assert not [g for g in found.values() if g.error], found
    return found


def gain(table, kind, **how):
    return gains(table, kind, **how)[table.name, kind]


def fed(lakehouse, name, batches, size=10, **contract):
    """A table of `batches` microbatches, two Kafka partitions, poison in the first."""
    topic = lakehouse.cluster.topic(name, 2)
    table = lakehouse.table(topic, **{"maintenance": SOON, **contract})
    topic.send_raw([(None, b"poison", 0)])
    for batch in range(batches):
        topic.send(range(batch * size, batch * size + size))
        assert table.run().state == "fresh"
    return topic, table


@pytest.mark.parametrize(
    ("format_version", "layout"),
    [
        pytest.param(2, {"partition_by": ["bucket(2, customer)"]}, marks=pytest.mark.long),
        (3, {"partition_by": ["day(at)"], "sort_by": ["customer"]}),
    ],
)
def test_compaction_leaves_few_files_every_row_and_the_ledger(lakehouse, monkeypatch, format_version, layout):
    """Given five microbatches, when compacted, then a scan opens as few files as a fresh table has, and ingest goes on; below the thresholds nothing is done."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 2)
    topic, table = fed(
        lakehouse, "compacted", 5, format_version=format_version, quarantine={"fail": 1}, **layout
    )
    head = table.head
    assert not gain(table, "compaction", dry_run=True).acted
    assert table.head == head
    found = gain(table, "compaction")
    assert found.acted
    assert found.numbers["commits"] == 1
    assert (found.numbers["read_amplification_before"], found.numbers["read_amplification_after"]) == (5, 1)
    topic.send(range(50, 60))
    assert table.run().state == "fresh"
    assert table.ids() == list(range(60))
    assert table.holds_everything().quarantined == 1
    again = gain(table, "compaction")
    assert not again.acted
    assert "min_input_files" in again.reason
    assert health(lakehouse.lake, table.contract).faults == ()


def test_manifests_of_each_partition_spec_become_one_and_are_left_alone_then(lakehouse, monkeypatch):
    """Given three manifests of each of three partition specs, as writers leave them that merge none, when compacted, then each spec has one but for that whose column is gone, and the next compaction does nothing."""
    monkeypatch.setattr(compaction, "MANY_MANIFESTS", 3)
    name, run = f"shop.scattered_{uuid.uuid4().hex[:6]}", lakehouse.spark().sql
    run("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    run(
        f"CREATE TABLE lake.{name} (id bigint, p bigint, q bigint) USING iceberg PARTITIONED BY (p) "
        "TBLPROPERTIES ('commit.manifest-merge.enabled' = 'false')"
    )
    for change in ("REPLACE PARTITION FIELD p WITH q", "DROP PARTITION FIELD q", "DROP COLUMN p"):
        for n in range(3):
            run(f"INSERT INTO lake.{name} VALUES ({n}, 1, {n})")
        run(f"ALTER TABLE lake.{name} {change}")
    limits = Compaction(min_input_files=9)
    found, again = (compact(lakehouse.lake, name, limits, until=inf, dry_run=False) for _ in range(2))
    assert (found.acted, found.numbers["commits"], found.numbers["manifests_rewritten"]) == (True, 2, 6)
    assert (found.numbers["manifests_before"], found.numbers["manifests_after"]) == (9, 5)
    assert not again.acted, again
    assert sorted(row["id"] for row in run(f"SELECT id FROM lake.{name}").collect()) == sorted(
        [*range(3)] * 3
    )


def test_a_table_full_of_snapshots_is_relieved_of_them_and_no_other(lakehouse):
    """Given eleven snapshots, when nine are allowed, then it can wait for the night; when three are, a relief leaves those."""
    _, table = fed(lakehouse, "overfull", 5, maintenance={"snapshots": {"min_keep": 1, "max_count": 9}})
    limits = table.contract.maintenance
    assert len(table.iceberg().metadata.snapshots) == 11
    assert list(relieve(lakehouse.lake, table.contract)) == []
    three = limits.model_copy(update={"snapshots": limits.snapshots.model_copy(update={"max_count": 3})})
    fewer = table.contract.model_copy(update={"maintenance": three})
    (relief,) = relieve(lakehouse.lake, fewer)
    assert (relief.table, relief.kind, relief.acted) == (table.name, "snapshot_expiry", True)
    assert len(table.iceberg().metadata.snapshots) == 3
    assert list(relieve(lakehouse.lake, fewer)) == []
    assert table.holds_everything().quarantined == 1


def test_expiry_keeps_what_is_named_whatever_others_have_set(lakehouse, monkeypatch):
    """Given a compacted table with someone's tag, snapshots that a mart, a review and a backfill name, a live and a dead
    attempt and aggressive foreign settings, when expired, then exactly what is needed is left and can be read."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    topic, table = fed(lakehouse, "expired", 5)
    spark, lake = lakehouse.spark(), lakehouse.lake
    receipts = [each["snapshot_id"] for each in oracle.ledgers(table.iceberg())]
    spark.sql(f"ALTER TABLE {table.name} CREATE TAG audit AS OF VERSION {receipts[2]}")
    named = {"tidemark.named.mart": receipts[4], "tidemark.named.review.4711": receipts[3]}
    foreign = {"history.expire.max-snapshot-age-ms": 1000, **named}
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in foreign.items())
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({listed})")
    copied = Backfill(source="table", since=NOON, until=NOON, start={}, end={}, epoch=0, snapshot=receipts[1])
    hold(lake, Contract(topic="t", table="s.copy"), Source("table", table.name), copied, print)
    assert gain(table, "compaction").acted
    spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH tidemark_live_a RETAIN 1441 MINUTES")
    head, newest = table.head, receipts[-1]
    time.sleep(1)
    found = gain(table, "snapshot_expiry")
    assert found.acted
    left = {s.snapshot_id for s in table.iceberg().metadata.snapshots}
    assert left == {head, newest, *receipts[1:5]}
    assert found.numbers["files_deleted"] > 0
    counted = spark.sql(f"SELECT count(*) AS n FROM {table.name} VERSION AS OF 'audit'").collect()
    assert counted[0]["n"] == 20
    assert "tidemark_live_a" in table.iceberg().metadata.refs
    topic.send(range(50, 60))
    assert table.run().rows.written == 10

    # a default age of refs would cost the tag, main's own retention its history, and Spark applies both
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('history.expire.max-ref-age-ms' = '1000')")
    forgetful(table)
    time.sleep(1)
    real = expire._now
    monkeypatch.setattr(expire, "_now", lambda: real() + 2 * DAY_MS)
    assert gain(table, "snapshot_expiry").acted
    metadata = table.iceberg().metadata
    kept = {"main", "audit", "tidemark_ledger", "tidemark_backfill_s.copy"}
    assert set(metadata.refs) == kept, "the other run is two days dead by now"
    assert set(receipts[1:5]) < {s.snapshot_id for s in metadata.snapshots}
    assert metadata.properties["history.expire.max-ref-age-ms"] == "1000"
    assert not is_aside(metadata)
    monkeypatch.setattr(expire, "_now", real)

    # a managed catalog keeps only the current snapshot: the tag holds the ledger
    spark.sql(f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ('history.expire.max-ref-age-ms')")
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    )
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    gains(table, "compaction", "snapshot_expiry")
    topic.send(range(60, 70))
    assert table.run().rows.written == 10
    assert table.ids() == list(range(70))
    assert oracle.count_by_spark(spark, table.name) == oracle.count_by_pyiceberg(table.iceberg())
    with lease(lake, table.name), pytest.raises(Leased), lease(lake, table.name):
        raise AssertionError("two leases at once")


def test_a_table_whose_files_may_be_others_too_keeps_its_snapshots_and_says_why(lakehouse, monkeypatch):
    """Given `gc.enabled: false`, when two days have passed, then no snapshot expires, and dead attempts are dropped."""
    _, table = fed(lakehouse, "lent", 2, table_properties={"gc.enabled": False})
    lakehouse.spark().sql(f"ALTER TABLE {table.name} CREATE BRANCH tidemark_dead_a RETAIN 1441 MINUTES")
    real, before = expire._now, table.snapshots
    monkeypatch.setattr(expire, "_now", lambda: real() + 2 * DAY_MS)
    for acted in (True, False):
        found = gain(table, "snapshot_expiry")
        assert found.acted is acted
        assert "gc.enabled is false" in found.reason
        assert "by others" not in found.reason
        assert (table.snapshots, table.branches) == (before, set())
    table.holds_everything()


def forgetful(table):
    """Someone lets main forget what is older than a second."""
    loaded = table.iceberg()
    update = SetSnapshotRefUpdate(
        ref_name="main",
        type="branch",
        snapshot_id=table.head,
        max_ref_age_ms=None,
        max_snapshot_age_ms=1000,
        min_snapshots_to_keep=1,
    )
    loaded._do_commit(updates=(update,), requirements=())


def test_orphans_go_when_they_are_old_and_never_while_they_may_be_someones_stage(lakehouse):
    """Given strange files, old and young, beside a running ingest, when removed, then only the old one is gone."""
    topic, table = fed(lakehouse, "orphans", 2)
    data = Path(urlparse(table.iceberg().location()).path) / "data"
    old, young = data / "old.parquet", data / "young.parquet"
    for each in (old, young):
        each.write_bytes(b"nobody's")
    os.utime(old, (time.time() - 4 * 86_400,) * 2)
    used = next(iter(table.iceberg().scan().plan_files())).file.file_path
    os.utime(urlparse(used).path, (time.time() - 9 * 86_400,) * 2)
    assert [Path(f).name for f in gain(table, "orphan_files", dry_run=True).plan["files"]] == ["old.parquet"]
    assert old.exists()
    topic.send(range(20, 400))
    run = threading.Thread(target=table.run)
    run.start()
    found = gain(table, "orphan_files")
    run.join()
    assert found.numbers["orphans"] == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert table.run().state == "fresh"
    assert table.ids() == list(range(400))
    table.holds_everything()


def test_rows_go_with_age_and_reconcile_still_knows_every_offset(lakehouse):
    """Given records of forty days, of now, and a batch with both, when retention is a month, then the old rows are gone, no offset counts as a gap, and ingest goes on."""
    topic = lakehouse.cluster.topic("aged", 1, retention_ms="-1")
    table = lakehouse.table(topic, retention={"append": "30d"}, maintenance=SOON)
    now = int(time.time() * 1000)
    for numbers, age in ((range(10), 40), (range(10, 13), 40), (range(13, 20), 0), (range(20, 25), 0)):
        producer = topic._new_producer()
        for n in numbers:
            producer.produce(
                topic.name, topic.encode(order(n)), str(n).encode(), 0, timestamp=now - age * DAY_MS
            )
        producer.flush(30)
        if len(numbers) != 3:
            table.run()
    before = table.ledger
    found = gains(table, "snapshot_expiry")[table.name, "retention"]
    assert (found.acted, found.numbers["rows_deleted"]) == (True, 13)
    assert by_retention(lakehouse.catalog.load_table(table.name).metadata) == {table.head}
    assert table.ids() == list(range(13, 25))
    assert table.ledger["next"] == before["next"]
    topic.send(range(25, 30))
    assert table.run().rows.written == 5
    verdict = reconcile(lakehouse.lake, table.contract)
    assert verdict.sound, verdict
    assert verdict.records == 17
    assert not gains(table, "snapshot_expiry")[table.name, "retention"].acted
    (aged,) = where_offset(lakehouse.lake, table.contract, 0, 3)
    assert (aged.fate, aged.lost) == ("deleted", False)
    assert "retention has deleted the rows of records from before" in aged.why
    left = Selection(partition=0, first=8, upto=15)
    back = replay(lakehouse.lake, table.contract, left, Signature("ada", "a test"), quarantine=False)
    assert (back.arguments["written"], back.arguments["beyond_retention"]) == (7, 5)
    assert table.ids() == [*range(8, 13), *range(13, 30)]
    assert gains(table, "snapshot_expiry")[table.name, "retention"].numbers["rows_deleted"] == 5
    assert reconcile(lakehouse.lake, table.contract).sound
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE id = 27")
    assert reconcile(lakehouse.lake, table.contract).counts[0].gaps == [(27, 28)]
    assert where_offset(lakehouse.lake, table.contract, 0, 27)[0].lost


@pytest.mark.parametrize("format_version", [pytest.param(2, marks=pytest.mark.long), 3])
def test_rows_that_a_wrong_retention_took_are_back_after_a_rollback_and_missing_again_where_they_go(
    lakehouse, monkeypatch, format_version
):
    """Given a retention of a day by mistake, when its delete is rolled back, then the table no longer says that rows of
    records from before may be gone: one that somebody deletes is a gap. What retention takes while a rollback is at
    work it says all the same."""
    topic = lakehouse.cluster.topic("mistaken", 1, retention_ms="-1")
    table = lakehouse.table(topic, retention={"append": "1d"}, format_version=format_version)
    now, producer = int(time.time() * 1000), topic._new_producer()
    for n in range(10):
        age = 40 if n < 5 else 0
        sent = now - age * DAY_MS
        producer.produce(topic.name, topic.encode(order(n)), str(n).encode(), 0, timestamp=sent)
    producer.flush(30)
    table.run()
    before = table.iceberg().metadata.current_snapshot_id
    assert gains(table, "snapshot_expiry")[table.name, "retention"].numbers["rows_deleted"] == 5
    undo = partial(rollback, lakehouse.lake, table.contract, Target(snapshot_id=before), ADA)
    undo()
    assert table.ids() == list(range(10))
    assert not table.iceberg().properties[EXPIRED_BEFORE]
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE id = 2")
    assert reconcile(lakehouse.lake, table.contract).counts[0].gaps == [(2, 3)]
    resume(lakehouse.lake, table.contract, ADA)

    def meanwhile(point):
        if point == "retention_noted":
            topic.send(range(10, 12))
            table.run()
            undo()

    monkeypatch.setattr(expire_rows, "pause_point", meanwhile)
    assert gains(table, "snapshot_expiry")[table.name, "retention"].acted
    assert table.ids() == list(range(5, 10))
    assert reconcile(lakehouse.lake, table.contract).counts[0].gaps == []


def test_an_upsert_table_is_maintained_with_its_topic_and_nothing_unmerged_goes(lakehouse):
    """Given old records, merged up to the second batch, when maintained between merges, then the map is right, deletes are merged away, the named snapshot stays, and only merged rows go with age."""
    topic = lakehouse.cluster.topic("mapped", 1)
    table = lakehouse.table(topic, upsert=["customer"], retention={"append": "30d"}, maintenance=SOON)
    current = upsert_table_of(table.contract)
    old = int(time.time() * 1000) - 40 * DAY_MS

    def batch(first, age=old):
        producer = topic._new_producer()
        for n in range(first, first + 7):
            producer.produce(topic.name, topic.encode(order(n)), str(n).encode(), 0, timestamp=age + n)
        producer.flush(30)
        assert table.run().error is None

    batch(0)
    assert "to read again" in gains(table, "snapshot_expiry")[table.name, "retention"].reason
    for first in (7, 14):
        assert catch_up_merges(lakehouse.lake, current, "test").error is None
        batch(first)
    upsert = current.contract.table
    found = gains(table, "compaction", "snapshot_expiry")
    assert not found[table.name, "retention"].acted, "the cut is the midnight before the oldest unmerged row"
    metadata = table.iceberg().metadata
    merged = read_state(lakehouse.catalog, upsert).merged
    assert metadata.snapshot_by_id(merged.append_snapshot) is not None
    compacted = found[upsert, "compaction"]
    assert compacted.acted, compacted
    assert compacted.numbers["delete_files_after"] == 0
    only_the_newest_is_left(table)
    assert catch_up_merges(lakehouse.lake, current, "test").error is None
    only_the_newest_is_left(table)
    merged = read_state(lakehouse.catalog, upsert).merged
    assert table.iceberg().metadata.snapshot_by_id(merged.append_snapshot) is None
    batch(21, int(time.time() * 1000))
    assert gains(table, "snapshot_expiry")[table.name, "retention"].numbers["rows_deleted"] == 21
    assert catch_up_merges(lakehouse.lake, current, "test").error is None
    rows = (
        lakehouse.catalog.load_table(upsert).scan(selected_fields=("id", "customer")).to_arrow().to_pylist()
    )
    assert {row["customer"]: row["id"] for row in rows} == {f"c{n % 7}": n for n in range(21, 28)}
    assert len(rows) == 7
    by_spark = lakehouse.spark().sql(f"SELECT id FROM {upsert}").collect()
    assert sorted(row["id"] for row in by_spark) == list(range(21, 28))
    lakehouse.spark().sql(f"ALTER TABLE {table.name} DROP TAG tidemark_ledger")
    only_the_newest_is_left(table)
    with pytest.raises(Stopped) as stopped:
        maintain_now(lakehouse.lake, table.contract, ("snapshot_expiry",), Signature("ada", "a test"))
    said = str(stopped.value)
    assert (stopped.value.state, stopped.value.table) == ("ledger_missing", table.name)
    assert f"{table.name} retention: ledger_missing: Looked through main and the tag." in said
    assert (said.count("its history carries no ledger"), said.count("Next: ")) == (1, 1), said


def only_the_newest_is_left(table):
    """As a foreign maintenance leaves it that compacts, and expires what it can."""
    rewrite = f"rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    newest = "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
    for call in (rewrite, rewrite, f"expire_snapshots(table => '{table.name}', {newest})"):
        table.lakehouse.spark().sql(f"CALL lake.system.{call}")


@pytest.mark.long
def test_maintenance_in_the_middle_of_everything_loses_nothing(lakehouse):
    """Given compaction and expiry again and again, when batches come, a column is added and someone rolls back meanwhile, then every record is there once."""
    topic, table = fed(lakehouse, "busy", 4, quarantine={"fail": 1})
    other, over, seen = lakehouse.open_lake(), threading.Event(), []

    def again_and_again():
        while not over.is_set():
            seen.extend(maintain(other, table.contract, ("compaction", "snapshot_expiry")))

    busy = threading.Thread(target=again_and_again)
    busy.start()
    try:
        for batch in range(4, 12):
            topic.send(range(batch * 10, batch * 10 + 10))
            assert table.run().error is None
            if batch == 6:
                lakehouse.spark().sql(f"ALTER TABLE {table.name} ADD COLUMN note string AFTER amount")
            if batch == 8:
                target = oracle.ledgers(table.iceberg())[-1]["snapshot_id"]
                lakehouse.spark().sql(
                    f"CALL lake.system.rollback_to_snapshot('{table.name}', {target})"
                ).collect()
    finally:
        over.set()
        busy.join()
    assert not [each for each in seen if each.error], [each.error for each in seen if each.error]
    assert table.run().state == "fresh"
    assert table.ids() == list(range(120))
    table.holds_everything()


def test_ingest_that_keeps_losing_is_left_alone(lakehouse, monkeypatch):
    topic, table = fed(lakehouse, "losing", 1)
    real, lost = ingest.publish, []

    def overtaken(*how, **more):
        if len(lost) < 3:
            lost.append(how)
            raise Overtaken(table.name, 1, 2)
        return real(*how, **more)

    monkeypatch.setattr(ingest, "publish", overtaken)
    topic.send(range(10, 20))
    assert table.run().state == "fresh"
    assert INGEST_FIRST in table.iceberg().metadata.properties
    assert "overtaken" in gain(table, "compaction").reason


def test_a_table_is_given_back_whatever_ingest_commits_meanwhile(lakehouse):
    """Given a commit every few moments, when the lease is taken and given back again and again, then it is free each time."""
    _, table = fed(lakehouse, "given_back", 1)
    over, commits, given_back = threading.Event(), [], 0

    def again_and_again():
        while not over.wait(0.06):
            with suppress(CommitFailedException):
                with table.iceberg().transaction() as change:
                    change.set_properties({"ingest": str(len(commits))})
                commits.append(change)

    busy = threading.Thread(target=again_and_again)
    busy.start()
    try:
        while busy.is_alive() and (given_back < 20 or len(commits) < 20):
            with lease(lakehouse.lake, table.name), pytest.raises(Leased), lease(lakehouse.lake, table.name):
                pass
            given_back += 1
    finally:
        over.set()
        busy.join()
    assert given_back >= 20
    assert len(commits) >= 20
    assert table.branches == set()


def test_a_tag_that_stayed_behind_follows_before_compaction_hides_the_receipt(lakehouse):
    """Given a run that died before it moved the tag, when the table is compacted, then whoever keeps one snapshot alone leaves the newest ledger."""
    _, table = fed(lakehouse, "tagged", 8, size=1)
    first = next(
        s for s in table.iceberg().snapshots() if "tidemark.ledger" in s.summary.additional_properties
    )
    behind = f"CREATE OR REPLACE TAG `tidemark_ledger` AS OF VERSION {first.snapshot_id}"
    lakehouse.spark().sql(f"ALTER TABLE {table.name} {behind}")
    assert gain(table, "compaction").acted
    state = lakehouse.lake.state(table.name)
    assert state.tagged == state.receipt != state.head
