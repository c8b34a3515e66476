"""When a lingering run must make room: another run wants the pool of its lane, or what it goes by was edited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from assets.names import by_sensor, pools_of
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.units import first_few
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.config.follow import Followed

WAITING = (DagsterRunStatus.QUEUED,)
HOLDING = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED)
"""They have a pool, or get it next; one that is being canceled makes room by itself."""


@dataclass(frozen=True, slots=True)
class Handover:
    """Called now and then by the run `run_id`, which holds `pool`; answers with the reason to go, or None."""

    instance: dg.DagsterInstance
    run_id: str
    pool: str

    def __call__(self) -> str | None:
        """A run in the queue that could begin without this one, or a younger one that has begun.

        One in the queue may be older: it needs the pool of another lane too, and was overtaken while that was held.
        """
        waiting = runs_of(self.instance, WAITING, self.pool)
        could = [run for run in waiting if could_begin(self.instance, run, self.pool)]
        for run in (*could, *runs_of(self.instance, HOLDING, self.pool)[:1]):
            if run.run_id != self.run_id:
                return f"run {run.run_id[:8]} is {run.status.value.lower()}"
        return None


def could_begin(instance: dg.DagsterInstance, run: dg.DagsterRun, pool: str) -> bool:
    """Whether those that hold the other pools of a run in the queue make room for it too: only runs of a sensor do.

    Not while a pool of it has the limit 0, by which people let nothing begin.
    """
    limits = {each.name: each.limit for each in instance.event_log_storage.get_pool_limits()}
    if any(limits.get(each) == 0 for each in pools_of(run)):
        return False
    others = [each for each in pools_of(run) if each != pool]
    return all(by_sensor(holds) for other in others for holds in runs_of(instance, HOLDING, other))


def runs_of(
    instance: dg.DagsterInstance, statuses: Sequence[DagsterRunStatus], pool: str
) -> Sequence[dg.DagsterRun]:
    """The runs that need a pool, from the youngest on; of `statuses` of runs that have not ended, which are few.

    Asked by the tag of the pool, SQLite would go through all the runs that ever needed it.
    """
    return [each for each in instance.get_runs(RunsFilter(statuses=statuses)) if pool in pools_of(each)]


@dataclass(slots=True)
class Edits:
    """Called now and then by a run that serves tables by contracts of these digests; answers with those edited since.

    The platform file is what `compared` says. The next run reads the files anew. A file that is broken ends no run: the
    next one would not begin.
    """

    followed: Followed
    served: Mapping[str, str]
    compared: Configuration

    def __call__(self) -> str | None:
        """The reason to go, or None."""
        try:
            found = self.followed.now()
        except ConfigurationError:
            return None
        if found is self.compared:
            return None
        if found.platform != self.compared.platform:
            return "the platform file was edited"
        self.compared = found
        upserts = (each.contract for each in upsert_tables(found.contracts).values())
        now = {each.table: each.digest for each in (*found.contracts, *upserts)}
        edited = [table for table, digest in self.served.items() if now.get(table) != digest]
        return f"the contract of {first_few(edited)} was edited" if edited else None
