"""Runs that changed since a moment. Dagster may write that one did after it has written of a later change of another.

Its records bear the time of the event and come when that is stored: whoever asks only for what is later than the latest
that was seen passes those by for ever. The time is by the clock of the machine that ran it, which may be ahead: a
cursor is never moved beyond its tick, else those of other machines are passed by until their clocks catch up.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster import DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

LATE = 60.0
"""Seconds by which something may be written later than what happened after it."""


def changed(
    instance: dg.DagsterInstance,
    statuses: Collection[DagsterRunStatus],
    since: float,
    late: Mapping[str, float],
    limit: int,
) -> list[RunRecord]:
    """Those shortly before and at `since` and the first of those later, without those among `late`."""
    at = datetime.fromtimestamp(since, UTC)
    before = at - timedelta(seconds=LATE), at + timedelta(microseconds=1)

    def found(after: datetime, until: datetime | None, most: int | None) -> Sequence[RunRecord]:
        wanted = RunsFilter(statuses=list(statuses), updated_after=after, updated_before=until)
        return instance.get_run_records(wanted, limit=most, order_by="update_timestamp", ascending=True)

    ahead = sum(each > since for each in late.values())
    both = [*found(*before, None), *found(at, None, limit + ahead)]
    return [each for each in both if change_of(each.dagster_run) not in late]


def change_of(run: DagsterRun) -> str:
    """What is told of a run once."""
    return f"{run.run_id} {run.status.value}"


def changed_at(record: RunRecord) -> float:
    """The time that records are asked for and ordered by."""
    return record.update_timestamp.replace(tzinfo=UTC).timestamp()


def recent(late: Mapping[str, float], since: float) -> dict[str, float]:
    """The changes that may be found again, with their times."""
    return {change: at for change, at in late.items() if at >= since - LATE}
