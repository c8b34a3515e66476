"""Rules of times: those of records are whole milliseconds, those of people are not."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.times import age, first_millisecond, moment, time_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_record_is_from_a_time_on_if_its_millisecond_is_not_before_it(at: datetime) -> None:
    first = first_millisecond(at)
    earlier, found = moment(first - 1), moment(first)
    assert earlier is not None
    assert found is not None
    assert earlier < at <= found


@pytest.mark.parametrize(("microseconds", "more"), [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)])
def test_a_time_within_a_millisecond_leaves_that_millisecond_before_it(microseconds: int, more: int) -> None:
    """Given a record of the millisecond that a time lies in, then it came before that time."""
    assert first_millisecond(NOON + timedelta(microseconds=microseconds)) == first_millisecond(NOON) + more


def test_what_people_write_without_an_offset_is_utc() -> None:
    assert time_of("2026-05-01T12:00:00") == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert time_of("2026-05-01T12:00:00+02:00") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert time_of("") is None
    with pytest.raises(ValueError, match="yesterday is no time in ISO 8601"):
        time_of("yesterday")


@pytest.mark.parametrize("said", ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+01:00"])
def test_a_time_that_no_year_of_utc_has_is_refused(said: str) -> None:
    """Given a time that can be written but not told at UTC, then whoever wrote it is told."""
    with pytest.raises(ValueError, match=r"is in no year from 1 to 9999 of UTC"):
        time_of(said)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "–"), (119, "119 s"), (120, "2 min"), (-7200, "-2 h"), (172_800, "2 d"), (-1, "-1 s")],
)
def test_a_duration_is_told_in_the_largest_unit_of_which_it_has_two(seconds: float | None, told: str) -> None:
    """Given a duration, also one before zero as of records that Kafka has deleted, then it is short."""
    assert age(seconds) == told
