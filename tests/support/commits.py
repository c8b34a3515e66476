"""A published microbatch, of which a test says what its rule is about."""

from datetime import UTC, datetime
from typing import Any

from tidemark.domain.outcome import Commit

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def one_commit(table: str = "shop.orders", **said: Any) -> Commit:
    """Snapshot 1, one file of 100 bytes, at noon; else empty. `said`: fields of the commit."""
    unsaid: dict[str, Any] = {
        "snapshot_id": 1,
        "from_": {},
        "next": {},
        "counts": {},
        "schema_ids": frozenset(),
        "max_timestamp": NOON,
        "seconds": {},
        "files": 1,
        "bytes": 100,
        "at": NOON,
    }
    return Commit(table, **(unsaid | said))
