"""Runs whose process is gone, and those that are to end with their code server: Dagster's records are told."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.storage.tags import GRPC_INFO_TAG

from assets.names import is_ours
from assets.runs.last_runs import DIED
from assets.runs.statuses import IN_PROGRESS, MADE
from tidemark.engine.alive import dead, forget, is_dead, is_held

UNBEGUN = timedelta(minutes=3)
"""How long a run may be no more than a row: whoever made it queues or begins it within seconds, or is gone."""
_HERE = "127.0.0.1"
_TURN = Lock()
"""The sensors of a code server tick at once: the second to come finds the run failed."""


def bury(instance: dg.DagsterInstance, home: Path, *, orphans: bool = False) -> None:
    """Fail the runs whose process is gone: Dagster's launcher on this machine cannot tell, and their pool waits.

    With `orphans` also those that have begun and that no process here ever held, if they are ours and the code server
    that launched them is gone from this machine.
    """
    with _TURN:
        for record in instance.get_run_records(RunsFilter(statuses=list(MADE)), limit=100):
            run = record.dagster_run
            forsaken = _forsaken(record, orphans=orphans)
            if is_dead(home, run.run_id) or (forsaken and not is_held(home, run.run_id)):
                instance.report_run_failed(run, DIED)
                forget(home, run.run_id)
        for run_id in dead(home):
            _explain(instance, home, run_id)


def _forsaken(record: dg.RunRecord, *, orphans: bool) -> bool:
    """Whether a run that no process here holds is nobody's. One without any event yet is young while it is made."""
    run = record.dagster_run
    if not is_ours(run):
        return False
    if run.status == DagsterRunStatus.NOT_STARTED:
        return datetime.now(UTC) - record.create_timestamp.replace(tzinfo=UTC) > UNBEGUN
    return orphans and _is_left_alone(_server(run))


def _is_left_alone(server: Mapping[str, Any]) -> bool:
    """Whether a code server of this machine is gone; of another machine, or of the command line, nobody knows here."""
    try:
        if "socket" in server:
            with socket.socket(socket.AF_UNIX) as made:
                made.connect(server["socket"])
        elif server.get("host") in {"localhost", _HERE}:
            socket.create_connection((_HERE, server["port"]), timeout=1).close()
    except OSError:
        return True
    return False


def _explain(instance: dg.DagsterInstance, home: Path, run_id: str) -> None:
    """Dagster's code server sees its own children die and fails their runs, but cannot say what that means here."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status in MADE:
        return
    if forget(home, run_id) and run is not None and run.status == DagsterRunStatus.FAILURE:
        instance.report_engine_event(DIED, run)


@contextmanager
def canceled(instance: dg.DagsterInstance, port: int) -> Iterator[None]:
    """The runs of the code server at `port` end within this block because somebody wants it: canceled, not failed."""
    begun = instance.get_runs(RunsFilter(statuses=list(IN_PROGRESS)), limit=100)
    launched = [run for run in begun if _server(run).get("port") == port]
    for run in launched:
        instance.report_run_canceling(run)
    yield
    for run in launched:
        left = instance.get_run_by_id(run.run_id)
        if left and left.status == DagsterRunStatus.CANCELING:
            instance.report_run_canceled(left, "It was killed, for it had not ended in time.")


def _server(run: dg.DagsterRun) -> Mapping[str, Any]:
    """Where the code server that launched it listens; nothing of a run of the command line."""
    found: dict[str, Any] = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
    return found
