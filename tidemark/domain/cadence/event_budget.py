"""How often something may be reported to the orchestrator's database.

300 busy tables write less than 1 GB a day. tests/dagster measures what one event takes.
"""

from datetime import timedelta

OBSERVATIONS_A_DAY = 30_000
"""Of all tables and topics together."""
OBSERVED = 2
"""A table's run observes it, and a sensor its topic."""
RESULTS_A_DAY = 20_000
"""Of all tables of a lane: one per table and run."""
EVALUATION = 0.25
"""What the result of one asset check takes, in results of a table."""


def report_period(wanted: timedelta, tables: int) -> timedelta:
    """`wanted`, or longer when so many `tables` and their topics would exceed the budget of observations."""
    return max(wanted, timedelta(days=1) * OBSERVED * tables / OBSERVATIONS_A_DAY)


def run_length(wanted: timedelta, tables: int, checks: int = 0) -> timedelta:
    """`wanted`, or longer when so many `tables` with so many `checks` in all would exceed the budget of results."""
    return max(wanted, timedelta(days=1) * (tables + EVALUATION * checks) / RESULTS_A_DAY)
