"""Dagster's run statuses, in the groups by which the shell asks for runs; and when a run ended."""

from datetime import UTC, datetime

from dagster import DagsterRunStatus, RunRecord

IN_PROGRESS = (DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
"""They hold their pools."""
MADE = (DagsterRunStatus.NOT_STARTED, *IN_PROGRESS)
UNDER_WAY = (DagsterRunStatus.QUEUED, *MADE)
ENDED = (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)


def ended_at(record: RunRecord) -> datetime:
    """When a run ended; of one without an end the beginning of 1970."""
    return datetime.fromtimestamp(record.end_time or 0, UTC)
