"""Dagster's run statuses, in the groups by which the shell asks for runs."""

from dagster import DagsterRunStatus

IN_PROGRESS = (DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
"""They hold their pools."""
MADE = (DagsterRunStatus.NOT_STARTED, *IN_PROGRESS)
UNDER_WAY = (DagsterRunStatus.QUEUED, *MADE)
ENDED = (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)
