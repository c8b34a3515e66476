"""Any time that a producer may have written can be told, also those that no datetime holds."""

from datetime import UTC, datetime

import pytest

from tidemark.domain.columns.far_times import far_time_text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00+00:00"),
        (1_763_900_000_123_000, "2025-11-23T12:13:20.123000+00:00"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999+00:00"),
        (253_402_300_800_000_000, "+10000-01-01T00:00:00+00:00"),
        (1_763_900_000_000_000_000, "+57865-10-07T06:13:20+00:00"),
        (-62_135_596_800_000_001, "0000-12-31T23:59:59.999999+00:00"),
        (2**63 * 1000, "+292278994-08-17T07:12:55.808000+00:00"),
    ],
)
def test_a_time_is_told_with_all_digits_of_its_year(at: int | None, text: str | None) -> None:
    assert far_time_text(at) == text


@pytest.mark.parametrize("year", [1, 4, 1900, 1969, 1970, 2000, 2100, 9999])
def test_times_that_a_datetime_holds_are_told_as_it_tells_them(year: int) -> None:
    at = datetime(year, 2, 28, 23, 59, 59, 7, UTC)
    seconds = (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert far_time_text(round(seconds) * 1_000_000 + 7) == at.isoformat()
