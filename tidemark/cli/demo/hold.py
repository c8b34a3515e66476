"""Who holds a home: one `demo` or `dev` at a time, for each begins by clearing what is left of Dagster there."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.domain.errors import Refused

FILE = "dev.lock"


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Hold the home while the block lasts; our death gives it back, so what a killed one left may be cleared.

    Raises:
        Refused: another process holds it; names its pid.
    """
    home.mkdir(parents=True, exist_ok=True)
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
