"""The memory of hard deletes, for tables whose events may come later than a newer delete of their key.

A table of its own, appended before a merge is published. The merge's ledger names the snapshot that holds what this and
earlier merges remember, so what an attempt leaves that is never published counts for nothing.
"""

from datetime import UTC, date, datetime, timedelta
from itertools import takewhile

from pyiceberg.table import Table
from pyspark.sql import DataFrame

from tidemark.domain.columns.spark_types import property_list
from tidemark.domain.config.upsert import DELETED_FOR_DAYS, UpsertTable
from tidemark.domain.errors import Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.snapshots import is_compaction
from tidemark.engine.access.table_state import OWNED, UPSERT_OF, load
from tidemark.engine.table.first_load import base_properties
from tidemark.engine.table.marked import append_marked

_COLUMNS = (
    "key string, position string, epoch int, partition int, offset bigint, timestamp timestamp, at timestamp"
)


def read_memory(lake: Lake, current: UpsertTable, snapshot: int | None) -> DataFrame | None:
    """The hard deletes that are remembered as of `snapshot`, the one that the ledger names; None when there are none.

    Our own expiry keeps it (named_snapshots.py). If someone else's has taken it away: all that is remembered now.
    """
    table = None if snapshot == 0 else _own(lake, current)
    if table is None or table.metadata.current_snapshot_id is None:
        return None
    known = table.metadata.snapshot_by_id(snapshot) if snapshot else None
    pinned = known.snapshot_id if known else table.metadata.current_snapshot_id
    return lake.spark().read.option("versionAsOf", str(pinned)).table(lake.identifier(current.memory))


def remember(lake: Lake, current: UpsertTable, deletes: DataFrame, snapshot: int | None, attempt: str) -> int:
    """Add to the memory as of `snapshot`; the new snapshot, for the ledger that is published with these deletes.

    What lies beyond it was remembered by an attempt that was never published, or of history that was undone.

    Raises:
        Stopped: `table_incompatible`.
        Overtaken: as `append_marked`.
    """
    identifier = lake.identifier(current.memory)
    table = _own(lake, current)
    if table is None:
        _create(lake, current)
    else:
        if snapshot is not None:
            _forget_others(lake, current, table, snapshot)
        _forget_old(lake, identifier, table.metadata.current_snapshot())
    return append_marked(lake, current.memory, deletes, attempt)


def _own(lake: Lake, current: UpsertTable) -> Table | None:
    """The memory; None before anything was remembered.

    Raises:
        Stopped: `table_incompatible`: it is somebody else's table, and nothing of it is read or deleted.
    """
    table = load(lake.catalog, current.memory)
    if table is not None and table.properties.get(UPSERT_OF) != current.append.table:
        raise Stopped(
            "table_incompatible",
            current.contract.table,
            f"Its deletes are remembered in {current.memory}, which is somebody else's table. Rename that one, or name "
            "another `upsert.table`.",
        )
    return table


def _create(lake: Lake, current: UpsertTable) -> None:
    base = base_properties(current.contract.model_copy(update={"format_version": 2}))
    properties = {
        **{key: value for key, value in base.items() if "metrics.column" not in key},
        OWNED: current.append.topic,
        UPSERT_OF: current.append.table,
    }
    lake.spark().sql(
        f"CREATE TABLE IF NOT EXISTS {lake.identifier(current.memory)} ({_COLUMNS}) USING iceberg "
        f"PARTITIONED BY (days(at)) "
        f"COMMENT 'Keys deleted from {current.contract.table}, kept for {DELETED_FOR_DAYS} days' "
        f"TBLPROPERTIES ({property_list(properties)})"
    )


def _forget_others(lake: Lake, current: UpsertTable, table: Table, snapshot: int) -> None:
    """Make `snapshot` the newest again, unless all that follows it is compaction."""
    metadata = table.metadata
    if not snapshot:
        if metadata.current_snapshot_id is not None:
            lake.spark().sql(f"DELETE FROM {lake.identifier(current.memory)}")
        return
    line = ancestors(metadata, metadata.current_snapshot_id)
    later = list(takewhile(lambda each: each.snapshot_id != snapshot, line))
    if metadata.snapshot_by_id(snapshot) and not all(is_compaction(each) for each in later):
        lake.spark().sql(lake.call("set_current_snapshot", current.memory, f"snapshot_id => {snapshot}"))


def _today() -> date:
    return datetime.now(UTC).date()


def _forget_old(lake: Lake, identifier: str, newest: object) -> None:
    """Once a day, drop the days that are out of bounds: whole partitions, so no file is read."""
    at = getattr(newest, "timestamp_ms", None)
    today = _today()
    if at is None or datetime.fromtimestamp(at / 1000, UTC).date() == today:
        return
    bound = today - timedelta(days=DELETED_FOR_DAYS)
    lake.spark().sql(f"DELETE FROM {identifier} WHERE at < TIMESTAMP '{bound} 00:00:00'")
