"""What dbt has for one run, a folder and a Spark session: both end with the run, or else before the next build.

A run that is killed leaves its dbt behind, still at work. A build begun meanwhile would not see what that dbt commits
later, and both would add the same rows. It can commit nothing without its Spark session, which can be ended from
anywhere; that also ends a statement which Spark goes on with after dbt itself is gone.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tidemark.domain.config.platform import Platform
from tidemark.domain.errors import TidemarkError
from tidemark.engine.access.spark import begin_session, end_session, of_session
from tidemark.engine.alive import is_held

FOLDER = "dbt"
_SESSION = "session"


@dataclass(frozen=True, slots=True)
class DbtSession:
    """Where dbt writes, and the address of its session."""

    target: Path
    remote: str


@contextmanager
def open_dbt_session(
    run_id: str, home: Path, platform: Platform, log: Callable[[str], None]
) -> Iterator[DbtSession]:
    """The folder and the session of a run, the only one at work: those of runs that died are cleared first.

    Raises:
        Outage: `spark_down`: it is not known whether one of them is at work.
    """
    address = platform.spark.address
    for folder in (home / FOLDER).glob("*-*"):  # that of a manifest is named by digits alone
        died = folder.name == run_id or not is_held(home, folder.name)
        if died and _end(folder, address):
            log(f"ended what dbt was doing for run {folder.name}, which died")
    target, session_id = home / FOLDER / run_id, str(uuid4())
    target.mkdir(parents=True, exist_ok=True)
    (target / _SESSION).write_text(session_id, encoding="utf-8")
    try:
        begin_session(address, session_id, platform)
        yield DbtSession(target, of_session(address, session_id))
    finally:
        with suppress(TidemarkError):  # its folder tells the next build
            _end(target, address)


def _end(folder: Path, address: str) -> bool:
    """Whether there was a session to end: a dbt that has lost its own still writes down its failure here."""
    noted = folder / _SESSION
    session_id = noted.read_text(encoding="utf-8") if noted.exists() else ""
    if session_id:
        end_session(address, session_id)
    shutil.rmtree(folder, ignore_errors=True)
    return bool(session_id)
