"""How fresh published data is, by two clocks: that of the stream and that of the table.

A quiet topic is fresh however old its last record is; a table is late by what the stream has beyond it.
"""

from datetime import datetime
from typing import Literal

from tidemark.domain.config.contract import Freshness

Grade = Literal["fresh", "warn", "fail"]
GRADES: tuple[Grade, ...] = ("fresh", "warn", "fail")


def behind(stream: datetime | None, table: datetime | None, *, waiting: int) -> float | None:
    """Seconds of record time between the stream and the table; None when the clocks cannot say."""
    if not waiting:
        return 0.0
    if stream is None or table is None:
        return None
    return max(0.0, (stream - table).total_seconds())


def grade(seconds: float, freshness: Freshness) -> Grade:
    """How `freshness.warn` and `freshness.fail` judge data that is so late."""
    if freshness.fail is not None and seconds > freshness.fail.total_seconds():
        return "fail"
    if freshness.warn is not None and seconds > freshness.warn.total_seconds():
        return "warn"
    return "fresh"
