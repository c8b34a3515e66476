"""Rule: the table is the recovery point. Dagster's database and cursors are caches: without them a run continues exactly."""

import shutil

import dagster as dg
import pytest
from dagster import DagsterInstance, DagsterRunStatus

from orchestration.definitions import build_defs
from orchestration.instance import prepare_dagster_home
from tidemark.engine.config.configuration import Places

RUN = ["run", "--json"]


@pytest.fixture
def dagster_home(lakehouse, tmp_path, monkeypatch):
    """A Dagster instance of this test alone, for the command line and for looking."""
    home = prepare_dagster_home(tmp_path)
    lakehouse.environment["DAGSTER_HOME"] = str(home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    return home


def test_a_run_continues_after_all_dagster_state_was_deleted(lakehouse, dagster_home, tmp_path):
    """Given a table loaded by `tidemark run`, when Dagster's whole database is gone, then the next run reads on where the ledger ends."""
    topic = lakehouse.cluster.topic("forgotten", 2)
    topic.send(range(100))
    table = lakehouse.table(topic)
    (first,) = table.start(command=RUN).result()
    assert (first["state"], first["rows"]["written"]) == ("fresh", 100)
    shutil.rmtree(dagster_home)
    prepare_dagster_home(tmp_path)
    topic.send(range(100, 150))
    (second,) = table.start(command=RUN).result()
    assert (second["state"], second["rows"]["written"], second["commits"]) == ("fresh", 50, 1)
    assert second["from"] == first["next"]
    assert table.ids() == list(range(150))
    table.holds_everything()


@pytest.mark.parametrize("point", ["staged", pytest.param("published", marks=pytest.mark.long)])
def test_a_run_killed_before_dagster_knows_of_its_success_is_continued(lakehouse, dagster_home, point):
    """Given a Dagster run that is killed before it is recorded, when the next one runs, then nothing is there twice and the dead run is called failed."""
    topic = lakehouse.cluster.topic("unrecorded", 2)
    topic.send(range(100))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(100, 200))
    topic.send_raw([(None, b"poison", 1)])
    run = table.start(command=RUN, pause_at=point)
    run.reaches_its_pause()
    run.kill()
    (outcome,) = table.start(command=RUN).result()
    assert outcome["state"] == "fresh"
    assert table.ids() == list(range(200))
    assert table.holds_everything().quarantined == 2
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        statuses = [record.status for record in instance.get_runs()]
    assert statuses == [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]


def test_dagster_remembers_that_a_dropped_table_was_loaded(lakehouse, dagster_home):
    """Given a table that Dagster has seen materialized, when someone drops it, then it stops until `accept --first-load`."""
    topic = lakehouse.cluster.topic("dropped", 2)
    topic.send(range(40))
    table = lakehouse.table(topic)
    table.start(command=RUN).result()
    lakehouse.spark().sql(f"DROP TABLE {table.name} PURGE")
    stopped = table.start(command=RUN)
    (outcome,) = stopped.result()
    assert (outcome["state"], stopped.process.returncode) == ("table_missing", 1)
    assert not lakehouse.catalog.table_exists(table.name)
    accept = ["accept", "--first-load", "--reason", "seen", "--by", "oncall", "--json"]
    accepted = table.start(command=accept)
    accepted.process.communicate(timeout=120)
    assert accepted.process.returncode == 0
    (outcome,) = table.start(command=RUN).result()
    assert outcome["state"] == "fresh"
    assert table.ids() == list(range(40))
    table.holds_everything()


def test_one_broken_table_among_five_stops_alone_in_one_dagster_run(lakehouse, dagster_home):
    topics = [lakehouse.cluster.topic(f"five_{n}") for n in range(5)]
    for topic in topics:
        topic.send(range(20))
    tables = {f"proof.{topic.name}": lakehouse.table(topic) for topic in topics}
    broken = next(iter(tables.values()))
    broken.run()
    broken.topic.recreate(1)
    run = broken.start(command=[*RUN, *[name for name in tables if name != broken.name]])
    states = {outcome["table"]: outcome["state"] for outcome in run.result()}
    assert run.process.returncode == 1
    assert states == {name: "topic_recreated" if name == broken.name else "fresh" for name in tables}
    for name, table in tables.items():
        if name != broken.name:
            assert table.ids() == list(range(20))


def test_two_dagster_runs_of_one_table_at_once_load_it_once(lakehouse, dagster_home):
    topic = lakehouse.cluster.topic("twice", 2)
    topic.send(range(500))
    table = lakehouse.table(topic, ingest={"max_records": 100})
    runs = [table.start(command=RUN) for _ in range(2)]
    assert [run.result()[0]["state"] for run in runs] == ["fresh", "fresh"]
    assert table.ids() == list(range(500))
    table.holds_everything()


def test_a_lost_sensor_cursor_costs_no_record_and_asks_for_no_run_twice(lakehouse, dagster_home):
    """Given a loaded table, when the cursor is lost, then a quiet topic asks for nothing and a growing one for one run."""
    topic = lakehouse.cluster.topic("noticed", 2)
    topic.send(range(30))
    table = lakehouse.table(topic, target_lag="1s")
    table.run()
    where = Places(None, lakehouse.contracts, lakehouse.home)
    defs = build_defs(where=where)

    def tick(instance, cursor):
        resources = {"lake": defs.resources["lake"]}
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, definitions=defs, resources=resources
        ) as context:
            return defs.resolve_sensor_def("kafka_lag").evaluate_tick(context)

    with DagsterInstance.from_config(str(dagster_home)) as instance:
        quiet = tick(instance, None)
        assert quiet.run_requests == []
        topic.send(range(30, 60))
        keys = set()
        for cursor in (quiet.cursor, None, "damaged"):
            found = tick(instance, cursor)
            for _ in range(100):  # what was never seen before is young; it becomes due within its target lag
                if found.run_requests:
                    break
                found = tick(instance, found.cursor)
            (request,) = found.run_requests
            keys.add(request.run_key)
    assert len(keys) == 1
    (outcome,) = table.start(command=RUN).result()
    assert outcome["rows"]["written"] == 30
    table.holds_everything()


def test_reconcile_finds_what_someone_took_and_what_someone_doubled(lakehouse, dagster_home):
    """Given a sound table, when rows are deleted and copied behind Tidemark's back, then `reconcile` names the very offsets."""
    topic = lakehouse.cluster.topic("audited", 2)
    topic.send(range(100))
    topic.send_tombstones(range(4))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic)
    table.run()
    command = ["reconcile", "--json"]
    sound = table.start(command=command)
    counts = sound.result()
    assert sound.process.returncode == 0
    assert [(c["rows"], c["quarantined"], c["tombstones"]) for c in counts] == [(50, 1, 2), (50, 0, 2)]
    spark = lakehouse.spark()
    spark.sql(
        f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE _kafka.partition = 1 AND _kafka.offset = 7"
    )
    spark.sql(f"DELETE FROM {table.name} WHERE _kafka.partition = 0 AND _kafka.offset BETWEEN 10 AND 12")
    touched = table.start(command=command)
    first, second = touched.result()
    assert touched.process.returncode == 1
    assert (first["gaps"], first["duplicates"]) == ([[10, 13]], [])
    assert (second["gaps"], second["duplicates"]) == ([], [[7, 8]])
    with pytest.raises(AssertionError, match=r"partition 0: neither in .*: 3 offsets: 10–12") as told:
        table.holds_everything()
    assert "partition 1: twice in the table: 1 offsets: 7" in str(told.value)
