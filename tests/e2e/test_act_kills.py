"""Rule: whatever an operator asked for may die at any line; asked for again it is done once, and logged once."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from topics import BEGAN, order

from tidemark.engine.drill import scratch
from tidemark.engine.drill.drill import drill
from tidemark.engine.schema.evolve import evolve_now
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile

ADA = Signature("ada", "a test", "by-hand")
AGES = {"since": "2020-01-01T00:00:00+00:00", "until": "2040-01-01T00:00:00+00:00"}
DAY = datetime.fromtimestamp(BEGAN / 1e6, UTC)


def logged(lakehouse, table, verb):
    """(by, run) of each row of the log, oldest first."""
    if not lakehouse.catalog.table_exists("lake.tidemark_operations"):
        return []
    log = lakehouse.catalog.load_table("lake.tidemark_operations").scan(row_filter=f"table = '{table}'")
    rows = sorted(log.to_arrow().to_pylist(), key=lambda row: row["at"])
    return [(row["by"], json.loads(row["arguments"])) for row in rows if row["verb"] == verb]


def left_behind(table):
    """Tables of a backfill that are still there."""
    names = [name for _, name in table.lakehouse.catalog.list_tables("proof")]
    return [name for name in names if name.startswith(f"{table.name.partition('.')[2]}_backfill")]


@pytest.fixture
def moved(lakehouse):
    """Twenty orders of day five; the days before lie in another sink's table."""
    topic = lakehouse.cluster.topic("moved", 1)
    topic.send(range(5 * 24 * 60, 5 * 24 * 60 + 20))
    table = lakehouse.table(topic, event_time="at")
    table.run()
    lakehouse.spark().sql(
        f"CREATE TABLE lake.{table.name}_sink USING iceberg AS SELECT id, concat('c', id) AS customer, "
        f"CAST(id AS double) AS amount, timestamp_micros({BEGAN} + id * 60000000) AS at "
        "FROM (SELECT explode(sequence(0L, 2999L)) AS id)"
    )
    return table


@pytest.mark.long
def test_a_backfill_of_rows_dies_again_and_again(lakehouse, moved):
    """Given the table of another sink, when the load and its cutover die at every line, then its rows are there once, and its tag is gone."""
    span = {"since": DAY.isoformat(), "until": (DAY + timedelta(days=5)).isoformat()}
    verb = {"verb": "backfill", "source": f"table:{moved.name}_sink", **span}
    for point in ("planned", "staged", "published"):
        moved.act(verb, pause_at=point).dies()
        assert len(moved.ids()) == 20
    assert moved.act(verb).result()[0]["arguments"]["rows"] == 3000
    for point in ("publishing", "published", "dropping"):
        moved.act({**verb, "cutover": True}, pause_at=point).dies()
        assert len(moved.ids()) == (20 if point == "publishing" else 3020), point
        assert reconcile(lakehouse.lake, moved.contract).sound
    told = moved.act({**verb, "cutover": True}).result()[0]["arguments"]
    assert (told["step"], told["cutover"]["rows"]) == ("cutover", 3000)
    assert moved.ids() == [*range(3000), *range(7200, 7220)]
    assert left_behind(moved) == []
    assert set(lakehouse.catalog.load_table(f"{moved.name}_sink").metadata.refs) == {"main"}


def test_an_abort_dies_and_leaves_nothing_when_it_is_repeated(lakehouse, moved):
    """Given a loaded backfill, when its abort dies while it drops and before it is logged, then its repetition ends it and it is one row."""
    span = {"since": DAY.isoformat(), "until": (DAY + timedelta(days=5)).isoformat()}
    before = moved.head
    moved.act({"verb": "backfill", "source": f"table:{moved.name}_sink", **span}).result()
    abort = {"verb": "backfill", "abort": True}
    moved.act(abort, pause_at="dropping").dies()
    moved.act(abort, pause_at="unrecorded").dies()
    assert left_behind(moved) == []
    assert moved.act(abort).result()[0]["arguments"]["rows_dropped"] == 3000
    steps = [(by, told["step"]) for by, told in logged(lakehouse, moved.name, "backfill")]
    assert steps == [("ada", "load"), ("ada", "abort")]
    assert set(lakehouse.catalog.load_table(f"{moved.name}_sink").metadata.refs) == {"main"}
    assert (moved.head, moved.branches) == (before, set())
    assert not [name for name in moved.iceberg().properties if "backfill" in name]


@pytest.mark.long
def test_a_backfill_from_another_topic_dies_again_and_again(lakehouse):
    """Given the topic that came before, when its load and cutover die at every line, then its records are there once, poison in the quarantine."""
    old = lakehouse.cluster.topic("before", 2)
    old.send_raw((str(n).encode(), old.encode(order(n)), n % 2) for n in range(30))
    old.send_raw([(None, b"poison", 0)])
    upto = datetime.now(UTC).isoformat()
    topic = lakehouse.cluster.topic("after", 1)
    topic.send(range(100, 110))
    table = lakehouse.table(topic, quarantine={"fail": 0.5})
    table.run()
    span = {"since": AGES["since"], "until": upto}
    verb = {"verb": "backfill", "source": f"topic:{old.name}", "max_records": 20, **span}
    for point in ("planned", "staged", "published", "quarantined"):
        table.act(verb, pause_at=point).dies()
        assert (len(table.ids()), table.causes()) == (10, {})
    table.act(verb).result()
    for point in ("publishing", "published", "settling", "dropping"):
        table.act({**verb, "cutover": True}, pause_at=point).dies()
        assert len(table.ids()) == (10 if point == "publishing" else 40), point
        assert reconcile(lakehouse.lake, table.contract).sound
    assert table.act({**verb, "cutover": True}).result()[0]["arguments"]["cutover"]["rows"] == 30
    assert (table.ids(), table.causes()) == ([*range(30), *range(100, 110)], {"no_magic_byte": 1})
    assert left_behind(table) == []


def test_of_two_cutovers_at_once_the_dead_one_takes_nothing_from_the_other(lakehouse):
    """Given a cutover that is about to publish, when another of the same backfill hides its quarantined records and dies, then the first publishes all, and a repetition that is late is told so."""
    topic = lakehouse.cluster.topic("late", 1)
    topic.send(range(20))
    topic.send_raw((None, b"poison", 0) for _ in range(3))
    table = lakehouse.table(topic, ingest={"start": "latest"}, quarantine={"fail": 0.5})
    table.run()
    topic.send(range(20, 30))
    table.run()
    table.act({"verb": "backfill", **AGES}).result()
    cutover = {"verb": "backfill", **AGES, "cutover": True}
    first = table.act(cutover, pause_at="publishing")
    first.reaches_its_pause()
    table.act(cutover, pause_at="publishing").dies()
    late = table.act(cutover, pause_at="publishing")
    late.reaches_its_pause()
    first.release()
    assert first.result()[0]["arguments"]["cutover"]["rows"] == 30
    late.release()
    told = late.result()[0]
    assert told["arguments"]["cutover"]["rows"] == 30, told
    assert table.holds_everything().quarantined == 3
    assert table.ids() == list(range(30))
    said = json.loads(table.iceberg().properties["tidemark.cutover"])
    assert said["rows"] == 30
    assert table.act(cutover).result()[0]["arguments"]["already_there"]


def test_a_rollback_of_a_cutover_dies_between_its_commits_and_its_repetition_ends_both(lakehouse):
    """Given a table of format 3, of which a rollback moves main before it empties the property of the cutover, when it dies there, then the same again empties it."""
    topic = lakehouse.cluster.topic("undone")
    topic.send(range(30))
    table = lakehouse.table(topic, ingest={"start": "latest"}, format_version=3)
    table.run()
    before = table.head
    table.act({"verb": "backfill", **AGES, "cutover": True}).result()
    assert json.loads(table.iceberg().properties["tidemark.cutover"])["rows"] == 30
    verb = {"verb": "rollback", "snapshot": before}
    table.act(verb, pause_at="forwarded").dies()
    assert (table.iceberg().properties["tidemark.cutover"] != "", table.ids()) == (True, [])
    assert table.act(verb).result()[0]["arguments"]["already_there"]
    assert table.iceberg().properties["tidemark.cutover"] == ""


def test_an_abort_beside_a_cutover_that_is_about_to_publish(lakehouse):
    """Given a cutover at its last step, when the backfill is aborted, then nothing is published."""
    topic = lakehouse.cluster.topic("late", 1)
    topic.send(range(20))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    table.act({"verb": "backfill", **AGES}).result()
    run = table.act({"verb": "backfill", **AGES, "cutover": True}, pause_at="receipted")
    run.reaches_its_pause()
    assert table.act({"verb": "backfill", "abort": True}).result()[0]["arguments"]["rows_dropped"] == 20
    run.release()
    with pytest.raises(AssertionError, match="dropped meanwhile"):
        run.result()
    assert table.ids() == []


@pytest.mark.parametrize("dies", [False, True])
def test_an_abort_that_a_cutover_overtakes_dropped_nothing(lakehouse, dies):
    """Given an abort that is about to drop what was loaded, or has died there, when that is published meanwhile, then the abort is refused and in no log."""
    topic = lakehouse.cluster.topic("overtaken", 1)
    topic.send(range(20))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    table.run()
    table.act({"verb": "backfill", **AGES}).result()
    abort, cutover = {"verb": "backfill", "abort": True}, {"verb": "backfill", "cutover": True}
    run = table.act(abort, pause_at="dropping")
    if dies:
        run.dies()
        table.act(cutover, pause_at="unrecorded").dies()
        run = table.act(abort)
    else:
        run.reaches_its_pause()
        table.act(cutover).result()
        run.release()
    with pytest.raises(
        AssertionError, match=r"no backfill of .* is under way" if dies else "is published already"
    ):
        run.result()
    assert len(table.ids()) == 20
    assert "tidemark.backfill-aborting" not in table.iceberg().properties
    assert "abort" not in {told["step"] for _, told in logged(lakehouse, table.name, "backfill")}


@pytest.mark.parametrize("point", ["publishing", pytest.param("published", marks=pytest.mark.long)])
def test_a_takeover_dies_and_the_next_run_ends_it(lakehouse, point):
    """Given someone's table that a contract names, when the run that takes it over dies, then the next one does, and the table says whose it is."""
    topic, spark = lakehouse.cluster.topic("adopted", 1), lakehouse.spark()
    topic.send(range(10))
    made = lakehouse.table(topic, "template")
    made.run()
    table = lakehouse.table(topic, f"{topic.name}_taken")
    spark.sql(f"CREATE TABLE lake.{table.name} USING iceberg AS SELECT * FROM lake.{made.name} WHERE id < 0")
    (lakehouse.contracts / f"{made.name}.yaml").unlink()
    lakehouse.close()
    table.start(pause_at=point).dies()
    assert "tidemark.topic" not in table.iceberg().properties
    assert table.run().state == "fresh"
    assert table.iceberg().properties["tidemark.topic"] == topic.name
    assert table.ids() == list(range(10))
    assert evolve_now(lakehouse.lake, table.contract, "look").plan.changes == ()
    assert table.holds_everything().rows == 10


def test_what_a_drill_that_was_killed_has_left_the_next_one_sweeps(lakehouse, monkeypatch):
    """Given a drill that dies in the middle, when the next one comes an hour later, then topic, subject and tables of both are gone."""
    topic = lakehouse.cluster.topic("beside")
    topic.send(range(5))
    table = lakehouse.table(topic)
    table.run()
    stood = table.iceberg().metadata_location
    table.act({"verb": "drill", "scenarios": ["poison"]}, pause_at="quarantined").dies()
    assert len(traces(lakehouse)) == 4, "topic, subject, table and its quarantine"
    monkeypatch.setattr(scratch, "STALE_SECONDS", -1)
    assert drill(lakehouse.lake, ["poison"], "main", ADA).arguments["passed"]
    monkeypatch.undo()
    assert traces(lakehouse) == []
    assert table.iceberg().metadata_location == stood


def traces(lakehouse):
    """What of any drill is there."""
    registry = lakehouse.lake.registry("main").request("GET", "/subjects").json()
    topics = list(lakehouse.cluster.admin.list_topics(timeout=10).topics)
    tables = [name for _, name in lakehouse.catalog.list_tables("lake")]
    return [name for name in (*registry, *topics, *tables) if "tidemark_drill_" in name]
