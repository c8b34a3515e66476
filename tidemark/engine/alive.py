"""Whether the process of a run still lives: it holds a lock on a file of its own, which dies with it.

A machine that went down leaves runs behind that Dagster takes for running; they would hold their lane for ever.
"""

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from tidemark.domain.home import PRIVATE

FOLDER = "runs"


@contextmanager
def alive(home: Path, run_id: str) -> Iterator[None]:
    """Hold the lock of a run while the block lasts; within that block, holding it again adds nothing.

    A home that cannot be written, or whose file system knows no locks, is no reason not to work.
    """
    path = home / FOLDER / run_id
    fresh = path.with_suffix(".new")
    lock = None if path.exists() else _locked(fresh)
    if lock is None:
        yield
        return
    with lock:
        fresh.rename(path)  # under its name it is never seen without its lock
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked(file: Path) -> TextIO | None:
    """The file, made and locked; None where that cannot be."""
    try:
        file.parent.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        file.parent.mkdir(exist_ok=True)
        made = file.open("w")
    except OSError:
        return None
    try:
        fcntl.flock(made, fcntl.LOCK_EX)
    except OSError:
        made.close()
        file.unlink(missing_ok=True)
        return None
    return made


def is_dead(home: Path, run_id: str) -> bool:
    """The run held its lock here once and does so no more; False when this home does not know."""
    return _state(home, run_id) == "dead"


def is_held(home: Path, run_id: str) -> bool:
    """A process of this machine holds the lock of the run."""
    return _state(home, run_id) == "held"


def held_by(home: Path, files: Iterable[str]) -> str | None:
    """The run whose lock is among the files that a process has open."""
    folder = (home / FOLDER).resolve()
    return next(
        (path.name for file in files if (path := Path(file)).parent == folder and not path.suffix), None
    )


def dead(home: Path) -> list[str]:
    """The runs that held their lock here, do so no more, and were not forgotten."""
    folder = home / FOLDER
    names = [each.name for each in folder.iterdir() if not each.suffix] if folder.is_dir() else []
    return [name for name in names if is_dead(home, name)]


def _state(home: Path, run_id: str) -> Literal["held", "dead", "unknown"]:
    path = home / FOLDER / run_id
    try:
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return "dead" if path.exists() else "unknown"  # else it ended well in this very moment
    except BlockingIOError:
        return "held"
    except OSError:
        return "unknown"


def forget(home: Path, run_id: str) -> bool:
    """Remove what a dead run left; False when somebody else has just done so."""
    try:
        (home / FOLDER / run_id).unlink()
    except FileNotFoundError:
        return False
    return True
