"""Rule: a run that is dead is known to be dead; one that nobody here knows is not presumed so."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import psutil

from tidemark.engine.alive import alive, forget, held_by, is_dead, is_held

HOLD = "import sys, time\nfrom pathlib import Path\nfrom tidemark.engine.alive import alive\n"
HOLD += "with alive(Path(sys.argv[1]), 'run'):\n    print('held', flush=True)\n    time.sleep(60)"


def test_a_killed_process_is_dead_and_a_living_one_is_not(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert not is_dead(tmp_path, "run")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert is_dead(tmp_path, "run")
    forget(tmp_path, "run")
    assert not is_dead(tmp_path, "run")


def test_a_run_that_ended_well_leaves_nothing(tmp_path):
    with alive(tmp_path, "run"):
        assert not is_dead(tmp_path, "run")
    assert not is_dead(tmp_path, "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_home_that_cannot_be_written_does_not_stop_a_run(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    with alive(blocked, "run"):
        assert not is_dead(blocked, "run")


def test_a_file_system_without_locks_does_not_stop_a_run(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with alive(tmp_path, "run"):
        assert not is_dead(tmp_path, "run")
        assert list((tmp_path / "runs").iterdir()) == []


def test_a_step_within_its_own_run_does_not_let_go_of_it(tmp_path):
    with alive(tmp_path, "run"):
        with alive(tmp_path, "run"):
            assert is_held(tmp_path, "run")
        assert is_held(tmp_path, "run")
    assert not is_held(tmp_path, "run")


def test_a_process_is_known_by_the_run_whose_lock_it_holds(tmp_path):
    (tmp_path / "elsewhere").touch()
    with (tmp_path / "elsewhere").open(), alive(tmp_path, "run"):
        files = [each.path for each in psutil.Process().open_files()]
        assert held_by(tmp_path, files) == "run"
        assert held_by(tmp_path / "other", files) is None
