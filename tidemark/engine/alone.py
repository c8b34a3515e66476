"""A lock on a file, for work that only one process may do."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made, while the block lasts; wait for whoever has it.

    Where the file system knows no locks nobody is waited for: that is no reason not to work.
    """
    with file.open("w") as lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
