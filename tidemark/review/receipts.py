"""What the table's own snapshots tell: batches over time, maintenance, and where it can be recovered to."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.backfill import CUTOVER
from tidemark.domain.ledger.guard import Topic, another, expired_ranges
from tidemark.domain.ledger.ledger import Counts, Ledger, add_up
from tidemark.engine.access.foreign_commits import by_retention, others_since
from tidemark.engine.access.main_history import is_undone, newest_receipt, receipts
from tidemark.engine.access.snapshots import is_receipt, ledger_of, made_at, summary_of
from tidemark.engine.access.totals import totals_of

OTHERS = 5
"""Newest commits of others that are shown."""
KEPT = 400
"""Newest receipts that are shown; a plot cannot show more."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One snapshot with a ledger. `delay`: seconds from the newest record so far to its commit."""

    snapshot_id: int
    at: datetime
    ledger: Ledger

    @property
    def rows(self) -> Counts:
        """Of this batch."""
        return add_up(self.ledger.counts.values())

    @property
    def delay(self) -> float | None:
        """Never negative: clocks of producers run ahead."""
        newest = self.ledger.max_timestamp
        return max(0.0, (self.at - newest).total_seconds()) if newest else None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "snapshot_id": self.snapshot_id,
            "at": self.at.isoformat(),
            "kind": self.ledger.kind,
            "rows": self.rows._asdict(),
            "delay_seconds": self.delay,
            "run_id": self.ledger.run_id,
        }


def receipts_of(metadata: TableMetadata, table: str) -> list[Receipt]:
    """The newest receipts of main, oldest first; what is no ledger of a table's ingest is left out.

    Where an expiry of others has left none, the one that the tag has kept.
    """
    newest = newest_receipt(metadata)
    chain = list(receipts(metadata)) or ([newest] if newest else [])
    found = (_receipt(snapshot, table) for snapshot in chain)
    return list(islice((each for each in found if each), KEPT))[::-1]


def _receipt(snapshot: Snapshot, table: str) -> Receipt | None:
    try:
        return Receipt(snapshot.snapshot_id, made_at(snapshot), ledger_of(snapshot, table))
    except Stopped:
        return None


def way_back(metadata: TableMetadata, table: str, epoch: int, topic: Topic | None) -> Receipt | None:
    """The oldest receipt of main in this epoch, with the records since still in `topic`, if that was asked.

    Along main epochs and offsets only grow, so that few of many ledgers are read.
    """

    def within(snapshot: Snapshot) -> bool:
        ledger = receipt.ledger if (receipt := _receipt(snapshot, table)) else None
        if ledger is None or ledger.epoch != epoch:
            return False
        return topic is None or not (another(ledger, topic) or expired_ranges(ledger, topic))

    chain = list(receipts(metadata))[::-1]
    place = bisect_left(chain, True, key=within)
    return _receipt(chain[place], table) if place < len(chain) else None


def snapshots_of(table: Table) -> dict[str, Any]:
    """How many there are, how far back they go, what the newest compactions did, and commits that are no batch."""
    metadata = table.metadata
    totals = totals_of(table, metadata.current_snapshot())
    every = sorted(metadata.snapshots, key=lambda each: each.timestamp_ms)
    head = summary_of(metadata.current_snapshot())
    replaced = [each for each in every if each.summary and each.summary.operation.value == "replace"]
    rewrites = [each for each in replaced if _rewrite(each)["files_before"]]  # others rewrote manifests alone
    own = by_retention(metadata)
    others = [
        each
        for each in others_since(metadata, metadata.current_snapshot_id, None)
        if each.snapshot_id not in own
    ]
    return {
        "count": len(every),
        "oldest": made_at(every[0]).isoformat() if every else None,
        "newest": made_at(every[-1]).isoformat() if every else None,
        "references": sorted(metadata.refs),
        "bytes": _number(head, "total-files-size"),
        "data_files": totals.data_files,
        "delete_files": totals.delete_files,
        "rewrites": [_rewrite(each) for each in rewrites[-5:][::-1]],
        "others": [each.as_json() for each in others[:OTHERS]],
        "others_count": len(others),
    }


def recovery_of(last: Receipt, oldest: Receipt | None, *, kafka_asked: bool) -> dict[str, Any]:
    """The newest receipt: from here the next run goes on, whatever else is lost.

    `oldest`: the one that a rollback could go back to; without Kafka the one that the snapshots reach back to.
    """
    return {
        "snapshot_id": last.snapshot_id,
        "at": last.at.isoformat(),
        "epoch": last.ledger.epoch,
        "next": {str(p): o for p, o in sorted(last.ledger.next.items())},
        "oldest_snapshot_id": oldest.snapshot_id if oldest else None,
        "oldest_at": oldest.at.isoformat() if oldest else None,
        "kafka_asked": kafka_asked,
    }


def cutover_of(metadata: TableMetadata, table: str) -> Mapping[str, Any] | None:
    """The last backfill that was published, as the table says, unless it was rolled back.

    Raises:
        Stopped: `misconfigured`: a newer Tidemark wrote a ledger.
    """
    text = metadata.properties.get(CUTOVER)
    if not text:
        return None
    said = json.loads(text)
    written = filter(is_receipt, metadata.snapshots)
    own = [each for each in written if ledger_of(each, table).batch_id == said["batch_id"]]
    undone = bool(own) and all(is_undone(metadata, each.snapshot_id) for each in own)
    return None if undone else said


def fates_of(receipts: list[Receipt]) -> list[dict[str, Any]]:
    """Per partition since the epoch began: offsets consumed and what became of them; `never_committed` are none."""
    if not receipts:
        return []
    ledger = receipts[-1].ledger
    found: list[dict[str, Any]] = []
    for partition, following in sorted(ledger.next.items()):
        counts, begun = ledger.totals.get(partition, Counts()), ledger.start.get(partition, 0)
        lost = sum(
            g.end - g.start for g in ledger.gaps if g.partition == partition and g.epoch == ledger.epoch
        )
        found.append(
            {
                "partition": partition,
                "from": begun,
                "next": following,
                **counts._asdict(),
                "accepted_gaps": lost,
                "never_committed": following - begun - counts.read - lost,
                "balanced": counts.balanced,
            }
        )
    return found


def _rewrite(snapshot: Snapshot) -> dict[str, Any]:
    summary = summary_of(snapshot)
    return {
        "at": made_at(snapshot).isoformat(),
        "snapshot_id": snapshot.snapshot_id,
        "files_before": _number(summary, "deleted-data-files"),
        "files_after": _number(summary, "added-data-files"),
    }


def _number(summary: Mapping[str, str], key: str) -> int:
    return int(summary.get(key, 0))
