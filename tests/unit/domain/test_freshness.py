"""Rule: a quiet topic is fresh; a table is late by what the stream has beyond it."""

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.domain.cadence.freshness import behind, grade
from tidemark.domain.config.contract import Freshness

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_quiet_topic_is_fresh_however_old_its_last_record():
    assert behind(NOON, NOON - timedelta(days=9), waiting=0) == 0.0
    assert behind(None, None, waiting=0) == 0.0


def test_a_table_is_late_by_record_time():
    assert behind(NOON, NOON - timedelta(minutes=3), waiting=5) == 180.0
    assert behind(NOON, NOON + timedelta(minutes=3), waiting=5) == 0.0
    assert behind(NOON, None, waiting=5) is None


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "fresh"), (120, "fresh"), (121, "warn"), (601, "fail")]
)
def test_limits_grade_the_lag(seconds, expected):
    assert grade(seconds, Freshness.model_validate({"warn": "2m", "fail": "10m"})) == expected
