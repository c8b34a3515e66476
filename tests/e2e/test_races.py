"""Rule: of two attempts one wins; the other's rows are nowhere. Nobody's rollback is undone."""

import time

import oracle
import pytest
from backlogs import BACKLOG, until_it_writes, with_backlog
from lakehouse import Run, at_once
from topics import ORDER, order
from upserted import Upserted
from waiting import until

from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.schema.history import history
from tidemark.engine.table.operations import Signature

NEWER = {**ORDER, "doc": "the same fields, another schema"}
POISON = (b"k", b"poison", 0)


def test_two_runs_of_one_table_started_at_once_publish_each_record_once(lakehouse):
    topic = lakehouse.cluster.topic("raced", 4)
    topic.send(range(900))
    topic.send_raw((None, b"poison", p) for p in range(4))
    table = lakehouse.table(topic, ingest={"max_records": 300}, partition_by=["bucket(3, id)"])
    runs = at_once(table.start(pause_at="planned") for _ in range(2))
    for run in runs:
        assert run.result()[0]["error"] is None
    assert table.ids() == list(range(900))
    assert table.holds_everything().quarantined == 4


def test_runs_at_once_over_bad_records_take_turns_and_none_fails(lakehouse):
    """Given three runs of small batches that all have records for the quarantine, when one takes back what it had put there, then others plan again."""
    topic = lakehouse.cluster.topic("raced_bad", 3)
    for first in range(0, 150, 30):
        topic.send(range(first, first + 30))
        topic.send_raw((None, b"poison", p) for p in range(3))
    table = lakehouse.table(topic, ingest={"max_records": 66}, quarantine={"fail": 1.0})
    runs = at_once(table.start(pause_at="planned") for _ in range(3))
    assert [run.result()[0]["error"] for run in runs] == [None] * 3
    assert table.ids() == list(range(150))
    assert table.holds_everything().quarantined == 15


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_two_runs_that_need_the_same_new_column(lakehouse, format_version):
    """Given a writer with a new field and two runs about to change the table for it, when both go on, then it is changed once and no record is there twice."""
    topic = lakehouse.cluster.topic("grown_twice", 2)
    topic.send(range(10))
    table = lakehouse.table(topic, format_version=format_version)
    table.run()
    topic.use({**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "-"}]})
    topic.send_raw((None, topic.encode({**order(n), "note": "x"}), n % 2) for n in range(10, 30))
    runs = at_once(table.start(pause_at="evolving") for _ in range(2))
    assert [run.result()[0]["error"] for run in runs] == [None, None]
    assert table.ids() == list(range(30))
    table.holds_everything()
    [entry] = history(lakehouse.lake.state(table.name))
    assert [change["path"] for change in entry["changes"]] == ["note"]


def test_a_batch_that_is_published_while_another_run_changes_the_schema_is_read_once(lakehouse):
    """Given a run about to add a column, when a batch that was staged before is published first, then nobody reads its records again."""
    topic = lakehouse.cluster.topic("grown_behind", 2)
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(10, 20))
    staged = table.start(pause_at="staged")
    staged.reaches_its_pause()
    topic.use({**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "-"}]})
    topic.send_raw((None, topic.encode({**order(n), "note": "x"}), n % 2) for n in range(20, 30))
    grows = table.start(pause_at="evolving")
    grows.reaches_its_pause()
    staged.release()
    until(lambda: table.ids() == list(range(20)), "the staged batch to be published", 60)
    grows.release()
    assert [run.result()[0]["error"] for run in (staged, grows)] == [None, None]
    assert table.ids() == list(range(30))
    table.holds_everything()


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_retention_leaves_what_a_replay_brings_back_in_that_moment(lakehouse, format_version):
    """Given old records in quarantine, when their replay comes between what retention has planned and its delete, then the upsert table gets them first."""
    old = int(time.time() * 1000) - 40 * 86_400_000
    made = Upserted(lakehouse, partitions=1, format_version=format_version)
    made.declare(quality=[{"sql": "v <> 'bad'"}], retention={"append": "30d"})
    producer = made.topic._new_producer()
    for n, value in enumerate(("bad", "bad", "good")):
        key, text, _ = made._record(n, value)
        producer.produce(made.topic.name, text, key, 0, timestamp=old)
    producer.flush(30)
    made.both((9, "new"))
    assert made.rows() == {2: "good", 9: "new"}
    upkeep = Run.start(
        lakehouse, [made.append.name], pause_at="retention_staged", environment={"HEADLESS": "maintain"}
    )
    upkeep.reaches_its_pause()
    made.declare(retention={"append": "30d"})
    lakehouse.close()
    replay_quarantine(lakehouse.lake, made.append.contract, Selection(), Signature("ada", "a test", "r"))
    upkeep.release()
    found = {each["kind"]: each for each in upkeep.result() if each["table"] == made.append.name}
    assert "rows to read again first" in found["retention"]["reason"]
    made.merge()
    assert made.rows() == {0: "bad", 1: "bad", 2: "good", 9: "new"}
    found = maintain(lakehouse.lake, made.append.contract, ("snapshot_expiry",))
    [gain] = [each for each in found if each.kind == "retention"]
    assert gain.numbers["rows_deleted"] == 3
    made.merge()
    assert made.rows() == {0: "bad", 1: "bad", 2: "good", 9: "new"}


def test_two_first_loads_at_once_make_one_table(lakehouse):
    topic = lakehouse.cluster.topic("first_race", 2)
    topic.send(range(200))
    table = lakehouse.table(topic)
    runs = at_once(table.start(pause_at="receipted") for _ in range(2))
    assert [run.result()[0]["error"] for run in runs] == [None, None]
    assert table.ids() == list(range(200))
    table.holds_everything()


@pytest.mark.long
def test_six_first_loads_at_once_and_nobody_fails(lakehouse):
    topic = lakehouse.cluster.topic("first_of_six", 2)
    topic.send(range(50))
    table = lakehouse.table(topic)
    runs = [table.start() for _ in range(6)]
    results = [run.result()[0] for run in runs]
    assert [(each["error"], each["state"]) for each in results] == [(None, "fresh")] * 6
    assert sum(each["commits"] for each in results) == 1
    assert table.ids() == list(range(50))
    table.holds_everything()


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_ingest_merges_and_maintenance_all_at_once_and_nobody_fails(lakehouse, format_version):
    """Given a writer that adds a column, when several processes ingest, merge and maintain the same two tables, then each ends
    well and both tables are right."""
    topic = lakehouse.cluster.topic("all_at_once", 3)
    current = f"{topic.name}_now"
    table = lakehouse.table(
        topic,
        format_version=format_version,
        partition_by=["bucket(3, id)"],
        upsert={"keys": ["id"], "table": f"proof.{current}"},
    )
    topic.send(range(100))
    sent = 100
    for field in ("first", "second"):
        fields = [*topic.schema["fields"], {"name": field, "type": ["null", "string"], "default": None}]
        topic.use({**ORDER, "fields": fields})
        topic.send_raw((None, topic.encode({**order(n), field: "x"}), n % 3) for n in range(sent, sent + 60))
        sent += 60
        runs = [Run.start(lakehouse, [table.name, f"proof.{current}"]) for _ in range(3)]
        runs += [Run.start(lakehouse, [table.name], environment={"HEADLESS": "maintain"}) for _ in range(2)]
        assert [each["error"] for run in runs for each in run.result() if each.get("error")] == []
    assert table.ids() == list(range(sent))
    table.holds_everything()
    rows = lakehouse.catalog.load_table(f"proof.{current}").scan(selected_fields=("id",)).to_arrow()
    assert sorted(rows["id"].to_pylist()) == list(range(sent))


@pytest.mark.parametrize(
    ("point", "format_version"),
    [("quarantined", 2), pytest.param("publishing", 2, marks=pytest.mark.long), ("publishing", 3)],
)
def test_an_attempt_that_is_overtaken_drops_its_stage_and_finds_nothing_to_do(
    lakehouse, point, format_version
):
    """Given a run that waits before publishing, when another publishes the same batch, then the first one's rows are nowhere."""
    topic = lakehouse.cluster.topic("overtaken", 2)
    topic.send(range(100))
    table = lakehouse.table(topic, format_version=format_version)
    table.run()
    topic.send(range(100, 200))
    topic.send_raw([(None, b"poison", 1)])
    slow = table.start(pause_at=point)
    slow.reaches_its_pause()
    assert table.run().rows.written == 100
    slow.release()
    result = slow.result()[0]
    assert (result["error"], result["commits"]) == (None, 0)
    assert table.ids() == list(range(200))
    assert table.holds_everything().quarantined == 1
    assert table.branches == set()


@pytest.mark.parametrize("point", [pytest.param("audited", marks=pytest.mark.long), "publishing"])
def test_a_rollback_between_plan_and_publish_is_not_undone(lakehouse, point):
    """Given someone rolls main back while a batch is staged, or in the very moment of publishing, when that attempt goes on, then it plans again from the older ledger."""
    topic = lakehouse.cluster.topic("rolled_back", 2)
    table = lakehouse.table(topic)
    topic.send(range(50))
    table.run()
    target = table.head
    topic.send(range(50, 100))
    table.run()
    topic.send(range(100, 150))
    run = table.start(pause_at=point)
    run.reaches_its_pause()
    lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {target})").collect()
    run.release()
    result = run.result()[0]
    assert (result["error"], result["rows"]["written"]) == (None, 100)
    assert table.ids() == list(range(150))
    table.holds_everything()


def test_an_overtaken_attempt_leaves_the_quarantine_of_the_winner_alone(lakehouse):
    """Given an attempt that found a record unreadable, when another has published it as a row since, then no quarantine row contradicts the table."""
    topic = lakehouse.cluster.topic("outdated")
    topic.send(range(30))
    table = lakehouse.table(topic)
    table.run()
    old, known = topic.schema, topic.schema_id
    elsewhere = lakehouse.cluster.topic("elsewhere", schema=NEWER)
    topic.schema_id = elsewhere.schema_id
    topic.send_raw([(b"k", topic.encode(order(30)), 0)])
    slow = table.start(pause_at="receipted")
    slow.reaches_its_pause()
    topic.use(NEWER)
    topic.use(old)
    assert topic.schema_id == known
    assert table.run().rows.written == 1
    slow.release()
    assert slow.result()[0]["error"] is None
    assert table.ids() == list(range(31))
    assert table.holds_everything().quarantined == 0


def contradicting(lakehouse, *more):
    """A table of 30 rows and one in quarantine, an attempt that has quarantined the next record, and one that is about to publish it as a row; `more` records come with it."""
    topic = lakehouse.cluster.topic("contradicted")
    topic.send(range(30))
    topic.send_raw([POISON])
    table = lakehouse.table(topic)
    table.run()
    old = topic.schema
    elsewhere = lakehouse.cluster.topic("elsewhere", schema=NEWER)
    topic.schema_id = elsewhere.schema_id
    topic.send_raw([(b"k", topic.encode(order(30)), 0), *more])
    loser = table.start(pause_at="audited,quarantined")
    loser.reaches_its_pause()
    topic.use(NEWER)
    topic.use(old)
    winner = table.start(pause_at="publishing")
    winner.reaches_its_pause()
    loser.release()
    loser.reaches_its_pause()
    return table, loser, winner


def test_an_attempt_that_loses_at_the_last_moment_takes_its_quarantine_rows_back(lakehouse):
    """Given a winner about to publish a record as a row, when a loser quarantines it in that very moment, then only the row is left."""
    table, loser, winner = contradicting(lakehouse)
    winner.release()
    assert winner.result()[0]["rows"]["written"] == 1
    loser.release()
    assert loser.result()[0]["error"] is None
    assert table.ids() == list(range(31))
    assert table.holds_everything().quarantined == 1


def test_rows_that_a_killed_loser_left_in_quarantine_go_when_the_next_batch_is_published(lakehouse):
    """Given a loser killed between its quarantine commit and its undo, when the winner has published the record as a row and another batch follows, then no quarantine row contradicts the table."""
    table, loser, winner = contradicting(lakehouse, POISON)
    loser.kill()
    winner.release()
    assert winner.result()[0]["rows"] == {
        "read": 2,
        "written": 1,
        "quarantined": 1,
        "tombstones": 0,
        "skipped": 0,
    }
    assert table.causes() == {"no_magic_byte": 2, "schema_not_allowed": 1}
    table.topic.send([31])
    assert table.run().error is None
    assert table.ids() == list(range(32))
    assert table.causes() == {"no_magic_byte": 2}
    assert table.holds_everything().quarantined == 2


def test_a_quarantine_that_has_lost_rows_of_the_last_batch_stops_the_table(lakehouse):
    topic = lakehouse.cluster.topic("emptied")
    topic.send(range(5))
    topic.send_raw([(b"k", b"poison", 0)])
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    table.run()
    lakehouse.spark().sql(f"DELETE FROM lake.{table.name}_quarantine")
    topic.send([5])
    outcome = table.run()
    assert (outcome.state, table.branches) == ("failed", set())
    assert "holds 0 of 1 rows that the last batch put there" in outcome.error["message"]


def test_a_topic_recreated_between_plan_and_publish_stops_the_attempt(lakehouse):
    topic = lakehouse.cluster.topic("swapped", 2)
    topic.send(range(50))
    table = lakehouse.table(topic)
    table.run()
    head = table.head
    topic.send(range(50, 100))
    run = table.start(pause_at="audited")
    run.reaches_its_pause()
    topic.recreate(2)
    run.release()
    result = run.result()[0]
    assert result["state"] == "topic_recreated"
    assert table.head == head


def test_a_killed_run_whose_write_goes_on_in_the_server_disturbs_no_successor(lakehouse):
    """Given a client killed in mid-write, when its successor publishes while the server still writes for the dead one, then each record is there once."""
    table = with_backlog(lakehouse)
    with until_it_writes(table):
        run = table.start()
    run.kill()
    (branch,) = table.branches
    began_at = table.iceberg().metadata.refs[branch].snapshot_id
    assert began_at == table.head, "the write was over before the kill"
    assert table.run().state == "fresh"
    until(
        lambda: table.iceberg().metadata.refs[branch].snapshot_id != began_at,
        "the dead run's write to end in the server",
        120,
    )
    assert table.run().commits == 0
    assert table.holds_everything().rows == BACKLOG + 10
    assert oracle.files_are_sound(table.iceberg()) > 0
