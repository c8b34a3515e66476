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
    """A snapshot on the way to main: what Iceberg calls it, and what its receipt is, if it is one.

    `revision`: `<epoch>.<revision>` of the append table's ledger then, which each replay and rollback raises.
    """

    snapshot_id: int
    operation: str
    receipt: str = ""
    revision: str = ""


def correction(
    chain: Sequence[Step],
    since: int | None,
    noted: str = "",
    *,
    undone: bool,
    merged: bool = False,
) -> str | None:
    """Why a mart that was made of snapshot `since`, of revision `noted`, is stale; None: rows were only added.

    `chain` newest first, as far back as it is left: of what was behind its end only the revision tells. `undone`: that
    snapshot was. `merged`: an upsert table, whose rows always change: only history that was undone counts.
    """
    if undone:
        return "was rolled back"
    places = [each.snapshot_id for each in chain]
    newer = chain[: places.index(since)] if since in places else chain
    for each in newer:
        if each.receipt in UNDONE:
            return "was rolled back"
        if not merged and each.operation in REMOVES:
            return "had rows replaced or deleted"
    end = next((each.revision for each in reversed(chain) if each.revision), noted)
    if noted and since not in places and _raised(noted, end):
        return "was rolled back or replayed, longer ago than its snapshots tell"
    return None


def _raised(noted: str, end: str) -> bool:
    """A later epoch alone only adds rows; it goes on counting, or from 0 where the ledger before it was lost."""
    (epoch, revision), (now, counted) = (map(int, each.split(".")) for each in (noted, end))
    return end != noted and (now <= epoch or counted > revision)
