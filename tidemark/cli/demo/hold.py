"""Who holds a home: one `demo` or `dev` at a time, for each begins by clearing what is left of Dagster there."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidemark.domain.errors import Refused
from tidemark.domain.home import PRIVATE
from tidemark.services.processes import Mark, stop

FILE = "dev.lock"
CODE, WEB, DAEMON = "dagster-code", "dagster-webserver", "dagster-daemon"
"""The marks of the processes of Dagster that a demo or dev starts."""


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Hold the home while the block lasts; our death gives it back, so what a killed one left may be cleared.

    Raises:
        Refused: another process holds it; names its pid.
    """
    home.mkdir(PRIVATE, parents=True, exist_ok=True)
    with (home / FILE).open("a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip()
            raise Refused(
                f"process {pid or '?'} runs a demo or dev in {home} already, and a home has one Dagster",
                next_step=f"use that one, or end it with q or Ctrl-C where it runs, or: kill {pid or 'PID'}",
                pid=int(pid) if pid else None,
                home=str(home),
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def end_leftovers(home: Path) -> None:
    """End what a killed demo or dev has left of Dagster; one that holds the home keeps its own."""
    if not home.exists():
        return
    with suppress(Refused), held(home):
        for name in (DAEMON, WEB, CODE):
            stop(Mark.of(name, home), patience=5)
