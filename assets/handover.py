"""When a lingering run must make room: another run wants the pool of its lane."""

from dataclasses import dataclass

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from assets.names import pool_filter

WAITING = (DagsterRunStatus.QUEUED,)
BEGUN = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED)


@dataclass(frozen=True, slots=True)
class Handover:
    """Called now and then by the run `run_id`, which holds `pool`; answers with the reason to go, or None."""

    instance: dg.DagsterInstance
    run_id: str
    pool: str

    def __call__(self) -> str | None:
        """A run that waits for the pool, or a younger one that has begun.

        One that waits may be older: it needs the pool of another lane too, and was overtaken while that was held.
        """
        for statuses in (WAITING, BEGUN):
            wanted = RunsFilter(statuses=list(statuses), tags=pool_filter(self.pool))
            for youngest in self.instance.get_runs(wanted, limit=1):
                if youngest.run_id != self.run_id:
                    return f"run {youngest.run_id[:8]} is {youngest.status.value.lower()}"
        return None
