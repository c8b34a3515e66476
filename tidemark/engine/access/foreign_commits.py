"""Commits on main that are no batch, replay or compaction, and which of them retention has made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.ledger.ledger import BATCH_PROPERTY, LEDGER_PROPERTY
from tidemark.domain.maintenance.retention import cuts_noted, expired_before
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.snapshots import made_at, summary_of

SHOWN = 20
"""Commits of others that are told, newest first."""
DELETED_WITHIN = timedelta(hours=1)
"""From the note of a cut to the commit of its delete, at most."""


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit on main that is no batch, replay or compaction of Tidemark's: rows that it brought and removed."""

    snapshot_id: int
    at: datetime
    operation: str
    brought: int
    removed: int

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "snapshot_id": self.snapshot_id,
            "at": self.at.isoformat(),
            "operation": self.operation,
            "rows_brought": self.brought,
            "rows_removed": self.removed,
        }


def others_since(
    metadata: TableMetadata | None, head: int | None, receipt: int | None
) -> list[ForeignCommit]:
    """What was committed to main after `receipt`, or as far back as snapshots are kept, newest first.

    Tidemark stages on branches, so only a commit of others was ever main's head without a receipt; and retention's.
    """
    if metadata is None:
        return []
    heads = {entry.snapshot_id for entry in metadata.snapshot_log}
    found: list[ForeignCommit] = []
    for snapshot in ancestors(metadata, head):
        if snapshot.snapshot_id == receipt:
            break
        summary = summary_of(snapshot)
        operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
        ours = {LEDGER_PROPERTY, BATCH_PROPERTY} & summary.keys() or operation == "replace"
        if snapshot.snapshot_id in heads and not ours:
            found.append(_commit(snapshot, operation, summary))
    return found


def by_retention(metadata: TableMetadata | None) -> frozenset[int]:
    """The snapshots by which Tidemark itself has deleted expired rows.

    A DELETE cannot write into its snapshot. Its cut was noted with the head before it (`cuts_noted`), so it is the one
    that removed rows after that head and before the next one; where two did, both count as of others. Behind a head
    that has expired it is one of the oldest snapshots that are left.
    """
    if metadata is None or not (noted := {head for head, _ in cuts_noted(metadata.properties)}):
        return frozenset()
    head = metadata.current_snapshot_id
    removed = {each.snapshot_id for each in others_since(metadata, head, None) if each.brought < each.removed}
    after: list[list[Snapshot]] = [[]]
    chain = list(ancestors(metadata, head))
    for snapshot in chain:
        if snapshot.snapshot_id in noted:
            after.append([])
        if snapshot.snapshot_id in removed:
            after[-1].append(snapshot)
    oldest = after.pop()  # before the first of the cuts, unless that head has expired
    if not all(metadata.snapshot_by_id(each) for each in noted):
        after.append([each for each in oldest if made_at(each) < made_at(chain[-1]) + DELETED_WITHIN])
    return frozenset(each[0].snapshot_id for each in after if len(each) == 1)


def rewritten_since(
    metadata: TableMetadata | None, head: int | None, receipt: int | None
) -> list[ForeignCommit]:
    """Those of others that may have written a row anew which is still there.

    Where rows expire, a commit that removed more than it brought counts as retention's: it rewrites whole files.
    """
    expires = metadata is not None and expired_before(metadata.properties) is not None
    return [
        each
        for each in others_since(metadata, head, receipt)
        if each.brought and not (expires and each.brought < each.removed)
    ]


def foreign_facts(commits: Sequence[ForeignCommit]) -> dict[str, Any]:
    """The newest of them; nothing where there are none."""
    return {"foreign_commits": [each.as_json() for each in commits[:SHOWN]]} if commits else {}


def removed_rows(snapshot: Snapshot) -> int:
    """How many rows a commit has removed, or replaced by others; a DELETE that finds none commits as well."""
    summary = summary_of(snapshot)
    return sum(
        int(summary.get(name, 0))
        for name in ("deleted-records", "added-position-deletes", "added-equality-deletes")
    )


def _commit(snapshot: Snapshot, operation: str, summary: Mapping[str, str]) -> ForeignCommit:
    brought = int(summary.get("added-records", 0))
    return ForeignCommit(snapshot.snapshot_id, made_at(snapshot), operation, brought, removed_rows(snapshot))
