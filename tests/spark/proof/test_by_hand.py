"""Rule: what somebody alters by hand beside the verbs stops no table for good, and is never told in Spark's words alone."""

import json
from uuid import uuid4

import pytest
from replayable import NEWER, sound, with_replayable
from unsaid import say_less
from upserted import Upserted

import tidemark.engine.table.settle as settling
from tidemark.domain.errors import Stopped
from tidemark.engine.access.totals import totals_of, totals_said
from tidemark.engine.ingest.quarantine import QuarantineCommit, undo
from tidemark.engine.operate.pause import pause, resume
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature, log_operation
from tidemark.engine.verify.reconcile import reconcile

ADA = Signature("ada", "a test", run_id="by-hand")
FORMAT_3 = "SET TBLPROPERTIES ('format-version' = '3')"


def alter(lakehouse, table, change):
    lakehouse.spark().sql(f"ALTER TABLE lake.{table} {change}")


def test_a_quarantine_whose_format_was_raised_follows_replays_and_rollbacks(lakehouse):
    """Given a quarantine table of format 3, when its records are replayed and that is rolled back, then each is done there, and what an overtaken attempt has put there can be taken back."""
    table = with_replayable(lakehouse)
    target, name = table.head, table.contract.quarantine_table
    alter(lakehouse, name, FORMAT_3)
    assert replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments["moved"] == 6
    sound(table, rows=46, waiting=1)
    assert not [ref for ref in lakehouse.catalog.load_table(name).metadata.refs if ref != "main"]
    rollback(lakehouse.lake, table.contract, Target(target), ADA)
    resume(lakehouse.lake, table.contract, ADA)
    assert table.run().state == "fresh"
    sound(table, rows=40, waiting=7)

    def head():
        return lakehouse.catalog.load_table(name).metadata.current_snapshot_id

    before = head()
    lakehouse.spark().sql(f"INSERT INTO lake.{name} SELECT * FROM lake.{name} LIMIT 1")
    change = QuarantineCommit(name, before, head())
    undo(lakehouse.lake, change)
    assert head() == before
    lakehouse.spark().sql(f"INSERT INTO lake.{name} SELECT * FROM lake.{name} LIMIT 1")
    others = head()
    undo(lakehouse.lake, change)
    assert head() == others


def test_an_act_that_took_place_is_not_told_as_failed_for_what_somebody_did_to_the_quarantine(
    lakehouse, meanwhile
):
    """Given a column of the quarantine that is renamed right behind the receipt of a replay, then the replay is told as done, and the next run that needs the column stops until it has its name."""
    table = with_replayable(lakehouse)
    renamed = f"ALTER TABLE lake.{table.contract.quarantine_table} RENAME COLUMN"
    meanwhile(settling, "load", lambda: lakehouse.spark().sql(f"{renamed} resolved_by TO who"))
    assert replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments["moved"] == 6
    assert table.run().error is not None
    lakehouse.spark().sql(f"{renamed} who TO resolved_by")
    assert table.run().state == "fresh"
    sound(table, rows=46, waiting=1)


def test_an_operations_log_whose_format_was_raised_is_written_on(lakehouse):
    """Given the log of an earlier Tidemark that somebody has raised to format 3, when tables are paused and resumed, then it has a row of each act, with all that its run has told."""
    topic = lakehouse.cluster.topic("logged")
    topic.send(range(3))
    table = lakehouse.table(topic)
    table.run()
    lake, namespace = lakehouse.lake, f"ops_{uuid4().hex[:6]}"
    lake.platform = lake.platform.model_copy(update={"default_namespace": namespace})
    pause(lake, table.contract, ADA)
    log = f"{namespace}.tidemark_operations"
    alter(lakehouse, log, FORMAT_3)
    alter(lakehouse, log, "DROP COLUMN authenticated")
    alter(lakehouse, log, "ADD COLUMN ticket STRING")
    resume(lake, table.contract, Signature("bob", "over", run_id="r2", authenticated="bob@host"))
    eve = Signature("eve", "again", run_id="r3")
    pause(lake, table.contract, eve)
    log_operation(lake, eve, "pause", table.name, {"more": 1})
    found = lakehouse.catalog.load_table(log).scan().to_arrow().sort_by("at").to_pylist()
    assert [(row["verb"], row["by"], row["authenticated"]) for row in found] == [
        ("pause", "ada", None),
        ("resume", "bob", "bob@host"),
        ("pause", "eve", None),
    ]
    assert (json.loads(found[1]["arguments"]), found[1]["after_snapshot"]) == ({"dry_run": False}, table.head)
    assert json.loads(found[2]["arguments"]) == {"dry_run": False, "more": 1}, "its own words come last"
    assert found[0]["at"] < found[1]["at"] < found[2]["at"]


def test_rows_that_somebody_inserted_twice_are_made_one_each_before_the_quarantine_is_replayed(lakehouse):
    """Given offsets that stand in the table twice, when the quarantine around them is replayed, then what it says is a way out."""
    topic = lakehouse.cluster.topic("twice", 1)
    known, unknown = topic.schema_id, lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id
    for first in (0, 10):
        topic.send(range(first, first + 8))
        topic.schema_id = unknown
        topic.send(range(first + 8, first + 10))
        topic.schema_id = known
    table = lakehouse.table(topic, quarantine={"fail": 1.0})
    assert table.run().rows.quarantined == 4
    topic.use(NEWER)
    alike = f"SELECT * FROM lake.{table.name} WHERE id BETWEEN 12 AND 14"
    lakehouse.spark().sql(f"INSERT INTO lake.{table.name} {alike}")
    with pytest.raises(Stopped, match="nothing was published") as stopped:
        replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA)
    assert f"tidemark reconcile {table.name} names" in stopped.value.next_step
    assert f"tidemark replay {table.name} --partition" in stopped.value.next_step
    [count] = reconcile(lakehouse.lake, table.contract).counts
    assert count.duplicates == [(12, 15)]
    replay_range(lakehouse.lake, table.contract, 0, 12, 15, ADA)
    again = Signature("ada", "again", run_id="by-hand-2")
    assert replay_quarantine(lakehouse.lake, table.contract, Selection(), again).arguments["moved"] == 4
    sound(table, rows=20, waiting=0)


def test_what_somebody_deleted_from_the_quarantine_is_brought_back_and_counted_once(lakehouse):
    """Given quarantine rows of the last batch that are gone, when its offsets are replayed as the stop says, then the totals are what they were."""
    table = with_replayable(lakehouse)
    table.topic.send(range(46, 54))
    table.topic.send_raw([(None, b"poison", 0)] * 2)
    assert table.run().rows.quarantined == 2
    totals, first, end = (table.ledger[key] for key in ("totals", "from", "next"))
    lost = f"partition = 0 AND offset >= {first['0']}"
    lakehouse.spark().sql(f"DELETE FROM lake.{table.contract.quarantine_table} WHERE {lost}")
    table.topic.send(range(54, 56))
    stopped = table.run()
    assert stopped.state == "failed"
    assert "holds 0 of 2 rows" in stopped.error["message"]
    replay_range(lakehouse.lake, table.contract, 0, first["0"], end["0"], ADA)
    assert table.ledger["totals"] == totals
    assert table.run().state == "fresh"
    sound(table, rows=50, waiting=9)


def test_a_quarantine_table_that_is_gone_stops_ingest_until_it_is_back_or_was_read_again(lakehouse):
    """Given a record in quarantine and good batches behind it, when the table of the quarantine is renamed, then the next batch waits until it has its name; when it is dropped, until the batch of that record is replayed."""
    topic = lakehouse.cluster.topic("unwanted", 1)
    topic.send(range(5))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    table.run()
    topic.send([5])
    assert table.run().state == "fresh"
    name = table.contract.quarantine_table
    alter(lakehouse, name, f"RENAME TO {name}_old")
    topic.send([6])
    stopped = table.run()
    assert (stopped.state, stopped.commits) == ("failed", 0)
    assert f"{name} is gone, with 1 record" in stopped.error["message"]
    alter(lakehouse, f"{name}_old", f"RENAME TO {name}")
    assert table.run().state == "fresh"
    totals = table.ledger["totals"]
    lakehouse.spark().sql(f"DROP TABLE lake.{name} PURGE")
    topic.send([7])
    topic.send_raw([(None, b"poison", 0)])
    stopped = table.run()
    assert stopped.error["next_step"].endswith(
        f"was dropped: tidemark replay {table.name} --partition 0 --from 0 --to 6 --reason …"
    )
    assert not lakehouse.catalog.table_exists(name)
    replay_range(lakehouse.lake, table.contract, 0, 0, 6, ADA)
    assert table.ledger["totals"] == totals
    assert table.run().state == "fresh"
    assert table.ids() == list(range(8))
    assert table.holds_everything().quarantined == 2


@pytest.mark.parametrize("kafka", ["has it", "has lost it"])
def test_a_quarantine_table_that_nothing_goes_into_any_more_is_made_anew(lakehouse, kafka, caplog):
    """Given a quarantined record that can be read by now, when the table of the quarantine is dropped, then the replay that makes a row of it ends the stop; what Kafka has lost stops nothing."""
    topic = lakehouse.cluster.topic("readable", 1)
    topic.send(range(4))
    known, topic.schema_id = topic.schema_id, lakehouse.cluster.topic("elsewhere", schema=NEWER).schema_id
    topic.send([4])
    topic.schema_id = known
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    assert table.run().rows.quarantined == 1
    topic.use(NEWER)
    name = table.contract.quarantine_table
    lakehouse.spark().sql(f"DROP TABLE lake.{name} PURGE")
    lost = kafka == "has lost it"
    if lost:
        topic.delete_records({0: 5})
    topic.send([5])
    assert table.run().state == ("fresh" if lost else "failed")
    assert ("they are lost, and its ingest goes on" in caplog.text) == lost
    if not lost:
        replay_range(lakehouse.lake, table.contract, 0, 0, 5, ADA)
        assert table.ledger["totals"]["0"][2] == 0
    topic.send([6])
    assert table.run().state == "fresh"
    assert table.ids() == [n for n in range(7) if n != 4 or not lost]
    assert lakehouse.catalog.table_exists(name)


def test_more_rows_than_were_counted_in_the_quarantine_are_replayed_all_the_same(lakehouse):
    """Given rows that somebody has taken back into the quarantine, when they are replayed again, then they are rows, and counted as such once."""
    table = with_replayable(lakehouse)
    replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA)
    totals, spark = table.ledger["totals"], lakehouse.spark()
    spark.sql(f"DELETE FROM lake.{table.name} WHERE id >= 40")
    back = "SET resolved_by = NULL, resolved_at = NULL WHERE resolved_by IS NOT NULL"
    spark.sql(f"UPDATE lake.{table.contract.quarantine_table} {back}")
    again = Signature("ada", "again", run_id="by-hand-2")
    assert replay_quarantine(lakehouse.lake, table.contract, Selection(), again).arguments["moved"] == 6
    assert table.ledger["totals"] == totals
    sound(table, rows=46, waiting=1)


@pytest.mark.parametrize(("path", "new"), [("_kafka", "origin"), ("_kafka.partition", "_kafka.part")])
def test_a_table_without_what_tells_where_its_rows_come_from_waits_for_it(lakehouse, path, new):
    """Given `_kafka` or a field of it that somebody renamed, when records come, then they wait and the stop says for what; renamed back the run goes on."""
    topic = lakehouse.cluster.topic("origin")
    topic.send([0])
    table = lakehouse.table(topic)
    table.run()
    alter(lakehouse, table.name, f"RENAME COLUMN {path} TO {new.split('.')[-1]}")
    topic.send([1])
    stopped = table.run()
    assert stopped.state == "schema_review"
    assert f"{path} (gone, wanted" in stopped.error["message"]
    step = stopped.error["next_step"]
    assert step.startswith(f"ALTER TABLE {lakehouse.lake.identifier(table.name)} RENAME COLUMN ")
    assert f"TO {path.split('.')[-1]} brings back" in step
    alter(lakehouse, table.name, f"RENAME COLUMN {new} TO {path.split('.')[-1]}")
    assert table.run().state == "fresh"
    assert table.ids() == [0, 1]
    table.holds_everything()


def test_a_field_of_kafka_that_was_dropped_is_made_anew_by_hand(lakehouse):
    topic = lakehouse.cluster.topic("dropped")
    topic.send([0])
    table = lakehouse.table(topic)
    table.run()
    alter(lakehouse, table.name, "DROP COLUMN _kafka.schema_id")
    topic.send([1])
    assert table.run().state == "schema_review"
    alter(lakehouse, table.name, "ADD COLUMN _kafka.schema_id INT")
    assert table.run().state == "fresh"
    rows = table.iceberg().scan().to_arrow().sort_by("id").to_pylist()
    assert [row["_kafka"]["schema_id"] for row in rows] == [None, topic.schema_id]


def test_keys_are_deleted_from_a_table_whose_newest_summary_says_no_totals(lakehouse):
    """Given an upsert table with position deletes, and a commit of a writer that says none of the optional totals, when deletes alone are merged, then the keys are gone, and the table says what it holds."""
    made = Upserted(lakehouse)
    made.both((1, "a"), (2, "b"), (3, "c"))
    made.both((1, "a2"), (2, "b2"))
    whole = totals_said(made.table().metadata.current_snapshot())
    assert (whole.live_rows, whole.delete_rows) == (3, 2)
    say_less(made.table())
    table = made.table()
    assert totals_of(table, table.metadata.current_snapshot()) == whole
    assert made.both((1, None), (2, None)).deleted == 2
    assert made.rows() == {3: "c"}
    assert totals_said(made.table().metadata.current_snapshot()).live_rows == 1
    made.both((3, "c2"), (4, "d"))
    assert made.rows() == {3: "c2", 4: "d"}
