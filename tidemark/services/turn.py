"""A lock on a file that tells whoever waits for it why nothing happens."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.services.progress import Event, OnProgress, Step


@contextmanager
def turn(file: Path, step: Step, waits: str, on_progress: OnProgress) -> Iterator[None]:
    """Hold the lock of a file, which is made, while the block lasts; our death gives it back.

    `waits`: what is told of `step` while another process has it.
    """
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress(Event(step, waits))
            fcntl.flock(lock, fcntl.LOCK_EX)
            on_progress(Event(step, "our turn", finished=True))
        yield
