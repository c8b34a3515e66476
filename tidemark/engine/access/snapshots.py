"""What one snapshot says: its ledger, what made it and when."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from pyiceberg.table.snapshots import Operation, Snapshot

from tidemark.domain.ledger.ledger import ACT_PROPERTY, LEDGER_PROPERTY, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger

_TAKEN_AWAY = frozenset({"deleted-data-files", "removed-delete-files"})
"""Iceberg's own: in the summary of a snapshot that left out files of its parent."""


def is_compaction(snapshot: Snapshot) -> bool:
    """Whether it only rewrote files: they hold the same rows."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def planned_head(receipt: Snapshot) -> int | None:
    """The head that a replay or cutover was planned at, as its receipt says; None for any other receipt."""
    return _before(receipt, "replay", "backfill")


def rolled_back_from(receipt: Snapshot) -> int | None:
    """The head that a rollback took back, as its receipt says; None for any other receipt."""
    return _before(receipt, "rollback")


def _before(receipt: Snapshot, *verbs: str) -> int | None:
    says = json.loads(summary_of(receipt).get(ACT_PROPERTY, "{}"))
    return says.get("before") if says.get("verb") in verbs else None


def follows_another(snapshot: Snapshot) -> bool:
    """Whether one came before it: where PyIceberg expires the parent, it takes that name away.

    A root has just what it added, also that of a table that was replaced.
    """
    if snapshot.parent_snapshot_id is not None or is_compaction(snapshot):
        return True
    told = summary_of(snapshot)
    if not _TAKEN_AWAY.isdisjoint(told):
        return True
    added = {files: told.get(f"added-{files}", "0") for files in ("data-files", "delete-files")}
    return any(told.get(f"total-{files}", count) != count for files, count in added.items())


def is_receipt(snapshot: Snapshot | None) -> bool:
    """Whether a snapshot carries a ledger."""
    return LEDGER_PROPERTY in summary_of(snapshot)


def ledger_size(snapshot: Snapshot | None) -> int:
    """Letters of the ledger that a snapshot carries: hundreds of partitions make tens of thousands."""
    return len(summary_of(snapshot).get(LEDGER_PROPERTY, ""))


def age(snapshot: Snapshot) -> tuple[int, int]:
    """Sorts snapshots as they were made; format 1 knows no sequence numbers."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def ledger_of(receipt: Snapshot, table: str) -> Ledger:
    """The ledger that a receipt carries."""
    return Ledger.from_json(summary_of(receipt)[LEDGER_PROPERTY], table=table)


def merge_ledger_of(receipt: Snapshot, table: str) -> MergeLedger:
    """The ledger that a receipt of an upsert table carries."""
    return MergeLedger.from_json(summary_of(receipt)[LEDGER_PROPERTY], table=table)


def made_at(snapshot: Snapshot) -> datetime:
    """When a snapshot was made, by the clock of whoever made it."""
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """A snapshot's summary as plain text; empty for None."""
    if snapshot is None or snapshot.summary is None:
        return {}
    return snapshot.summary.additional_properties
