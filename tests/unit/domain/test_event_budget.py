"""Rule: few tables report as often as is wanted, many as often as the event budget allows."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.cadence.event_budget import (
    OBSERVATIONS_A_DAY,
    OBSERVED,
    RESULTS_A_DAY,
    report_period,
    run_length,
)

DAY = timedelta(days=1)


def test_few_tables_report_as_often_as_is_wanted():
    assert report_period(timedelta(minutes=1), 10) == timedelta(minutes=1)
    assert run_length(timedelta(minutes=5), 60) == timedelta(minutes=5)


@given(st.integers(1, 10_000), st.integers(1, 3600))
def test_the_budget_holds_for_any_number_of_tables(tables, seconds):
    wanted = timedelta(seconds=seconds)
    assert OBSERVED * tables * DAY / report_period(wanted, tables) <= OBSERVATIONS_A_DAY * 1.001
    assert tables * DAY / run_length(wanted, tables) <= RESULTS_A_DAY * 1.001
