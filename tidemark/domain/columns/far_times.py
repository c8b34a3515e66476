"""Times as text. A producer may write any 64 bits as the time of a record, far more than a datetime can hold."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE = 146_097 * 86_400_000_000
"""Microseconds in 400 years, after which the calendar repeats itself."""
_CYCLE_MONTHS = 400 * 12
_LAST = 9999


def far_time_text(microseconds: int | None) -> str | None:
    """ISO 8601 in UTC of microseconds since 1970; a year beyond 9999 has a sign and all its digits (+57865-10-07T…)."""
    return None if microseconds is None else far_iso(microseconds)


def far_iso(microseconds: int) -> str:
    """`far_time_text` of a time that is there. Spark reads it as well, to year 294246."""
    cycles, rest = divmod(microseconds, _CYCLE)
    at = _EPOCH + timedelta(microseconds=rest)
    return f"{_year(at.year + 400 * cycles)}{at.isoformat()[4:]}"


def first_of_month(number: int) -> int:
    """Microseconds since 1970 of the first moment of a month, of which January 1970 is number 0."""
    cycles, rest = divmod(number, _CYCLE_MONTHS)
    at = datetime(1970 + rest // 12, rest % 12 + 1, 1, tzinfo=UTC)
    return cycles * _CYCLE + (at - _EPOCH) // timedelta(microseconds=1)


def _year(number: int) -> str:
    """A year of the proleptic Gregorian calendar as ISO 8601 writes it."""
    return f"{number:04d}" if 0 <= number <= _LAST else f"{number:+05d}"
