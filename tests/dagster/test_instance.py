"""Rules of the instance: Dagster accepts our settings, a lane has one run at a time, and your settings stay yours."""

import errno
import fcntl
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import dagster as dg
import pytest
from alembic.script import ScriptDirectory
from dagster._core.instance.config import PoolGranularity
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

from orchestration.instance import prepare_dagster_home
from orchestration.local_storage import LocalStorage
from tidemark.cli.in_dagster import dagster_instance


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A DAGSTER_HOME with our settings."""
    folder = prepare_dagster_home(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    return folder


def test_dagster_accepts_the_settings(home):
    with dg.DagsterInstance.get() as instance:
        assert type(instance.run_storage) is type(LocalStorage(str(home)).run_storage)
        pools = instance.get_concurrency_config().pool_config
        assert (pools.default_pool_limit, pools.pool_granularity) == (1, PoolGranularity.RUN)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.get_settings("sensors")["use_threads"]
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled


def test_settings_that_are_there_are_left_alone(tmp_path):
    folder = prepare_dagster_home(tmp_path)
    (folder / "dagster.yaml").write_text("telemetry: {enabled: true}\n")
    assert prepare_dagster_home(tmp_path) == folder
    assert (folder / "dagster.yaml").read_text() == "telemetry: {enabled: true}\n"


def test_settings_that_a_full_disk_has_left_empty_are_written_anew(tmp_path):
    folder = prepare_dagster_home(tmp_path)
    whole = (folder / "dagster.yaml").read_text()
    (folder / "dagster.yaml").write_text("")
    prepare_dagster_home(tmp_path)
    assert (folder / "dagster.yaml").read_text() == whole
    assert [each.name for each in folder.iterdir()] == ["dagster.yaml"]


@dg.asset
def orders(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"run": context.run_id})


def materialized(instance):
    """Id of a run that materialized `orders`."""
    assert dg.materialize([orders], instance=instance).success
    (latest,) = instance.fetch_materializations(orders.key, limit=1).records
    return latest.run_id


def known_runs(home):
    """By the storage of Dagster itself, which opens files anew for every question: id → materialized assets."""
    found = DagsterSqliteStorage.from_local(str(home))
    return {
        run.run_id: {
            str(record.asset_key.to_user_string())
            for record in found.event_log_storage.get_records_for_run(
                run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
            ).records
            if record.asset_key
        }
        for run in found.run_storage.get_runs()
    }


def test_our_storage_keeps_what_dagster_keeps_where_dagster_keeps_it(home):
    with dg.DagsterInstance.from_config(str(home)) as ours:
        first = materialized(ours)
        assert known_runs(home) == {first: {"orders"}}
        (home / "dagster.yaml").unlink()
        with dg.DagsterInstance.from_config(str(home)) as theirs:
            second = materialized(theirs)
        assert {run.run_id for run in ours.get_runs()} == {first, second}
        assert [record.run_id for record in ours.fetch_materializations(orders.key, limit=9).records] == [
            second,
            first,
        ]


USED = "import dagster as dg; i = dg.DagsterInstance.get(); i.get_runs(); i.all_instigator_state(); i.all_asset_keys()"


@pytest.mark.parametrize("_again", range(3))
def test_processes_that_start_at_once_on_a_new_home_make_its_tables_once(home, _again):
    """Given a new home, when three processes begin to use it at the same time, then each can, and so can whoever comes next."""
    users = [subprocess.Popen([sys.executable, "-c", USED]) for _ in range(3)]
    assert [each.wait(60) for each in users] == [0, 0, 0]
    files = [*home.glob("history/**/*.db"), *home.glob("schedules/*.db")]
    assert {file.name for file in files} == {"runs.db", "index.db", "schedules.db"}
    for file in files:
        with closing(sqlite3.connect(file)) as database:
            assert len(database.execute("SELECT version_num FROM alembic_version").fetchall()) == 1


def test_the_command_line_works_where_the_file_system_knows_no_locks(home, monkeypatch):
    """Given a folder whose file system refuses `flock`, when a command opens the instance, then it is made and answers."""

    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with dagster_instance() as instance:
        assert instance.get_runs() == []


def test_whoever_watches_a_run_sees_each_event_when_it_is_written(home):
    """Given a page of the UI that shows a run, when another process writes its events, then it is told of all, to the end."""
    run_id, told, ended = str(uuid4()), [], threading.Event()

    def tell(entry, _cursor):
        told.append(entry)
        if entry.is_dagster_event and entry.dagster_event.event_type == dg.DagsterEventType.RUN_SUCCESS:
            ended.set()

    with dg.DagsterInstance.get() as watching, dg.DagsterInstance.from_config(str(home)) as writing:
        watching.event_log_storage.watch(run_id, None, tell)
        job = dg.Definitions(assets=[orders]).resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=writing, run_id=run_id).success
        assert ended.wait(20), "the page stands still"
        assert len(told) == len(watching.all_logs(run_id))


def test_threads_ask_and_write_at_once(home):
    with dg.DagsterInstance.get() as instance, ThreadPoolExecutor(24) as pool:

        def written_and_read(number: int) -> bool:
            instance.report_runless_asset_event(dg.AssetMaterialization("orders", partition=str(number)))
            return str(number) in instance.get_materialized_partitions(orders.key)

        assert all(pool.map(written_and_read, range(100)))


def test_instances_come_and_go_in_threads_without_disturbing_one_another(home):
    def asked(number: int) -> bool:
        with dg.DagsterInstance.get() as instance:
            instance.report_runless_asset_event(dg.AssetMaterialization("orders", partition=str(number)))
            return str(number) in instance.get_materialized_partitions(orders.key)

    with dg.DagsterInstance.get(), ThreadPoolExecutor(8) as pool:
        assert all(pool.map(asked, range(24)))


def test_the_tables_are_compared_with_dagsters_migrations_once_in_a_process(home, monkeypatch):
    """Given an instance that was used, when another one is made and used, then nobody asks for migrations; in a new home someone does."""
    compared = []
    real = ScriptDirectory.as_revision_number
    monkeypatch.setattr(
        ScriptDirectory,
        "as_revision_number",
        lambda self, *which: compared.append(which) or real(self, *which),
    )

    def used():
        with dg.DagsterInstance.get() as instance:
            instance.report_runless_asset_event(dg.AssetMaterialization("orders"))
            return instance.get_runs(), instance.all_instigator_state()

    used()
    assert compared
    compared.clear()
    used()
    assert not compared


def test_a_process_goes_on_when_someone_has_deleted_what_dagster_knew(home):
    """Given a process that used an instance, when all of Dagster's files are deleted, then its next instance begins anew."""
    with dg.DagsterInstance.get() as instance:
        materialized(instance)
    for folder in ("history", "schedules", "storage"):
        shutil.rmtree(home / folder, ignore_errors=True)
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs() == []
        assert instance.all_instigator_state() == []
        run = materialized(instance)
    assert known_runs(home) == {run: {"orders"}}


def test_a_process_that_is_killed_loses_nothing_that_it_has_stored(home):
    """Given a process that stores an event and is killed at once, when another one asks, then it is there."""
    dies = (
        "import os, signal, dagster as dg\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    instance.report_runless_asset_event(dg.AssetMaterialization('orders', partition='last'))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", dies], check=False).returncode == -signal.SIGKILL
    with dg.DagsterInstance.get() as instance:
        assert instance.get_materialized_partitions(orders.key) == {"last"}


def test_what_was_wiped_is_gone_and_the_next_run_is_kept(home):
    with dg.DagsterInstance.get() as instance:
        materialized(instance)
        instance.wipe()
        assert known_runs(home) == {}
        run = materialized(instance)
    assert known_runs(home) == {run: {"orders"}}


def test_a_process_that_ends_leaves_no_log_of_its_writes_behind(home):
    with dg.DagsterInstance.get() as instance:
        materialized(instance)
        assert list(home.rglob("*.db-wal"))
    assert not list(home.rglob("*.db-wal"))
