"""Outcomes of tables that were not run: how they stand, in the shape of `run --json`."""

from collections.abc import Mapping
from typing import Any

from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.outcome import Outcome
from tidemark.domain.states import FINE, OUTAGES
from tidemark.engine.look.status import Status

OutcomeJson = Mapping[str, Any]
"""An `Outcome` as `as_json` gives it."""


def as_append(table: str, append: OutcomeJson) -> OutcomeJson:
    """An upsert table that is not there stands as its append table, which may have stopped before its first load."""
    return Outcome(table, state=append["state"], error=append["error"]).as_json()


def as_outcome(status: Status, cluster: str) -> OutcomeJson:
    """Of a table that was not run."""
    state, table = status.state, status.table
    if state in FINE:
        return unless_paused(Outcome(table, state=state).as_json(), status.lag_records)
    kind = Outage if state in OUTAGES else Stopped
    fault = kind(state, table, "", topic=status.topic, cluster=cluster, next_step=status.remedy or "")
    return Outcome(table, state=state, error=fault.as_json()).as_json()


def unless_paused(outcome: dict[str, Any], waits: Any) -> OutcomeJson:
    """A paused table whose records wait has not caught up: what came of it names the next step."""
    if outcome["state"] != "paused" or not waits:
        return outcome
    return {**outcome, "error": Stopped("paused", outcome["table"], f"{waits} records wait.").as_json()}
