"""Times as records, snapshots, answers and people tell them: counts since 1970, and text."""

from datetime import UTC, datetime, timedelta

DAY_MS = 86_400_000


def moment(number: int | None, per_second: int = 1000) -> datetime | None:
    """A count of milliseconds (or of other parts of a second) since 1970 as a time.

    What lies beyond the years 1 to 9999 is told as the nearest end of them.
    """
    if number is None:
        return None
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=number * 1_000_000 // per_second)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if number < 0 else datetime.max.replace(tzinfo=UTC)


def time_of(text: str) -> datetime | None:
    """An ISO 8601 time; without an offset it is UTC. None for an empty text.

    Raises ValueError, which says so, also of a time that UTC tells in no year from 1 to 9999.
    """
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is no time in ISO 8601") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if not is_within_years(at):
        raise ValueError(f"{text} is in no year from 1 to 9999 of UTC")
    return at


def is_within_years(at: datetime) -> bool:
    """Whether UTC tells a time in a year from 1 to 9999."""
    try:
        at.astimezone(UTC)
    except OverflowError:
        return False
    return True


def first_millisecond(at: datetime) -> int:
    """The first whole millisecond since 1970 that is not before `at`: the record times of Kafka from `at` on."""
    return -((datetime.fromtimestamp(0, UTC) - at.astimezone(UTC)) // timedelta(milliseconds=1))


def later(one: datetime | None, other: datetime | None) -> datetime | None:
    """The later of two moments that may be unknown."""
    return max((t for t in (one, other) if t is not None), default=None)


def iso(at: datetime | None) -> str | None:
    """In ISO 8601, at UTC."""
    return at.astimezone(UTC).isoformat() if at else None


def age(seconds: float | None) -> str:
    """A duration as people say it: 42 s, 7 min, 3 h, 5 d; a dash for None."""
    if seconds is None:
        return "–"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
