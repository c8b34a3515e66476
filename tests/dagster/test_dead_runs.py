"""Rule: a run whose process died says so in its own log: what happened, what is not lost, what to do next."""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import dagster as dg
import pytest
from dagster import AssetKey, DagsterEvent, DagsterEventType, DagsterInstance, DagsterRunStatus
from dagster._core.events import EngineEventData
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._utils.error import SerializableErrorInfo

from assets.names import LOCATION, pool_of
from assets.runs.last_runs import DIED, last_runs, why_run
from resources.lake import LakeResource
from sensors import dead_runs
from sensors.dead_runs import bury, canceled
from sensors.lane_runs import under_way
from tidemark.engine.alive import FOLDER, alive, is_held

ENDED_EARLY = """
import signal, sys
from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
from tidemark.cli.main import app

add_run = SqlRunStorage.add_run
def add_and_end(self, run):
    add_run(self, run)
    signal.raise_signal(getattr(signal, end))
SqlRunStorage.add_run = add_and_end
*arguments, end = sys.argv[1:]
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
app(arguments)
"""
"""`tidemark` with arguments, and at the end the signal that ends it as soon as Dagster knows its run."""


def log_of(instance, run):
    return [record.message for record in instance.all_logs(run.run_id)]


@pytest.mark.parametrize("status", [DagsterRunStatus.STARTED, DagsterRunStatus.FAILURE])
def test_a_run_that_died_is_explained_once_whoever_noticed_first(defs, instance, tmp_path, status):
    """Given a run without its process, running by Dagster's records or failed by its code server, then one line of its log explains it."""
    run = instance.create_run_for_job(defs.resolve_job_def("ingest"), status=DagsterRunStatus.STARTED)
    with alive(tmp_path, run.run_id):
        bury(instance, tmp_path)
        assert instance.get_run_by_id(run.run_id).status == DagsterRunStatus.STARTED, "it lives"
    (tmp_path / FOLDER / run.run_id).touch()  # what a killed process leaves
    if status == DagsterRunStatus.FAILURE:
        instance.report_run_failed(run)
    bury(instance, tmp_path)
    bury(instance, tmp_path)
    assert instance.get_run_by_id(run.run_id).status == DagsterRunStatus.FAILURE
    assert [each for each in log_of(instance, run) if DIED in each] == [DIED]
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_sensors_that_tick_at_once_fail_a_dead_run_once(defs, instance, tmp_path, monkeypatch):
    """Given three sensors that all look while the first is about to fail a dead run, then it fails once."""
    run = instance.create_run_for_job(defs.resolve_job_def("ingest"), status=DagsterRunStatus.STARTED)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / run.run_id).touch()
    fail = instance.report_run_failed

    def slowly(*arguments):
        time.sleep(0.3)
        return fail(*arguments)

    monkeypatch.setattr(instance, "report_run_failed", slowly)
    with ThreadPoolExecutor(3) as sensors:
        for each in [sensors.submit(bury, instance, tmp_path) for _ in range(3)]:
            each.result()
    assert [each for each in log_of(instance, run) if DIED in each] == [DIED]


def test_tables_of_a_run_that_was_killed_are_at_no_fault(defs, instance):
    """Given a run that Dagster has seen die, then no table is said to have stopped, and the alert says what a death means."""
    key = frozenset({AssetKey(["shop", "orders"])})
    job = defs.resolve_job_def("ingest").get_subset(asset_selection=key)
    killed = instance.create_run_for_job(job, asset_selection=key, status=DagsterRunStatus.STARTED)
    instance.report_run_failed(killed)
    assert last_runs(instance, ["shop.orders"])["shop.orders"].stopped is None
    assert why_run(instance, killed.run_id) == DIED
    error = SerializableErrorInfo("broken.yaml:2: valeu: unknown key", [], "ConfigurationError")
    edited = instance.create_run_for_job(job, asset_selection=key, status=DagsterRunStatus.STARTED)
    instance.report_engine_event("Could not load job definition.", edited, EngineEventData(error=error))
    instance.report_run_failed(edited)
    assert why_run(instance, edited.run_id) == "broken.yaml:2: valeu: unknown key"
    begun = instance.create_run_for_job(job, asset_selection=key, status=DagsterRunStatus.STARTING)
    instance.report_engine_event("It was launched at the second try.", begun, EngineEventData(error=error))
    instance.report_dagster_event(
        DagsterEvent(DagsterEventType.RUN_START.value, begun.job_name), begun.run_id
    )
    instance.report_run_failed(begun)
    assert why_run(instance, begun.run_id) == DIED
    assert last_runs(instance, ["shop.orders"])["shop.orders"].stopped is None
    broken = instance.create_run_for_job(job, asset_selection=key, status=DagsterRunStatus.STARTED)
    instance.report_run_failed(broken, "the pool has no room")
    assert last_runs(instance, ["shop.orders"])["shop.orders"].stopped == "failed"


def test_every_run_holds_its_lock_as_long_as_it_works_with_the_lake(defs, resource, instance, where):
    """Given a run of whatever job, then it can be told from one whose process died: each of its steps needs the lake."""
    held = []

    @dg.op
    def work(context: dg.OpExecutionContext, lake: LakeResource) -> None:
        held.append(is_held(lake.places.home, context.run_id))

    @dg.job(resource_defs={"lake": resource}, executor_def=dg.in_process_executor)
    def anything() -> None:
        work()

    run = anything.execute_in_process(instance=instance).dagster_run
    assert held == [True]
    assert not is_held(where.home, run.run_id)
    every = defs.resolve_all_job_defs()
    assert [
        n.name for job in every for n in job.nodes if "lake" not in n.definition.required_resource_keys
    ] == []


def test_a_row_that_nobody_makes_a_run_of_keeps_no_table(defs, instance, tmp_path, monkeypatch):
    """Given a run that never began, when it is old and nobody's, then it has failed; a young or held one is left."""
    key = frozenset({AssetKey(["shop", "orders"])})
    job = defs.resolve_job_def("ingest").get_subset(asset_selection=key)
    run, pool = instance.create_run_for_job(job, asset_selection=key), pool_of("default")

    def kept():
        bury(instance, tmp_path)
        return under_way(instance, pool, ["shop.orders"]).kept

    assert kept() == {"shop.orders"}, "whoever made it queues it or begins it in a moment"
    monkeypatch.setattr(dead_runs, "UNBEGUN", timedelta(0))
    with alive(tmp_path, run.run_id):
        assert kept() == {"shop.orders"}, "it lives"
    assert kept() == set()
    assert DIED in log_of(instance, run)


def test_only_runs_of_ours_whose_code_server_is_gone_are_orphans(instance, tmp_path):
    """Given an instance that others use too, when `dev` comes up, then their runs go on, and ours that another code server, another machine or a command line may be at."""

    @dg.job
    def anything():
        pass

    def started(location, **server):
        repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
        return instance.create_run_for_job(
            anything,
            status=DagsterRunStatus.STARTED,
            remote_job_origin=RemoteJobOrigin(repository, "anything"),
            tags={GRPC_INFO_TAG: json.dumps(server)} if server else {},
        )

    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as gone:
        live, dead = listening.getsockname()[1], gone.getsockname()[1]
        gone.close()
        left = [
            started(LOCATION, host="127.0.0.1", port=dead),
            started(LOCATION, host="localhost", socket=str(tmp_path / "none")),
        ]
        spared = [
            started("nightly_of_somebody_else", host="127.0.0.1", port=dead),
            started(LOCATION, host="127.0.0.1", port=live),
            started(LOCATION, host="far.example", port=dead),
            started(LOCATION),
        ]
        bury(instance, tmp_path)
        assert {instance.get_run_by_id(run.run_id).status for run in left} == {DagsterRunStatus.STARTED}
        bury(instance, tmp_path, orphans=True)
    assert [instance.get_run_by_id(run.run_id).status for run in left] == [DagsterRunStatus.FAILURE] * 2
    assert [instance.get_run_by_id(run.run_id).status for run in spared] == [DagsterRunStatus.STARTED] * 4


def test_a_run_that_ended_well_is_not_explained(defs, instance, tmp_path):
    """Given a run that succeeded and left its file behind, then nothing is said."""
    run = instance.create_run_for_job(defs.resolve_job_def("ingest"), status=DagsterRunStatus.SUCCESS)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / run.run_id).touch()
    bury(instance, tmp_path)
    assert not any(DIED in each for each in log_of(instance, run))
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_runs_that_end_with_their_code_server_are_canceled_and_those_of_others_go_on(defs, instance):
    """Given runs of this code server, of another one and of the command line, when this one is stopped, then its own are canceled, killed ones too."""
    job = defs.resolve_job_def("ingest")

    def started(port):
        tags = {GRPC_INFO_TAG: json.dumps({"host": "127.0.0.1", "port": port})} if port else {}
        return instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, tags=tags)

    obedient, killed, foreign, by_hand = started(1), started(1), started(2), started(None)
    with canceled(instance, 1):
        assert instance.get_run_by_id(obedient.run_id).status == DagsterRunStatus.CANCELING, (
            "so its end is no failure"
        )
        instance.report_run_canceled(obedient)
    found = [instance.get_run_by_id(each.run_id).status for each in (obedient, killed, foreign, by_hand)]
    assert found == [DagsterRunStatus.CANCELED] * 2 + [DagsterRunStatus.STARTED] * 2


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("SIGKILL", DagsterRunStatus.FAILURE),
        ("SIGINT", DagsterRunStatus.CANCELED),
        ("SIGHUP", DagsterRunStatus.CANCELED),
    ],
)
def test_a_run_that_ends_before_its_first_event_keeps_no_table(tmp_path, monkeypatch, end, status):
    """Given a command line that is killed or interrupted, or whose terminal is closed, when its run is no more than a row, then its tables are free, and the row says who ran it and why."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "orders.yaml").write_text("topic: orders\ntable: shop.orders\n")
    home = tmp_path / "home"
    places = {"TIDEMARK_HOME": str(home), "TIDEMARK_CONTRACTS": str(tmp_path / "contracts")}
    subprocess.run(
        [sys.executable, "-c", ENDED_EARLY, "run", "shop.orders", "--by=ada", "--reason=as agreed", end],
        env={**os.environ, **places, "DAGSTER_HOME": ""},
        capture_output=True,
        check=False,
    )
    monkeypatch.setenv("DAGSTER_HOME", str(home / "dagster"))
    with DagsterInstance.get() as instance:
        bury(instance, home)
        [run] = instance.get_runs()
        signed = (run.tags["tidemark/by"], run.tags["tidemark/reason"])
        assert (run.status, signed) == (status, ("ada", "as agreed"))
        assert not under_way(instance, pool_of("default"), ["shop.orders"]).kept
