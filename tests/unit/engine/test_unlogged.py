"""Rule: an act is found by its receipt however long the table's history is, at the cost of reading that once."""

import json
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.types import LongType, NestedField

from tidemark.domain.ledger.ledger import ACT_PROPERTY
from tidemark.engine.table.unlogged import _acts

LONG = 500


class Passed(list[Snapshot]):
    """Counts the snapshots that were looked at."""

    looked = 0

    def __iter__(self) -> Iterator[Snapshot]:
        for each in super().__iter__():
            self.looked += 1
            yield each


def test_an_act_is_found_and_each_snapshot_is_passed_once() -> None:
    """Given a long history whose oldest snapshot has expired, when acts are looked for, then the one in it is found."""
    act = {ACT_PROPERTY: json.dumps({"run_id": "r", "verb": "replay"})}
    snapshots = Passed(
        Snapshot(
            snapshot_id=number,
            timestamp_ms=number,
            manifest_list="",
            summary=Summary(Operation.APPEND, **(act if number == LONG // 2 else {})),
        )
        for number in range(1, LONG)
    )
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    metadata = TableMetadataV2(
        location="",
        last_column_id=1,
        schemas=[schema],
        partition_specs=[PartitionSpec()],
        last_updated_ms=0,
        snapshot_log=[SnapshotLogEntry(snapshot_id=n, timestamp_ms=n) for n in range(LONG)],
    ).model_copy(update={"snapshots": snapshots})
    table: Any = SimpleNamespace(metadata=metadata)
    found = _acts(table, timedelta(0))
    assert {run: receipt.snapshot_id for run, (_, receipt) in found.items()} == {"r": LONG // 2}
    assert snapshots.looked <= LONG
