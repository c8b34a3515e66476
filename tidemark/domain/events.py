"""How often something may be reported to the orchestrator's database.

DESIGN.md, event budget: 300 busy tables write less than 1 GB a day.
"""

from datetime import timedelta

EVENTS_A_DAY = 250_000
"""Observations of all tables and topics together; one takes about 2 kB with its indexes."""


def report_period(wanted: timedelta, reporters: int) -> timedelta:
    """`wanted`, or longer when so many `reporters` would exceed the budget."""
    return max(wanted, timedelta(days=1) * reporters / EVENTS_A_DAY)
