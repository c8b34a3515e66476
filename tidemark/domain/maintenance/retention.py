"""Retention of append rows: up to which record time they may go.

The age of a row is that of its Kafka record (`_kafka.timestamp`), so that anyone who reads the topic can tell which
rows are gone on purpose. The cut is at midnight, so that a table partitioned by day loses whole partitions.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Self

from pydantic import BaseModel, ConfigDict

from tidemark.domain.ledger.merge_ledger import MergeLedger

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


def cuts_noted(properties: Mapping[str, str]) -> list[tuple[int, str]]:
    """The head at which each delete was noted, with the cut before it (empty: none); the oldest first."""
    return [(head, before) for head, before in json.loads(properties.get(NOTED) or "[]")]


EXPIRED_BEFORE = "tidemark.retention-before"
"""Table property, written before rows go: what is missing and older is no gap (ISO 8601). Empty: nothing is."""
NOTED = "tidemark.retention-noted"
"""Table property, written with it: `cuts_noted` as JSON, as far back as a rollback may go."""
TAKEN = "tidemark.retention-taken"
"""Table property, written with the delete: up to where rows have gone that an upsert table had, as `Taken` in JSON."""


class Taken(BaseModel):
    """Rows that have gone because they were merged: of `epoch` below `next` (partition -> offset), and of earlier ones.

    Or unmerged, while the contract did not name the upsert table that there was. `snapshot`: the newest such delete.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshot: int
    epoch: int
    next: dict[int, int]

    def joined(self, before: Self) -> Self:
        """What both have taken."""
        if before.epoch < self.epoch:
            return self
        if before.epoch > self.epoch:
            return before.model_copy(update={"snapshot": self.snapshot})
        furthest = {p: max(self.next.get(p, 0), before.next.get(p, 0)) for p in {*self.next, *before.next}}
        return self.model_copy(update={"next": furthest})

    def beyond(self, merged: MergeLedger) -> dict[int, int]:
        """Of `next` what that ledger has not merged."""
        return {p: o for p, o in self.next.items() if not merged.covers(self.epoch, p, o - 1)}


def taken(properties: Mapping[str, str]) -> Taken | None:
    """What the table says has gone so."""
    text = properties.get(TAKEN)
    return Taken.model_validate_json(text) if text else None
