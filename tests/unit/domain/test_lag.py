"""Rule: our clock decides when a table is due, never a record's; and every decision shows its reason."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.cadence.lag import Lag, Sighting, due_verdict, measure, prune

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def seen(seconds_ago, **end):
    return Sighting(NOON - timedelta(seconds=seconds_ago), {int(p[1:]): o for p, o in end.items()})


histories = st.lists(
    st.dictionaries(st.integers(0, 3), st.integers(0, 20), min_size=1), min_size=1, max_size=200
).map(
    lambda growth: [
        Sighting(
            NOON - timedelta(seconds=len(growth) - i),
            {p: sum(g.get(p, 0) for g in growth[: i + 1]) for p in range(4)},
        )
        for i in range(len(growth))
    ]
)


def test_a_table_at_the_end_has_no_lag():
    assert measure({0: 5}, {0: 5}, [seen(90, p0=5)], NOON) == Lag(0, 0.0)


def test_lag_is_the_age_of_the_first_sighting_beyond_the_ledger():
    sightings = [seen(90, p0=5), seen(60, p0=8), seen(30, p0=12)]
    assert measure({0: 5}, {0: 12}, sightings, NOON) == Lag(7, 60.0)
    assert measure({0: 8}, {0: 12}, sightings, NOON) == Lag(4, 30.0)


def test_ends_of_the_topic_that_was_there_before_say_nothing_about_this_one():
    """Given a topic that was made anew, when ends beyond its own are still known from before, then its lag is that of what it holds itself."""
    before = seen(30 * 86400, p0=1_000_050)
    assert measure({0: 500}, {0: 510}, [before, seen(2, p0=510)], NOON) == Lag(10, 2.0)
    assert measure({0: 500}, {0: 510}, [before], NOON) == Lag(10, 0.0)


def test_records_that_were_never_seen_before_are_of_age_zero():
    assert measure({0: 5}, {0: 6}, [], NOON) == Lag(1, 0.0)


def test_a_clock_that_jumps_back_makes_no_negative_lag():
    assert measure({0: 0}, {0: 1}, [seen(-50, p0=1)], NOON) == Lag(1, 0.0)


@given(histories, st.integers(1, 70), st.dictionaries(st.integers(0, 3), st.integers(0, 400)))
def test_thinning_sightings_never_changes_the_lag(sightings, keep, committed):
    end = sightings[-1].end
    kept = prune(sightings, committed, keep)
    assert len(kept) <= keep
    assert measure(committed, end, kept, NOON) == measure(committed, end, sightings, NOON)


@pytest.mark.parametrize(
    ("lag", "due", "reason"),
    [
        (Lag(0, 500.0), False, "caught up"),
        (Lag(10, 5.0), False, "10 records wait, due in 52 s"),
        (Lag(10, 57.0), True, "10 records wait, the oldest for 57 s"),
        (Lag(1000, 0.0), True, "a full batch waits: 1,000 records"),
    ],
)
def test_a_table_is_due_at_its_target_lag_or_with_a_full_batch(lag, due, reason):
    verdict = due_verdict(lag, target_lag=timedelta(minutes=1), max_records=1000)
    assert (verdict.due, verdict.reason) == (due, reason)


def test_the_time_that_a_run_takes_to_start_is_taken_off_the_target():
    late = Lag(10, 47.0)
    assert not due_verdict(late, target_lag=timedelta(minutes=1), max_records=1000).due
    assert due_verdict(
        late, target_lag=timedelta(minutes=1), max_records=1000, head_start=timedelta(seconds=10)
    ).due


@pytest.mark.parametrize(
    ("target", "begins"), [(1, 0.25), (2, 0.5), (5, 3.5), (10, 8.5), (60, 57.0), (600, 570.0)]
)
def test_a_short_target_leaves_time_for_the_commit_but_no_more_than_three_quarters(target, begins):
    due = [
        due_verdict(Lag(10, at), target_lag=timedelta(seconds=target), max_records=1000).due
        for at in (begins - 0.01, begins)
    ]
    assert due == [False, True]


@given(st.integers(1, 10**6), st.floats(0, 10**6), st.integers(1, 10**6), st.integers(0, 3600))
def test_waiting_longer_or_with_more_records_never_makes_a_due_table_undue(records, seconds, limit, target):
    def due(more_records, more_seconds):
        lag = Lag(records + more_records, seconds + more_seconds)
        return due_verdict(lag, target_lag=timedelta(seconds=target), max_records=limit).due

    assert not due(0, 0) or (due(5, 0) and due(0, 5) and due(5, 5))
