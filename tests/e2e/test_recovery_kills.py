"""Rule: replay and rollback may die at any line; nothing is in two places or in none, and repeating them ends them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from headless import change
from lakehouse import at_once
from replayable import sound, with_replayable
from topics import ORDER

from tidemark import __version__
from tidemark.domain.errors import Refused
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.pause import resume
from tidemark.engine.schema.evolve import evolve_now
from tidemark.engine.table import unlogged
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.where import where_key

BEFORE = ["branched", "receipted", "publishing"]
"""Nothing has changed when the process dies there."""


@pytest.fixture
def table(lakehouse):
    return with_replayable(lakehouse)


def test_a_replay_of_the_quarantine_dies_again_and_again(lakehouse, table):
    verb = {"verb": "replay", "quarantine": True}
    for point in ("branched", "staged", "publishing"):
        table.act(verb, pause_at=point).dies()
        sound(table, rows=40, waiting=7)
    table.act(verb, pause_at="published").dies()
    sound(table, rows=46, waiting=1)
    assert table.causes()["schema_not_allowed"] == 6, "the marks are still to be made"
    table.act(verb, pause_at="settling").dies()
    sound(table, rows=46, waiting=1)
    assert table.act(verb).result()[0]["arguments"]["moved"] == 0
    assert table.ids() == list(range(46))
    assert table.holds_everything().quarantined == 1


@pytest.mark.long
def test_a_replay_of_a_range_dies_again_and_again(lakehouse, table):
    end = table.ledger["next"]["0"]
    verb = {"verb": "replay", "partition": 0, "from_offset": 0, "to_offset": end}
    for point in [*BEFORE, "staged", "audited"]:
        table.act(verb, pause_at=point).dies()
        sound(table, rows=40, waiting=7)
    table.act(verb, pause_at="published").dies()
    sound(table, rows=43, waiting=4)
    table.act(verb, pause_at="settling").dies()
    sound(table, rows=43, waiting=4)
    assert table.run().commits == 0, "a run has nothing to read, and carries out what is left"
    assert table.holds_everything().quarantined == 4
    assert table.act(verb).result()[0]["arguments"]["written"] == 23
    assert table.holds_everything().quarantined == 4


@pytest.mark.long  # by default test_any_sequence kills one
def test_a_rollback_dies_again_and_again(lakehouse, table):
    target = table.head
    table.act({"verb": "replay", "quarantine": True}).result()
    table.topic.send(range(46, 60))
    table.run()
    verb = {"verb": "rollback", "snapshot": target}
    for point in BEFORE:
        table.act(verb, pause_at=point).dies()
        sound(table, rows=60, waiting=1)
    table.act(verb, pause_at="published").dies()
    sound(table, rows=40, waiting=7)
    table.act(verb, pause_at="settling").dies()
    sound(table, rows=40, waiting=7)
    assert table.act(verb).result()[0]["arguments"]["already_there"]
    assert table.holds_everything(caught_up=False).quarantined == 7
    assert table.run().state == "paused"
    resume(lakehouse.lake, table.contract, Signature("ada", "a test"))
    table.run()
    table.act({"verb": "replay", "quarantine": True}).result()
    assert table.ids() == list(range(60))
    assert table.holds_everything().quarantined == 1


@pytest.mark.long
def test_a_backfill_dies_again_and_again(lakehouse):
    """Given records that lie before the first load, when their backfill dies at every line, then they are out of sight until they are there once."""
    topic = lakehouse.cluster.topic("late", 2)
    topic.send(range(40))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    topic.send(range(40, 60))
    table.run()
    verb = {"verb": "backfill", "since": "2020-01-01T00:00:00+00:00", "until": "2040-01-01T00:00:00+00:00"}
    load, cutover = {**verb, "max_records": 30}, {**verb, "cutover": True}
    for point in ["staged", "publishing", "published"]:
        table.act(load, pause_at=point).dies()
        sound(table, rows=20, waiting=0)
    table.act(load).result()
    for point in BEFORE:
        table.act(cutover, pause_at=point).dies()
        sound(table, rows=20, waiting=0)
    table.act(cutover, pause_at="published").dies()
    sound(table, rows=60, waiting=1)
    table.act(cutover, pause_at="dropping").dies()
    told = table.act(cutover).result()[0]["arguments"]
    assert (told["step"], told["cutover"]["rows"]) == ("cutover", 60)
    assert table.act(cutover).result()[0]["arguments"]["already_there"]
    assert table.ids() == list(range(60))
    assert table.holds_everything().quarantined == 1


def test_every_act_is_one_row_in_the_log_also_when_it_died_before_it_was_written(lakehouse):
    """Given verbs that die between their change and their row, when they are repeated, then each act is there once."""
    topic = lakehouse.cluster.topic("logged", 2)
    topic.send(range(20))
    table = lakehouse.table(topic, schema_changes={"add_column": "review"})
    table.run()
    topic.use(
        {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
    )
    plan = evolve_now(lakehouse.lake, table.contract, "look").plan.id
    acts = [{"verb": "pause"}, {"verb": "resume"}, {"verb": "approve", "plan": plan}]
    for act in acts:
        dies_and_is_repeated(table, act)
    topic.send(range(20, 22))
    table.run(run_id="loader")
    comes_from(table, plan)
    topic.send(range(22, 40))
    topic.delete_records({0: 15})
    assert table.run().state == "offsets_expired"
    dies_and_is_repeated(table, {"verb": "accept", "what": "record-gap"})
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan(row_filter=f"table = '{table.name}'")
    rows = log.to_arrow().sort_by("at").to_pylist()
    assert [row["verb"] for row in rows] == ["pause", "resume", "approve", "accept"]
    assert {(row["by"], row["reason"], row["authenticated"]) for row in rows} == {("ada", "a test", None)}
    assert table.run().state == "fresh"


def comes_from(table, plan):
    """Everything that `where` tells of a row, by what the test knows itself."""
    ledger, topic = table.ledger, table.topic
    (found,) = [each.as_json() for each in where_key(table.lakehouse.lake, table.contract, b"21")[0]]
    at = {name: found[name] for name in ("topic", "partition", "offset", "fate")}
    assert at == {"topic": topic.name, "partition": 1, "offset": 10, "fate": "published"}
    receipt = {
        name: found[name] for name in ("snapshot_id", "kind", "run_id", "batch_id", "contract", "tidemark")
    }
    assert receipt == {
        "snapshot_id": ledger["snapshot_id"],
        "kind": "append",
        "run_id": "loader",
        "batch_id": ledger["batch_id"],
        "contract": table.contract.digest,
        "tidemark": __version__,
    }
    assert found["schema"] == {"id": topic.schema_id, "subject": f"{topic.name}-value", "version": 2}
    assert [(each["plan"], each["by"], each["reason"]) for each in found["approvals"]] == [
        (plan, "ada", "a test")
    ]
    published = datetime.fromisoformat(found["published_at"])
    assert timedelta(0) <= datetime.now(UTC) - published < timedelta(minutes=5)


def test_what_was_replayed_or_rolled_back_is_logged_though_its_run_died(lakehouse, table, monkeypatch):
    """Given acts that die between receipt and row, when the table is changed next, then each has its row with who, why, from where and to where, once."""
    monkeypatch.setattr(unlogged, "OWN_TIME", timedelta(0))
    start = table.head
    replay = {"verb": "replay", "quarantine": True}
    table.act(replay, pause_at="unrecorded").dies()
    replayed = table.head
    table.act({"verb": "rollback", "snapshot": start}, pause_at="unrecorded").dies()
    back = table.head
    for n in range(2):
        resume(lakehouse.lake, table.contract, Signature("ada", "a test", f"by-hand-{n}"))
        change(lakehouse.lake, table.contract, f"by-hand-{n}", verb="pause")
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan(row_filter=f"table = '{table.name}'")
    rows = log.to_arrow().sort_by("at").to_pylist()
    assert [row["verb"] for row in rows] == ["replay", "rollback", *["resume", "pause"] * 2]
    assert {(row["by"], row["reason"]) for row in rows} == {("ada", "a test")}
    assert [(row["before_snapshot"], row["after_snapshot"]) for row in rows[:2]] == [
        (start, replayed),
        (replayed, back),
    ]
    told = [json.loads(row["arguments"]) for row in rows[:2]]
    assert (told[0]["what"], told[1]["target_snapshot"], told[1]["replays_undone"]) == (
        "quarantine",
        start,
        1,
    )


def test_an_acceptance_that_died_is_logged_as_what_it_was_whoever_comes_next(lakehouse):
    """Given a gap that ada has accepted in a run that died, when a run has come between and bob repeats it, then the row is ada's, once."""
    topic = lakehouse.cluster.topic("gone", 1)
    topic.send(range(20))
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(20, 40))
    topic.delete_records({0: 25})
    assert table.run().state == "offsets_expired"
    before = table.head
    table.act({"verb": "accept", "what": "record-gap"}, pause_at="unrecorded").dies()
    table.run()
    bob = Signature("bob", "bob's reason", "bob's run")
    told = accept(lakehouse.lake, table.contract, "record-gap", bob)
    assert (told.by, told.reason, told.before_snapshot) == ("ada", "a test", before)
    assert told.arguments["ranges"] == {"0": [20, 25]}
    with pytest.raises(Refused, match="nothing to accept"):
        accept(lakehouse.lake, table.contract, "record-gap", bob)
    with pytest.raises(Refused, match="the ledger is there"):
        accept(lakehouse.lake, table.contract, "first-load", bob)
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan(row_filter=f"table = '{table.name}'")
    assert [(row["verb"], row["by"]) for row in log.to_arrow().to_pylist()] == [("accept", "ada")]


def dies_and_is_repeated(table, act):
    """The repetition tells of the run that died; what is done and logged is refused."""
    table.act(act, pause_at="unrecorded").dies()
    lake, contract = table.lakehouse.lake, table.contract
    assert change(lake, contract, "again", **act)["run_id"].startswith("headless-")
    with pytest.raises(Refused):
        change(lake, contract, "again", **act)


@pytest.mark.parametrize("first", ["ingest", pytest.param("rollback", marks=pytest.mark.long)])
def test_an_ingest_that_meets_a_rollback_loses_or_is_undone(lakehouse, table, first):
    """Given a batch that is about to be published, when a rollback comes between, either side goes first and the end is right."""
    target = table.head
    table.topic.send(range(46, 60))
    table.run()
    table.topic.send(range(60, 70))
    table.topic.send_raw([(None, b"poison", 1)])
    ingest = table.start(pause_at="publishing")
    ingest.reaches_its_pause()
    back = table.act({"verb": "rollback", "snapshot": target}, pause_at="publishing")
    back.reaches_its_pause()
    (ingest if first == "ingest" else back).release()
    (ingest if first == "ingest" else back).result()
    (back if first == "ingest" else ingest).release()
    (back if first == "ingest" else ingest).result()
    sound(table, rows=40, waiting=7)
    resume(lakehouse.lake, table.contract, Signature("ada", "a test"))
    table.run()
    table.act({"verb": "replay", "quarantine": True}).result()
    assert table.ids() == list(range(70))
    assert table.holds_everything().quarantined == 2


def test_two_replays_and_an_ingest_at_once_move_each_record_once(lakehouse, table):
    table.topic.send(range(46, 60))
    verb = {"verb": "replay", "quarantine": True}
    replays = (table.act(verb, pause_at="publishing") for _ in range(2))
    runs = at_once([*replays, table.start(pause_at="publishing")])
    moved = [run.result()[0] for run in runs[:2]]
    assert sorted(each["arguments"]["moved"] for each in moved) == [0, 6]
    assert runs[2].result()[0]["error"] is None
    table.run()
    assert table.ids() == list(range(60))
    assert table.holds_everything().quarantined == 1
