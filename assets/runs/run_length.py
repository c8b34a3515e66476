"""How long the runs of a lane go on: each of them tells a result and the checks of every table."""

from collections.abc import Sequence
from datetime import timedelta

from assets.checks.ingest import ingest_checks
from tidemark.domain.cadence.event_budget import run_length
from tidemark.domain.cadence.request import OUTAGE_BACKOFF
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.config.units import format_duration
from tidemark.domain.config.upsert import is_upsert_table


def run_length_of(lane: Lane, contracts: Sequence[Contract]) -> timedelta:
    """How long a run of these tables goes on: `max_run`, or as long as the budget for results asks for."""
    return run_length(lane.max_run, len(contracts), _checks(contracts))


def patience_of(contracts: Sequence[Contract]) -> timedelta:
    """How long tables in trouble wait for another try that calls the lingering run of these tables away."""
    return max(OUTAGE_BACKOFF[1], run_length(timedelta(0), len(contracts), _checks(contracts)) / 4)


def _checks(contracts: Sequence[Contract]) -> int:
    return sum(len(ingest_checks(each)) + 1 for each in contracts if not is_upsert_table(each))


def run_length_note(lane: Lane, contracts: Sequence[Contract]) -> str:
    """A sentence for people who see the lane; empty where `max_run` holds."""
    length = run_length_of(lane, contracts)
    if length == lane.max_run:
        return ""
    return (
        f" A run of all its {len(contracts)} tables hands over after {length.total_seconds() / 60:.0f} min, not after "
        f"max_run ({format_duration(lane.max_run)}): sooner, results would take more room in Dagster's database than "
        "its budget."
    )
