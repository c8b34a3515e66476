"""Rule: Dagster's processes are looked after: one that is gone is named, with its log."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tidemark.cli.dagster_services import CODE, DAEMON, DagsterServices
from tidemark.engine.config.configuration import Places
from tidemark.services.errors import ServiceFailed

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def services(tmp_path: Path):
    """A daemon and a code server."""
    made = DagsterServices(Places(None, tmp_path / "contracts", tmp_path))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{CODE}.log").write_text("its last words\n")
    with (
        subprocess.Popen([sys.executable, "-c", SLEEP]) as daemon,
        subprocess.Popen([sys.executable, "-c", SLEEP]) as code,
    ):
        made._pids = {DAEMON: daemon.pid, CODE: code.pid}
        yield made
        for process in (daemon, code):
            process.kill()


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
    monkeypatch.setattr("tidemark.services.processes.KEEP_LOG_BYTES", 10)
    services.require_alive()
    log = services._log(CODE)
    assert (log.read_text(), log.with_name(f"{log.name}.1").read_text()) == ("", "its last words\n")


@pytest.mark.parametrize("name", [DAEMON, CODE])
def test_one_that_was_killed_is_named(services, name) -> None:
    """Given a process that was killed, when dev looks, then it names it and its log: no table would be read again."""
    kill(services._pids[name])
    with pytest.raises(ServiceFailed, match=f"{name} has ended") as told:
        services.require_alive()
    assert "tidemark dev" in told.value.next_step
