"""What a table says about itself: head, ledger, columns, properties. From catalog and metadata: Spark may be down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.columns.shape import Shape
from tidemark.domain.columns.types import TYPE_RULES, TYPE_RULES_PROPERTY, Struct
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import (
    BATCH_PROPERTY,
    BRANCH_PREFIX,
    LEDGER_PROPERTY,
    LEDGER_TAG,
    Ledger,
)
from tidemark.domain.ledger.merge_ledger import MergeLedger, is_merge_ledger
from tidemark.engine.access.iceberg_types import columns_of
from tidemark.engine.access.main_history import ancestors, newest_receipt, require_whole, set_main_to
from tidemark.engine.access.snapshots import is_receipt, ledger_of, made_at, merge_ledger_of, summary_of
from tidemark.engine.access.table_shape import head_readable, schema_at, shape_of
from tidemark.engine.access.totals import totals_of

OWNED = "tidemark.topic"
"""A table that carries this property was loaded, or is being loaded, by Tidemark."""
UPSERT_OF = "tidemark.upsert-of"
"""The append table of an upsert table, or of its memory of deletes."""
PAUSED = "tidemark.paused"
HELD_BATCH = "tidemark.held-batch"
RESUMED = "tidemark.resumed"
"""Who undid the last pause, in which run: what the operations log may yet lack."""
ACCEPTED_BATCH = "tidemark.accepted-batch"
ACCEPTED = "tidemark.accepted"
"""Who let a batch through last, in which run: what the operations log may yet lack."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one moment. `head` and `receipt` are snapshot ids; counts are those of main's head.

    An append table has a `ledger`, an upsert table a `merged` one.
    """

    table: str
    exists: bool
    uuid: str | None = None
    head: int | None = None
    receipt: int | None = None
    tagged: int | None = None
    """Where the tag of the newest receipt is; elsewhere after a death between two commits, or somebody's hand."""
    ledger: Ledger | None = None
    columns: Struct | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str = ""
    data_files: int = 0
    delete_files: int = 0
    rows: int = 0
    committed_at: datetime | None = None
    branches: frozenset[str] = frozenset()
    partition_fields: tuple[str, ...] = ()
    merged: MergeLedger | None = None
    delete_rows: int = 0
    touched_partitions: int | None = None
    """By the rows of the newest batch; None before the first."""
    shape: Shape = field(default_factory=Shape)
    schemas: tuple[Schema, ...] = field(default=(), repr=False, compare=False)
    """All that the table has had, the present one last."""
    head_schema: Schema | None = field(default=None, repr=False, compare=False)
    """That of main's head: what Spark reads when it is pinned to it. Columns that came since are not in it."""
    head_readable: bool = True
    """Spark can be pinned to main's head (`table_shape`)."""
    staged: bool = False
    """An attempt's branch is ahead of main: rows are written and not published."""

    @property
    def mark(self) -> str:
        """Identity, head and properties: what a sensor compares to see that something about the table changed."""
        return f"{self.uuid}|{self.head}|{sorted(self.properties.items())}"

    @property
    def live_rows(self) -> int:
        """Rows that a scan finds: without those that delete files mark, as summaries count them."""
        return max(0, self.rows - self.delete_rows)

    @property
    def paused(self) -> bool:
        """The table says itself that nothing may be ingested."""
        return bool(self.properties.get(PAUSED))

    @property
    def owned(self) -> bool:
        """Tidemark created or adopted this table."""
        return OWNED in self.properties

    @property
    def made_of(self) -> str | None:
        """The append table of an upsert table, or of its memory of deletes."""
        return self.properties.get(UPSERT_OF) or (self.merged.append_table if self.merged else None)

    @property
    def ledger_lost(self) -> bool:
        """It has snapshots and no receipt; or the tag alone, which stays where an empty table replaces it."""
        return self.receipt is None and (self.head, self.tagged) != (None, None)


def load(catalog: Catalog, table: str) -> Table | None:
    """The table as it is now, or None when it does not exist."""
    try:
        return catalog.load_table(table)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def load_written(catalog: Catalog, table: str) -> Table | None:
    """The table as it is now, or None when it does not exist or has no snapshot: nothing was ever written to it."""
    loaded = load(catalog, table)
    return None if loaded is None or loaded.metadata.current_snapshot_id is None else loaded


def upsert_of(catalog: Catalog, table: str) -> str | None:
    """The append table whose upsert table, or memory of deletes, this is."""
    loaded = load(catalog, table)
    return loaded.properties.get(UPSERT_OF) if loaded else None


def read_state(catalog: Catalog, table: str, *, ledger: bool = True) -> TableState:
    """Everything a plan needs to know about `table`, from one load.

    Raises:
        Stopped: `ledger_missing` when the table is ours and its ledger is lost, or there is none of its newest rows
            (if `ledger` is needed); `misconfigured` when a newer Tidemark made it.
    """
    loaded = load(catalog, table)
    if loaded is None:
        return TableState(table=table, exists=False)
    metadata = loaded.metadata
    _require_known_rules(metadata, table)
    receipt = newest_receipt(metadata)
    if ledger:
        require_whole(metadata, table, catalog.name)
    head = metadata.current_snapshot()
    totals = totals_of(loaded, head)
    merges = is_merge_ledger(summary_of(receipt).get(LEDGER_PROPERTY, "{}"))
    state = TableState(
        table=table,
        exists=True,
        uuid=str(metadata.table_uuid),
        head=metadata.current_snapshot_id,
        receipt=receipt.snapshot_id if receipt else None,
        tagged=metadata.refs[LEDGER_TAG].snapshot_id if LEDGER_TAG in metadata.refs else None,
        ledger=ledger_of(receipt, table) if receipt and not merges else None,
        columns=columns_of(metadata.schema()),
        properties=dict(metadata.properties),
        location=metadata.location,
        data_files=totals.data_files,
        delete_files=totals.delete_files,
        rows=totals.rows,
        committed_at=made_at(receipt) if receipt else None,
        branches=frozenset(name for name, ref in metadata.refs.items() if ref.snapshot_ref_type == "branch"),
        partition_fields=tuple(f.name for f in metadata.spec().fields),
        merged=merge_ledger_of(receipt, table) if receipt and merges else None,
        delete_rows=totals.delete_rows,
        touched_partitions=_touched(metadata, receipt),
        shape=shape_of(metadata),
        schemas=(
            *(s for s in metadata.schemas if s.schema_id != metadata.current_schema_id),
            metadata.schema(),
        ),
        head_schema=schema_at(metadata, head),
        head_readable=head_readable(metadata),
        staged=_staged(metadata, head),
    )
    if ledger and state.owned and state.ledger_lost:
        raise ledger_missing(metadata, table, catalog.name)
    return state


def ledger_missing(metadata: TableMetadata, table: str, catalog: str) -> Stopped:
    """What stops a table that was loaded, and has no receipt on main; the last that it had is named."""
    tag = metadata.refs.get(LEDGER_TAG)
    receipt = metadata.snapshot_by_id(tag.snapshot_id) if tag else None
    if not is_receipt(receipt):  # without the tag some attempt's may be among them that was never published
        receipt = max(filter(is_receipt, metadata.snapshots), key=made_at, default=None)
    back = (
        f" Snapshot {receipt.snapshot_id} has it: {set_main_to(receipt, table, catalog)}." if receipt else ""
    )
    return Stopped("ledger_missing", table, f"Looked through main and the tag.{back}")


def _require_known_rules(metadata: TableMetadata, table: str) -> None:
    rules = metadata.properties.get(TYPE_RULES_PROPERTY, str(TYPE_RULES))
    if not rules.isdigit() or int(rules) > TYPE_RULES:
        raise Stopped(
            "misconfigured",
            table,
            f"its columns were made by type rules {rules} of a newer Tidemark; this one reads up to {TYPE_RULES}: "
            "upgrade Tidemark.",
            type_rules=rules,
        )


def _touched(metadata: TableMetadata, receipt: Snapshot | None) -> int | None:
    """Of the batch that the receipt is for: its rows are in the snapshot before, if there were any."""
    for snapshot in islice(ancestors(metadata, receipt.snapshot_id if receipt else None), 2):
        touched = summary_of(snapshot).get("changed-partition-count", "0")
        if BATCH_PROPERTY in summary_of(snapshot) and int(touched):
            return int(touched)
    return None


def _staged(metadata: TableMetadata, head: Snapshot | None) -> bool:
    """Whether an attempt has written since main last moved."""
    attempts = [
        metadata.snapshot_by_id(ref.snapshot_id)
        for name, ref in metadata.refs.items()
        if ref.snapshot_ref_type == "branch" and name.startswith(BRANCH_PREFIX)
    ]
    since = head.timestamp_ms if head else 0
    return any(each is not None and each.timestamp_ms > since for each in attempts)
