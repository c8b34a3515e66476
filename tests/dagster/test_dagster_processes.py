"""Rules of Dagster's own processes as we start them: what they serve is anew within a minute, or they end."""

import runpy
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import timedelta

import dagster as dg
import dagster._daemon.cli
import psutil
import pytest
from dagster._core.workspace.load_target import GrpcServerTarget, PythonFileTarget
from dagster._daemon import controller
from dagster._daemon.daemon import MonitoringDaemon
from dagster._grpc import server_watcher
from dagster._grpc.client import DagsterGrpcClient

from orchestration import code_server
from orchestration.instance import prepare_dagster_home


@pytest.fixture
def definitions(tmp_path, monkeypatch):
    """A file with definitions, and a DAGSTER_HOME with our settings."""
    monkeypatch.setenv("DAGSTER_HOME", str(prepare_dagster_home(tmp_path)))
    file = tmp_path / "definitions.py"
    file.write_text("import dagster as dg\ndefs = dg.Definitions()\n")
    return file


@pytest.mark.filterwarnings("ignore:Error loading repository location")  # nobody serves it at that address
@pytest.mark.parametrize("served", ["by the daemon", "elsewhere"])
def test_the_daemon_reads_every_minute_what_nobody_says_has_changed(definitions, monkeypatch, served):
    """Given definitions that the daemon's own child serves, as the clone's workspace.yaml has it, then it starts one anew every minute; those of a code server that it asks, it reads again after an hour."""
    for module, name in (
        (controller, "DagsterDaemonController"),
        (server_watcher, "WATCH_INTERVAL"),
        (controller, "RELOAD_WORKSPACE_INTERVAL"),
        (controller, "DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(dagster._daemon.cli, "main", lambda: None)
    runpy.run_module("orchestration.daemon", run_name="__main__")
    target, pause = PythonFileTarget(str(definitions), None, None, "tidemark"), 60
    if served == "elsewhere":
        target, pause = GrpcServerTarget("127.0.0.1", 1, None, "tidemark"), 3660
    with (
        dg.DagsterInstance.get() as instance,
        controller.daemon_controller_from_instance(
            instance, target, gen_daemons=lambda _: [MonitoringDaemon(interval_seconds=600)]
        ) as daemon,
    ):
        now = time.time()
        assert daemon.check_workspace_freshness(now - 50) == now - 50
        read = daemon.check_workspace_freshness(now - 61)
        assert now + pause <= read + 60 < now + pause + 30


def test_a_code_server_whose_child_is_gone_ends(definitions):
    """Given a code server that is kept up by something, when the process that serves the definitions is killed, then it ends too, and not before."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = "-m", "orchestration.code_server", "start", "-h", "127.0.0.1", "-p", str(port)
    with subprocess.Popen(
        [sys.executable, *command, "-f", str(definitions)], stderr=subprocess.PIPE
    ) as server:
        try:
            client, until = DagsterGrpcClient(port=port, host="127.0.0.1"), time.monotonic() + 60
            while client.health_check_query() != "SERVING":
                assert time.monotonic() < until
                time.sleep(0.5)
            [child] = psutil.Process(server.pid).children()
            time.sleep(6)
            assert server.poll() is None
            child.kill()
            assert server.wait(30) == 1
            assert b"The process that serves the definitions is gone" in server.stderr.read()
        finally:
            server.kill()


def test_a_code_server_waits_for_no_older_child_when_the_newest_is_gone(monkeypatch):
    """Given a child that a reload has left behind with its runs, when the newest is killed, then the code server ends; not when the older one does."""
    ended = threading.Event()
    monkeypatch.setattr(code_server, "WANTED_EVERY", timedelta(seconds=0.2))
    monkeypatch.setattr(code_server.os, "_exit", lambda _: ended.set())
    threading.Thread(target=code_server.end_with_child, daemon=True).start()
    with ExitStack() as ends:

        def child():
            made = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "grpc"])
            ends.callback(made.wait)
            ends.callback(made.kill)
            assert not ended.wait(1)
            return made

        first, second, third = child(), child(), child()
        first.kill()
        assert not ended.wait(1)
        third.kill()
        assert ended.wait(10)
        assert second.poll() is None
