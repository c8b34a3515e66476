"""Rule: how late data is, is the age of what waits by our own clock; a quiet topic is fresh unless silence is limited."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.cadence.freshness import MEANS, grade, judge, judge_merge
from tidemark.domain.cadence.lag import Lag, Sighting, measure
from tidemark.domain.config.contract import Freshness

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = Freshness.model_validate({"warn": "2m", "fail": "10m"})
SILENT = Freshness.model_validate({"warn": "2m", "fail": "10m", "silence": "1h"})
seconds = st.floats(0, 1e6)


@pytest.mark.parametrize(("late", "expected"), [(0, "fresh"), (120, "fresh"), (121, "warn"), (601, "fail")])
def test_limits_grade_the_lag(late, expected):
    assert grade(late, LIMITS) == expected


@pytest.mark.parametrize(
    ("lag", "quiet", "staged", "verdict"),
    [
        (Lag(0, 0.0), 9999.0, False, "nothing_new"),
        (Lag(0, 0.0), None, False, "nothing_new"),
        (Lag(0, 0.0), 5.0, False, "fresh"),
        (Lag(7, 5.0), None, True, "fresh"),
        (Lag(7, 300.0), None, False, "arrived_not_written"),
        (Lag(7, 300.0), None, True, "written_not_published"),
    ],
)
def test_the_verdict_says_where_the_data_is(lag, quiet, staged, verdict):
    assert judge(lag, LIMITS, quiet=quiet, staged=staged).verdict == verdict


@pytest.mark.parametrize(
    ("records", "late", "verdict", "grading", "told"),
    [
        (0, None, "nothing_new", "fresh", "merged in time"),
        (7, 5.0, "fresh", "fresh", "merged in time"),
        (7, 300.0, "arrived_not_written", "warn", "7 offsets of the append table are not merged (for 300 s)"),
        (0, 900.0, "arrived_not_written", "fail", "a replay or a rollback is not merged (for 900 s)"),
    ],
)
def test_a_merge_is_judged_by_the_oldest_commit_that_is_not_in_it(records, late, verdict, grading, told):
    found = judge_merge(records, late, LIMITS)
    assert (found.verdict, found.grade) == (verdict, grading)
    assert told in found.why


@given(seconds, st.booleans())
def test_a_quiet_topic_alarms_only_when_silence_says_so(quiet, staged):
    assert judge(Lag(0, 0.0), LIMITS, quiet=quiet, staged=staged).grade == "fresh"
    found = judge(Lag(0, 0.0), SILENT, quiet=quiet, staged=staged)
    assert (found.grade == "fail") == (quiet > 3600)
    assert judge(Lag(0, 0.0), SILENT, quiet=None, staged=staged).grade == "fresh", "not known is no silence"


@given(st.integers(1, 10**9), seconds, st.booleans())
def test_what_waits_is_graded_by_its_age_alone(records, age, staged):
    found = judge(Lag(records, age), LIMITS, quiet=None, staged=staged)
    assert found.grade == grade(age, LIMITS)
    assert found.verdict in MEANS
    assert (found.verdict == "fresh") == (found.grade == "fresh")


def test_no_record_timestamp_can_move_it():
    """A record dated 2099 or 1970 that came ten seconds ago waits since ten seconds: nothing else is looked at."""
    seen = [Sighting(NOON - timedelta(seconds=10), {0: 5})]
    assert measure({0: 4}, {0: 5}, seen, NOON) == Lag(1, 10.0)
