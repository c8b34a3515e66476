"""Rule: the table is the recovery point. Dagster's database and cursors are caches: without them a run continues exactly."""

import shutil

import dagster as dg
import pytest
from dagster import DagsterInstance, DagsterRunStatus

from orchestration.definitions import build_defs
from orchestration.instance import prepare_dagster_home
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import Places
from tidemark.engine.look import sightings

RUN = ["run", "--json"]


@pytest.fixture
def dagster_home(lakehouse, tmp_path, monkeypatch):
    """A Dagster instance of this test alone, for the command line and for looking."""
    home = prepare_dagster_home(tmp_path)
    lakehouse.environment["DAGSTER_HOME"] = str(home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    return home


def test_a_run_continues_after_all_dagster_state_was_deleted(lakehouse, dagster_home, tmp_path):
    """Given a table loaded by `tidemark run`, when Dagster's whole database and what earlier looks have noted are gone, then the next run reads on where the ledger ends."""
    topic = lakehouse.cluster.topic("forgotten", 2)
    topic.send(range(100))
    table = lakehouse.table(topic)
    (first,) = table.start(command=RUN).result()
    assert (first["state"], first["rows"]["written"]) == ("fresh", 100)
    shutil.rmtree(dagster_home)
    prepare_dagster_home(tmp_path)
    for cache in (discovery.FILE, sightings.FILE):
        (lakehouse.home / cache).unlink(missing_ok=True)
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
    table.start(command=RUN, pause_at=point).dies()
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        assert statuses(instance) == [DagsterRunStatus.STARTED]
        (outcome,) = table.start(command=RUN).result()
        assert statuses(instance) == [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]
    assert outcome["state"] == "fresh"
    assert table.ids() == list(range(200))
    assert table.holds_everything().quarantined == 2


def statuses(instance):
    """Of all runs, newest first."""
    return [run.status for run in instance.get_runs()]


def test_dagster_remembers_that_a_dropped_table_was_loaded(lakehouse, dagster_home):
    """Given a table that Dagster has seen materialized, when someone drops it, then the next run does not take it for one that never was."""
    topic = lakehouse.cluster.topic("dropped", 2)
    topic.send(range(40))
    table = lakehouse.table(topic)
    table.start(command=RUN).result()
    lakehouse.spark().sql(f"DROP TABLE {table.name} PURGE")
    stopped = table.start(command=RUN)
    (outcome,) = stopped.result()
    assert (outcome["state"], stopped.process.returncode) == ("table_missing", 1)
    assert not lakehouse.catalog.table_exists(table.name)


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
