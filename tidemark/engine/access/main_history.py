"""Main's history as a table's metadata has it: its receipts, what was undone, what is half of a commit.

The newest receipt among main's ancestors is the authority; the tag only helps when someone's expiry has cut the chain
(docs/concepts.md, The ledger).
"""

from collections.abc import Iterator
from itertools import takewhile

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, LEDGER_TAG, Ledger
from tidemark.engine.access.snapshots import (
    age,
    follows_another,
    is_compaction,
    is_receipt,
    ledger_of,
    planned_head,
    rolled_back_from,
    summary_of,
)

SOURCE_SNAPSHOT = "source-snapshot-id"
"""Iceberg's own: of a snapshot that was picked, where it comes from."""


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshots from `snapshot_id` back, as far as the metadata still has them."""
    older, passed = reversed(metadata.snapshots), dict[int, Snapshot]()
    while snapshot_id is not None:
        # A parent is mostly right before its child, so that few are passed for the newest.
        while snapshot_id not in passed:
            each = next(older, None)
            if each is None:
                return
            passed[each.snapshot_id] = each
        yield passed[snapshot_id]
        snapshot_id = passed[snapshot_id].parent_snapshot_id


def receipts(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Those among main's ancestors, newest first."""
    return filter(is_receipt, ancestors(metadata, metadata.current_snapshot_id))


def ledgers_of_epoch(metadata: TableMetadata, head: int | None, epoch: int, table: str) -> Iterator[Ledger]:
    """What the receipts of `epoch` among `head` and its ancestors say, newest first."""
    ledgers = (ledger_of(each, table) for each in filter(is_receipt, ancestors(metadata, head)))
    return takewhile(lambda each: each.epoch == epoch, ledgers)


def newest_receipt(metadata: TableMetadata) -> Snapshot | None:
    """The newest snapshot with a ledger among main's ancestors; the tag's when expiry has cut that chain after it.

    None when the tag's came later than what is left of the chain: somebody took main back behind it.
    """
    last: Snapshot | None = None
    for snapshot in ancestors(metadata, metadata.current_snapshot_id):
        if is_receipt(snapshot):
            return snapshot
        last = snapshot
    tag = metadata.refs.get(LEDGER_TAG)
    if last is None or not follows_another(last) or tag is None:
        return None
    tagged = metadata.snapshot_by_id(tag.snapshot_id)
    if tagged is None or not is_receipt(tagged):
        return None
    return tagged if age(tagged) <= age(last) else None


def is_undone(metadata: TableMetadata, snapshot_id: int, head: int | None = None) -> bool:
    """Whether the snapshot is there, and not among main's ancestors, or those of `head`.

    One that has expired counts as one of them, and so does one that is older than what expiry has left of them.
    """
    found, last = metadata.snapshot_by_id(snapshot_id), None
    for each in ancestors(metadata, head or metadata.current_snapshot_id):
        if each.snapshot_id == snapshot_id:
            return False
        last = each
    if found is None or last is None or not follows_another(last):
        return found is not None
    return age(found) > age(last)


def require_whole(metadata: TableMetadata, table: str, catalog: str) -> None:
    """Main only ever moves to a receipt: what an attempt has written above the newest one is half of a commit.

    Raises:
        Stopped: `ledger_missing`: somebody took main there; its offsets would be read again.
    """
    newer: list[Snapshot] = []
    for snapshot in ancestors(metadata, metadata.current_snapshot_id):
        if is_receipt(snapshot):
            if newer:
                _require_no_half(metadata, table, catalog, newer, snapshot)
            return
        if not is_compaction(snapshot):
            newer.append(snapshot)


def _require_no_half(
    metadata: TableMetadata, table: str, catalog: str, newer: list[Snapshot], receipt: Snapshot
) -> None:
    published = receipts_of_halves(metadata)
    half = next((s for s in newer if s.snapshot_id in published or is_of_batch(metadata, s)), None)
    if half is None:
        return
    step = f"tidemark rollback {table} --snapshot {receipt.snapshot_id} --reason … undoes that half"
    whole = _receipt_above(metadata, half, published.get(half.snapshot_id))
    if whole is not None:
        step += (
            "; where Kafka no longer has what that reads again, set the table to the receipt that came after it: "
            f"{set_main_to(whole, table, catalog)}"
        )
    raise Stopped(
        "ledger_missing",
        table,
        f"Main was taken to snapshot {half.snapshot_id}, half of a commit without the receipt that says so.",
        next_step=step,
    )


def _receipt_above(metadata: TableMetadata, half: Snapshot, own: Snapshot | None) -> Snapshot | None:
    """The receipt of that half, or a later one: the tag, which nobody's hand has moved, names the newest."""
    tag = metadata.refs.get(LEDGER_TAG)
    newest = metadata.snapshot_by_id(tag.snapshot_id) if tag else None
    if newest is not None and half in ancestors(metadata, newest.snapshot_id):
        return newest
    return own


def receipts_of_halves(metadata: TableMetadata) -> dict[int, Snapshot]:
    """Snapshots in which the attempt behind a receipt added or removed its rows: snapshot id -> that receipt."""
    there = {each.snapshot_id: each for each in metadata.snapshots}
    found: dict[int, Snapshot] = {}
    for receipt in metadata.snapshots:
        if not is_receipt(receipt):
            continue
        planned = planned_head(receipt)
        below = there.get(receipt.parent_snapshot_id or 0)
        while below is not None and below.snapshot_id != planned:
            if is_receipt(below) or not (planned or BATCH_PROPERTY in summary_of(below)):
                break
            found[below.snapshot_id] = receipt
            below = there.get(below.parent_snapshot_id or 0)
    return found


def is_of_batch(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether it has the rows of a batch: as the attempt wrote them, or picked by somebody (`cherrypick_snapshot`)."""
    picked = summary_of(snapshot).get(SOURCE_SNAPSHOT)
    source = metadata.snapshot_by_id(int(picked)) if picked else None
    return BATCH_PROPERTY in summary_of(snapshot) or BATCH_PROPERTY in summary_of(source)


def set_main_to(snapshot: Snapshot, table: str, catalog: str) -> str:
    """What a person runs; a Spark server may have another catalog as its default."""
    return f"CALL {catalog}.system.set_current_snapshot('{catalog}.{table}', {snapshot.snapshot_id})"


def read_again(metadata: TableMetadata, snapshot_id: int | None, table: str) -> str:
    """What brings back the rows of a snapshot that a rollback took back, for a person; empty where none did.

    Main that is set there by hand has lost what had been quarantined meanwhile: the rollback has removed it.
    """
    for receipt in receipts(metadata):
        before = rolled_back_from(receipt)
        if before and any(each.snapshot_id == snapshot_id for each in ancestors(metadata, before)):
            return (
                f"snapshot {receipt.snapshot_id} is the rollback that took it back: after tidemark resume {table} "
                "--reason … the next run reads again what that undid; repeat then the replays among it. Main set there "
                "by hand would leave records in no place that were quarantined since"
            )
    return ""
