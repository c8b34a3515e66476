"""A commit of somebody whose summary says less than Iceberg's own writers do, as the spec lets it."""

import time

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate

from tidemark.engine.access.metadata_files import commit
from tidemark.engine.table.branch import main_at, main_to


def say_less(table: Table, *said: str) -> int:
    """Main moves to a snapshot with the same files, of whose summary only `said` and the operation are left."""
    head = table.metadata.snapshot_by_name(MAIN_BRANCH)
    kept = {key: head.summary.additional_properties[key] for key in said}
    foreign = head.model_copy(
        update={
            "snapshot_id": head.snapshot_id ^ 1,
            "parent_snapshot_id": head.snapshot_id,
            "sequence_number": table.metadata.last_sequence_number + 1,
            "timestamp_ms": max(int(time.time() * 1000), table.metadata.last_updated_ms),
            "summary": Summary(Operation.OVERWRITE, **kept),
        }
    )
    updates = (AddSnapshotUpdate(snapshot=foreign), main_to(table, foreign.snapshot_id))
    commit(table, requirements=main_at(table, head.snapshot_id), updates=updates)
    return foreign.snapshot_id
