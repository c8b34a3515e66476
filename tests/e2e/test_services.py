"""The embedded stack as a user meets it: through the command line, with kills, restarts and thieves of ports."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from waiting import until

from tidemark.services import class_archive, python_workers, rehearsal
from tidemark.services.java import find_java
from tidemark.services.manifest import cache_dir
from tidemark.services.processes import KEEP_LOG_BYTES, MARK
from tidemark.services.spark import Spark
from tidemark.services.stack import Stack

SERVICES = ("kafka", "registry", "spark")


def processes_of(home):
    """Everything alive that was started for this home, whatever the stack itself believes."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(MARK, "").endswith(f"@{home}"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def cli(home, *arguments, popen=False):
    command = [sys.executable, "-m", "tidemark", "services", *arguments]
    environment = {**os.environ, "TIDEMARK_HOME": str(home)}
    if popen:
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def listening(process):
    return [each.laddr for each in process.net_connections() if each.status == psutil.CONN_LISTEN]


@pytest.fixture(scope="module")
def home(tmp_path_factory, always_stopped):
    """A stack of this module's own, since it is killed and moved."""
    folder = tmp_path_factory.mktemp("services").resolve()
    with always_stopped(folder) as stack:
        stack.up()
        yield folder


@pytest.fixture
def running(home):
    """As above, with all services up, whatever the test before did."""
    return Stack(home).up()


@pytest.fixture
def spark(running):
    session = SparkSession.builder.remote(running["spark"]["remote"]).create()
    yield session
    session.stop()


def test_status_says_where_everything_is(home, running):
    answer = cli(home, "status", "--json")
    assert answer.returncode == 0, answer.stderr
    status = json.loads(answer.stdout)
    assert status == running == json.loads((home / "stack.json").read_text())
    assert set(status) == {
        *("kafka", "schema_registry", "spark", "catalog", "home", "processes"),
        "services",
    }
    assert status["services"] == dict.fromkeys(SERVICES, "running")
    assert all(psutil.pid_exists(pid) for pid in status["processes"].values())


def test_nothing_listens_beyond_this_machine(home, running):
    known = {
        urlsplit(f"//{address.rpartition('//')[2]}").port
        for address in (
            running["kafka"]["bootstrap.servers"],
            running["schema_registry"]["url"],
            running["spark"]["remote"],
        )
    }
    found = [(process, address) for process in processes_of(home) for address in listening(process)]
    assert {address.port for _, address in found} >= known
    for process, address in found:
        assert address.ip.removeprefix("::ffff:") == "127.0.0.1", (process.cmdline()[-1], address)


def test_the_registry_is_as_strict_as_clients_expect(running):
    url = running["schema_registry"]["url"]
    assert httpx.get(f"{url}/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_a_registry_that_an_up_did_not_get_ready_is_made_so_by_the_next(home, running):
    """Given an `up` that was killed as soon as the registry answered, then the next one, which keeps it, sets its rule."""
    url = running["schema_registry"]["url"]
    httpx.put(f"{url}/config", json={"compatibility": "NONE"}).raise_for_status()
    (home / "registry" / "compatibility-set").unlink()
    told = cli(home, "up", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["processes"] == running["processes"]
    assert httpx.get(f"{url}/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_starting_leaves_nothing_behind(home, spark):
    assert spark.sql("SHOW NAMESPACES IN lake").collect() == []
    assert list((home / "warehouse").iterdir()) == []


def test_the_log_of_a_server_that_lives_for_weeks_stays_small(home, spark):
    """Given a server that has more to say than a log holds, then the newest is in it, what was before that beside it, and the rest is gone."""
    log, before = home / "logs" / "spark.log", home / "logs" / "spark.log.1"
    long = "x" * (KEEP_LOG_BYTES // 2)
    for number in range(4):
        spark.sql(f"SELECT /*+ NONSENSE_{number}({long}) */ 1").collect()
    assert "NONSENSE_3" in log.read_text()
    assert before.stat().st_size < 2 * KEEP_LOG_BYTES
    assert "NONSENSE_0" not in before.read_text() + log.read_text()


def test_the_server_never_serves_a_stale_table(spark):
    assert spark.conf.get("spark.sql.catalog.lake.cache-enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(2 * os.cpu_count())


def test_python_functions_run_in_our_python_without_work_that_could_be_done_once(home, spark):
    """Given the worker of a function, then no task has it search archives, import pandas or look for old garbage."""

    def told(batches):
        for _ in batches:
            archives = [each for each in sys.path if each.endswith(".jar") or "pyspark.zip" in each]
            facts = [repr(archives), str("pandas" in sys.modules), str(gc.get_freeze_count() > 0)]
            yield pa.RecordBatch.from_pydict({"a": facts})

    found = [row.a for row in spark.sql("SELECT 1 AS a").mapInArrow(told, "a string").collect()]
    assert found == ["[]", "True", "True"]
    workers = [each for each in processes_of(home) if python_workers.__name__ in each.cmdline()]
    assert workers
    assert all(Path(each.exe()).samefile(sys.executable) for each in workers)


@pytest.mark.long
def test_parallel_writers_of_both_kinds_wait_for_each_other(running):
    names = [f"t{number}" for number in range(4)]

    def by_spark(name):
        session = SparkSession.builder.remote(running["spark"]["remote"]).create()
        session.sql(f"CREATE TABLE lake.writers.{name} (id BIGINT)")
        for _ in range(5):
            session.range(10).writeTo(f"lake.writers.{name}").append()
        session.stop()

    def by_pyiceberg(name):
        catalog = load_catalog(running["catalog"]["name"], **running["catalog"]["properties"])
        for number in range(20):
            catalog.create_namespace(f"{name}_{number}")
            catalog.drop_namespace(f"{name}_{number}")

    failures = []

    def run(write, name):
        try:
            write(name)
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)

    catalog = load_catalog(running["catalog"]["name"], **running["catalog"]["properties"])
    catalog.create_namespace("writers")
    threads = [
        threading.Thread(target=run, args=(write, name))
        for name in names
        for write in (by_spark, by_pyiceberg)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for name in names:
        assert catalog.load_table(f"writers.{name}").scan().to_arrow().num_rows == 50


def exhaust(remote):
    """Ask a Spark server for more memory than it has."""
    session = SparkSession.builder.remote(remote).create()
    session.client.set_retry_policies([])
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a dying server makes of it
        session.sql("SELECT length(repeat('x', 2000000000 + cast(id AS int))) FROM range(2)").collect()


@pytest.mark.parametrize("victim", [pytest.param("kafka", marks=pytest.mark.long), "registry", "spark"])
def test_a_killed_service_is_named_and_only_it_is_restarted(home, running, victim):
    process = psutil.Process(running["processes"][victim])
    if victim == "spark":
        exhaust(running["spark"]["remote"])
        process.wait(60)
    else:
        process.kill()
    deadline = time.monotonic() + 10
    while (answer := cli(home, "status", "--json")).returncode == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert answer.returncode == 1
    status = json.loads(answer.stdout)
    assert status["processes"][victim] is None
    assert status["services"] == {name: "killed" if name == victim else "running" for name in SERVICES}
    assert "tidemark services up" in cli(home, "status").stdout

    again = Stack(home).up()
    assert again["processes"][victim] not in (None, running["processes"][victim])
    for name in set(SERVICES) - {victim}:
        assert again["processes"][name] == running["processes"][name]
    for key in ("kafka", "schema_registry", "spark"):
        assert again[key] == running[key]


def test_data_outlives_a_restart_with_a_taken_port_a_stale_pid_and_two_at_once(home, running):
    """Given a Spark server that was killed, when the stack goes down, then they go too; what was written is there afterwards."""
    ids = _write_everywhere(running)
    psutil.Process(running["processes"]["spark"]).kill()

    assert cli(home, "down").returncode == 0
    assert processes_of(home) == []
    assert cli(home, "status").returncode == 1

    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    thief = socket.socket()
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thief.bind(("127.0.0.1", int(running["kafka"]["bootstrap.servers"].split(":")[1])))
    thief.listen()
    try:
        stale = {**running, "processes": dict.fromkeys(SERVICES, stranger.pid)}
        (home / "stack.json").write_text(json.dumps(stale))
        both = [cli(home, "up", "--json", popen=True) for _ in range(2)]
        answers = [json.loads(each.communicate()[0]) for each in both]
        assert [each.returncode for each in both] == [0, 0]
        assert answers[0] == answers[1]
        assert stranger.poll() is None
    finally:
        thief.close()
        stranger.kill()
        stranger.wait()

    again = answers[0]
    assert stranger.pid not in again["processes"].values()
    assert again["kafka"] != running["kafka"]
    assert again["schema_registry"] == running["schema_registry"]
    _read_everywhere(again, ids)
    assert Stack(home).up()["processes"] == again["processes"]


def _write_everywhere(status):
    servers = status["kafka"]["bootstrap.servers"]
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("kept", 2)])["kept"].result()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(100):
        producer.produce("kept", str(number), partition=number % 2)
    producer.flush()
    url = status["schema_registry"]["url"]
    ids = [_register(url, name) for name in ("A", "B")]
    session = SparkSession.builder.remote(status["spark"]["remote"]).create()
    session.sql("CREATE NAMESPACE lake.kept")
    session.sql("CREATE TABLE lake.kept.t AS SELECT id FROM range(7)")
    session.sql("SELECT 1 AS a").mapInArrow(lambda batches: batches, "a int").collect()
    session.stop()
    return ids


def _read_everywhere(status, ids):
    consumer = Consumer({"bootstrap.servers": status["kafka"]["bootstrap.servers"], "group.id": "kept"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition("kept", number), timeout=30)[1] for number in (0, 1)
    ]
    consumer.close()
    assert ends == [50, 50]
    url = status["schema_registry"]["url"]
    assert httpx.get(f"{url}/subjects/A-value/versions/1").json()["id"] == ids[0]
    assert _register(url, "C") not in ids
    assert httpx.get(f"{url}/config").json() == {"compatibilityLevel": "BACKWARD"}
    catalog = load_catalog(status["catalog"]["name"], **status["catalog"]["properties"])
    assert catalog.load_table("kept.t").scan().to_arrow().num_rows == 7


def _register(url, name):
    schema = json.dumps({"type": "record", "name": name, "fields": []})
    return (
        httpx.post(f"{url}/subjects/{name}-value/versions", json={"schema": schema})
        .raise_for_status()
        .json()["id"]
    )


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_up_leaves_no_process_behind(tmp_path, always_stopped, number):
    with always_stopped(tmp_path):
        up = cli(tmp_path, "up", popen=True)
        deadline = time.monotonic() + 30
        while len(processes_of(tmp_path)) < len(SERVICES) and time.monotonic() < deadline:
            time.sleep(0.05)
        up.send_signal(number)
        out, _ = up.communicate(timeout=60)
        assert up.returncode == 130, out
        assert "Interrupted" in out
        assert processes_of(tmp_path) == []


def test_a_service_that_cannot_start_says_why_and_takes_the_others_down_again(tmp_path, always_stopped):
    with always_stopped(tmp_path):
        (tmp_path / "kafka").mkdir()
        (tmp_path / "kafka" / "data").write_text("a file where the broker wants its folder")
        answer = cli(tmp_path, "up", "--json")
        assert answer.returncode == 2
        error = json.loads(answer.stdout)["error"]
        assert error["service"] == "kafka"
        assert str(tmp_path / "logs" / "kafka.log") in error["next_step"]
        assert processes_of(tmp_path) == []


@pytest.mark.long
def test_a_rehearsal_leaves_the_classes_with_which_later_servers_start(tmp_path, monkeypatch):
    """Given none yet, when a rehearsal is ended midway, then nothing is left; otherwise Java takes what it made."""
    maven, home, java = cache_dir() / "maven", tmp_path / "home", find_java()
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
    class_archive.folder().mkdir(parents=True)
    (tmp_path / "cache" / "maven").symlink_to(maven)
    (home / "logs").mkdir(parents=True)
    archive, own = Spark().archive(java), home / rehearsal.FOLDER

    rehearsal.begin(home, java, ())
    deadline = time.monotonic() + 240  # it makes room for all else on the machine
    while len(processes_of(own)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    begun = processes_of(own)
    assert len(begun) >= 2, "the rehearsal and its server"
    until(lambda: all(map(stands_back, begun)), "both to let others go first", 10)
    rehearsal.end(home)
    assert (processes_of(own), own.exists(), archive.use()) == ([], False, [])

    rehearsal.rehearse(home, java, ())
    [option] = archive.use()
    assert not own.exists()
    assert takes(java, option, archive.jars)
    assert not takes(java, option, archive.jars[1:])


def stands_back(process):
    """The least priority: within its session, and among the sessions where Linux shares the processor by these."""
    group = Path(f"/proc/{process.pid}/autogroup")
    return process.nice() == rehearsal.NICE and (
        not group.exists() or group.read_text().split()[-1] == str(rehearsal.NICE)
    )


def takes(java, option, jars):
    """Whether Java, told that it must, maps the archive for this class path."""
    command = [java, "-Xshare:on", option, "-XX:+UseParallelGC", "-cp", os.pathsep.join(jars), "-version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
