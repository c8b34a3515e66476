"""Whether a table lost or changed rows since a mart was made of it, as its snapshots tell. Pure.

A mart that computes again only the groups that have grown does not see such a change: it must be made anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass

UNDONE = frozenset({"rollback", "back", "rebuild"})
"""Receipts of an append or upsert table that take rows back."""
REMOVES = frozenset({"delete", "overwrite"})


@dataclass(frozen=True, slots=True)
class Step:
    """A snapshot on the way to main: what Iceberg calls it, and what its receipt is, if it is one."""

    snapshot_id: int
    operation: str
    receipt: str = ""


def correction(
    chain: Sequence[Step], since: int | None, *, undone: bool, trimmed: bool, merged: bool = False
) -> str | None:
    """Why a mart that was made of snapshot `since` is stale; None: rows were only added.

    `chain` newest first, as far back as it is left. `undone`: that snapshot was. `trimmed`: retention deletes old rows,
    which a mart keeps in its figures. `merged`: an upsert table, whose rows always change: only history that was undone
    counts.
    """
    if undone:
        return "was rolled back"
    places = [each.snapshot_id for each in chain]
    newer = chain[: places.index(since)] if since in places else chain
    for each in newer:
        if each.receipt in UNDONE:
            return "was rolled back"
        if trimmed and each.receipt == "replay":
            return "was replayed"
        if not trimmed and not merged and each.operation in REMOVES:
            return "had rows replaced or deleted"
    return None
