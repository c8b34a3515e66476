"""Retention of append rows: up to which record time they may go.

The age of a row is that of its Kafka record (`_kafka.timestamp`), so that anyone who reads the topic can tell which
rows are gone on purpose. The cut is at midnight, so that a table partitioned by day loses whole partitions.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

FIRST = datetime(1970, 1, 1, tzinfo=UTC)
"""Records without a time carry -1 and are never too old."""
_FINE = timedelta(days=2)


def retention_cut(now: datetime, keep: timedelta, oldest_needed: datetime | None = None) -> datetime:
    """Rows before this may go: older than `keep`, and before the oldest that someone still needs.

    At midnight UTC; at the full hour when rows are kept for less than two days.
    """
    cut = now - keep if oldest_needed is None else min(now - keep, oldest_needed)
    whole = cut.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return whole if keep < _FINE else whole.replace(hour=0)


def merged_filter(epoch: int, next_: Mapping[int, int]) -> str:
    """SQL that is true for rows before `next_` (partition -> offset) in `epoch`, and for all of earlier epochs.

    Said so that the bounds of a file alone can prove it for all its rows, whatever partitions they are of.
    """
    last = max(next_, default=-1)
    each = [
        f"_kafka.partition <= {last}",
        *(f"(_kafka.partition <> {p} OR _kafka.offset < {next_.get(p, 0)})" for p in range(last + 1)),
    ]
    return f"(_kafka.epoch < {epoch} OR (_kafka.epoch = {epoch} AND {' AND '.join(each)}))"


def expired_before(properties: Mapping[str, str]) -> datetime | None:
    """Up to which record time rows may have been deleted on purpose, as the table says itself."""
    text = properties.get(EXPIRED_BEFORE)
    return datetime.fromisoformat(text) if text else None


EXPIRED_BEFORE = "tidemark.retention-before"
"""Table property, written before rows go: what is missing and older is no gap (ISO 8601)."""
