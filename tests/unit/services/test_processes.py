"""With real processes: a server is found by its mark, never by a pid alone."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import until

from tidemark.services.processes import Command, Mark, has_ended, rotate, server, start, stop

SLEEPER = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
PARENT = (
    "import os, subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
    "print(child.pid, flush=True); time.sleep(600)"
)


@pytest.fixture
def mark(tmp_path):
    mark = Mark.of("kafka", tmp_path)
    yield mark
    stop(mark, patience=0.2)


@pytest.fixture
def run(mark, tmp_path):
    # Python takes -X name as java takes -Dname, so that the mark lands in a real command line.
    def start_python(code):
        wrapper = tmp_path / "java"
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -c "$2" "$1"\n')
        wrapper.chmod(0o755)
        return start(Command(wrapper, [], [code], cwd=tmp_path), mark, tmp_path / "logs" / "log")

    return start_python


def test_a_service_gets_no_settings_of_other_installations(run, mark, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_OPTS", "-Dof=another")
    monkeypatch.setenv("OPTS", "of all")
    run("import os; print(os.environ.get('KAFKA_OPTS'), os.environ['OPTS'], flush=True); " + SLEEPER)
    assert said(tmp_path) == "None of all"


def said(tmp_path):
    """Its first line, once that is whole: what `print` is given may arrive in parts."""

    def whole_line():
        line, end, _ = (tmp_path / "logs" / "log").read_text().partition("\n")
        return line if end else None

    return until(whole_line, "its first line")


def test_found_with_and_without_its_pid(run, mark):
    pid = run(SLEEPER)
    assert until(lambda: server(mark), "the server").pid == pid
    assert server(mark, pid).pid == pid


def test_a_pid_that_another_program_has_now_is_not_ours(run, mark):
    stranger = subprocess.Popen([sys.executable, "-c", SLEEPER])
    try:
        assert server(mark, stranger.pid) is None
        pid = run(SLEEPER)
        assert until(lambda: server(mark, stranger.pid), "the server").pid == pid
        stop(mark)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_another_home_is_another_stack(run, mark, tmp_path):
    run(SLEEPER)
    until(lambda: server(mark), "the server")
    assert server(Mark.of("kafka", tmp_path / "other")) is None
    assert server(Mark.of("spark", tmp_path)) is None


def test_it_runs_detached_in_a_session_of_its_own(run):
    pid = run(SLEEPER)
    assert os.getsid(pid) == pid


def test_stop_takes_what_the_server_started_along(run, mark, tmp_path):
    pid = run(PARENT)
    child = int(said(tmp_path))
    stop(mark)
    assert has_ended(pid)
    assert has_ended(child)


def test_stop_finds_the_children_of_a_server_that_was_killed(run, mark, tmp_path):
    pid = run(PARENT)
    child = int(said(tmp_path))
    psutil.Process(pid).kill()
    until(lambda: has_ended(pid), "its end")
    assert not has_ended(child)
    stop(mark)
    assert has_ended(child)


def test_one_that_ignores_sigterm_is_killed(run, mark, tmp_path):
    pid = run(STUBBORN)
    said(tmp_path)
    stop(mark, patience=0.3)
    assert has_ended(pid)


def test_a_process_that_died_is_seen_as_ended_though_nobody_waited(run, mark):
    pid = run("raise SystemExit(3)")
    until(lambda: has_ended(pid), "its end")
    assert server(mark, pid) is None


def test_settings_for_other_installations_stay_outside(run, mark, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/other-spark")
    monkeypatch.setenv("KEPT", "1")
    run("import os; print(os.environ.get('SPARK_HOME'), os.environ['KEPT'], flush=True)")
    assert said(tmp_path) == "None 1"


def test_a_large_log_is_put_aside(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tidemark.services.processes.KEEP_LOG_BYTES", 10)
    log = tmp_path / "logs" / "log"
    log.parent.mkdir()
    log.write_text("x" * 100)
    run("print('new', flush=True)")
    assert said(tmp_path) == "new"
    assert Path(f"{log}.1").read_text() == "x" * 100


def test_a_large_log_is_put_aside_under_the_hands_of_who_writes_it(run, tmp_path, monkeypatch):
    """Given a server that goes on writing, when its log is large, then it is copied aside, and what comes next begins the log anew."""
    monkeypatch.setattr("tidemark.services.processes.KEEP_LOG_BYTES", 10)
    log = tmp_path / "logs" / "log"
    run(
        "import pathlib, time; print('x' * 100, flush=True);"
        "empty = lambda: time.sleep(0.01) or not pathlib.Path('logs/log').stat().st_size;"
        "next(filter(bool, iter(empty, None))); print('new', flush=True)"
    )
    assert said(tmp_path) == "x" * 100
    rotate(log)
    assert said(tmp_path) == "new"
    assert Path(f"{log}.1").read_text() == "x" * 100 + "\n"
    rotate(tmp_path / "other" / "log")
