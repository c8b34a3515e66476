"""Detached processes that can be found again without trusting a pid.

Every process carries a mark in its command line (the server itself) and in its environment (also what it
starts, like Spark's Python workers). A pid that now belongs to another program has no such mark, and a server
whose pid was never written down still has one.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

MARK = "TIDEMARK_SERVICE"
KEEP_LOG_BYTES = 10_000_000
FOREIGN = ("SPARK_", "PYSPARK_", "KAFKA_", "QUARKUS_", "REGISTRY_")
"""Settings that a user has for other installations of the same programs: the services of the stack get none."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: the JVM options, then (our mark goes in between) the main class and its arguments."""

    executable: Path
    options: Sequence[str]
    main: Sequence[str]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = FOREIGN  # beginnings of variables that are not handed on


@dataclass(frozen=True, slots=True)
class Mark:
    """Which service of which home a process belongs to."""

    service: str
    home: Path

    @classmethod
    def of(cls, service: str, home: Path) -> Self:
        """With the home resolved, so that two ways to write it are one."""
        return cls(service, home.resolve())

    def __str__(self) -> str:
        return f"{self.service}@{self.home}"

    @property
    def option(self) -> str:
        """The JVM option that marks the server."""
        return f"-D{MARK}={self}"


def start(command: Command, mark: Mark, log: Path) -> int:
    """Run detached (own session, so no terminal's Ctrl-C reaches it) and give its pid."""
    rotate(log)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(command.without)}
    environment = {**inherited, **command.environment, MARK: str(mark)}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [command.executable, *command.options, mark.option, *command.main],
            cwd=command.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid


def rotate(log: Path) -> None:
    """Copy a large log aside, to `.1`, and empty it: whoever writes to it appends, and need not open it anew.

    A line that comes between the two is lost.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > KEEP_LOG_BYTES:
        shutil.copyfile(log, log.with_name(log.name + ".1"))
        os.truncate(log, 0)


def server(mark: Mark, pid: int | None = None) -> psutil.Process | None:
    """The living server with this mark; `pid` is a hint that saves looking through all processes."""
    if pid is not None and _is_server(process := _process(pid), mark):
        return process
    return next((process for process in psutil.process_iter() if _is_server(process, mark)), None)


def has_ended(pid: int) -> bool:
    """True when a process that we have just started is gone. (Its command line is not readable at once.)"""
    process = _process(pid)
    return process is None or _is_zombie(process)


def stop(mark: Mark, *, patience: float = 15.0) -> None:
    """End the server and all it started: SIGTERM, after `patience` seconds SIGKILL; waits for the end."""
    main = server(mark)
    children = _members(mark)
    if main is not None:
        _signal([main], signal.SIGTERM)
        _signal(_alive_after([main], patience), signal.SIGKILL)
    rest = {*children, *_members(mark)}
    _signal(rest, signal.SIGKILL)
    _alive_after(rest, patience)


def _members(mark: Mark) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _environment(process) == str(mark)]


def _environment(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def _is_server(process: psutil.Process | None, mark: Mark) -> bool:
    if process is None:
        return False
    try:
        return mark.option in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _alive_after(processes: Iterable[psutil.Process], patience: float) -> list[psutil.Process]:
    """Wait for their end; what is left. A zombie has ended, whether or not its parent asks for its status."""
    deadline = time.monotonic() + patience
    alive = list(processes)
    while alive and time.monotonic() < deadline:
        alive = [process for process in psutil.wait_procs(alive, timeout=0.1)[1] if not _is_zombie(process)]
    return alive


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
