"""Rule: Dagster's processes are looked after: one that is gone is named, with its log."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tidemark.cli.dagster_services import CODE, DAEMON, DagsterServices
from tidemark.engine.config.configuration import Places
from tidemark.services.errors import ServiceFailed

SLEEP = "import time; time.sleep(60)"
# Speaks itself, for its command line is there by then.
CHILD = "import os; print(os.getpid(), flush=True); " + SLEEP
PARENT = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {CHILD!r}, 'grpc']).wait(); {SLEEP}"
)


@pytest.fixture
def services(tmp_path: Path):
    """A daemon, and a code server that answers through its child, as Dagster's does; also the pid of that child."""
    made = DagsterServices(Places(None, tmp_path / "contracts", tmp_path))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{CODE}.log").write_text("its last words\n")
    with (
        subprocess.Popen([sys.executable, "-c", SLEEP]) as daemon,
        subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as code,
    ):
        made._pids = {DAEMON: daemon.pid, CODE: code.pid}
        child = int(code.stdout.readline())
        yield made, child
        for pid in (daemon.pid, code.pid, child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_they_see_the_environment_and_the_folder_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given secrets named as Kafka's own settings are, and a folder with names of ours and of Python's, then `dev` is as the command line, and so is what its processes start."""
    (tmp_path / "project" / "assets").mkdir(parents=True)
    (tmp_path / "home" / "logs").mkdir(parents=True)
    (tmp_path / "project" / "assets" / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "project" / "secrets.py").write_text("raise SystemExit('not Python\\'s')")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    look = "import os, assets, secrets; print(os.environ['KAFKA_PASSWORD'], os.getcwd(), assets.__file__)"
    begin = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}])"
    made = DagsterServices(Places(None, tmp_path / "contracts", tmp_path / "home"))
    made._start(DAEMON, ("-c", begin), made.environment())
    psutil.Process(made._pids[DAEMON]).wait(30)
    said = (tmp_path / "home" / "logs" / f"{DAEMON}.log").read_text()
    assert said.startswith(f"secret {tmp_path / 'project'} ")
    assert str(tmp_path) not in said.split()[2]


def kill(pid: int) -> None:
    process = psutil.Process(pid)
    process.kill()
    process.wait(10)


def test_their_logs_stay_small_while_they_live(services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given processes that live for weeks, when dev looks, then a log that has grown large is put aside."""
    made, _ = services
    monkeypatch.setattr("tidemark.services.processes.KEEP_LOG_BYTES", 10)
    made.require_alive()
    log = made._log(CODE)
    assert (log.read_text(), log.with_name(f"{log.name}.1").read_text()) == ("", "its last words\n")


def test_a_daemon_that_was_killed_is_named(services) -> None:
    """Given a daemon that was killed, when dev looks, then it names it and its log: no table would be read again."""
    made, _ = services
    kill(made._pids[DAEMON])
    with pytest.raises(ServiceFailed, match=f"{DAEMON} has ended") as told:
        made.require_alive()
    assert "tidemark dev" in told.value.next_step


def test_a_code_server_without_its_child_does_not_serve(services) -> None:
    made, child = services
    kill(child)
    with pytest.raises(ServiceFailed, match="its last words"):
        made.require_alive()
