"""What append table and upsert table say of each other, read from the catalog alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.columns.names import Path
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_table_of
from tidemark.domain.errors import Stopped
from tidemark.domain.formats.debezium import has_rows
from tidemark.domain.ledger.backfill import CUTOVER
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG
from tidemark.domain.ledger.merge_ledger import MergeLedger, is_merge_ledger
from tidemark.domain.ledger.merge_plan import (
    AppendHistory,
    AppendReceipt,
    GoBack,
    Merge,
    Rebuild,
    Receipts,
    is_behind,
    lag_since,
    plan_merge,
    unmerged_offsets,
)
from tidemark.domain.maintenance.retention import Taken, expired_before, taken
from tidemark.engine.access.iceberg_types import columns_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, is_undone, newest_receipt, require_whole
from tidemark.engine.access.snapshots import follows_another, is_receipt, ledger_of, made_at, summary_of
from tidemark.engine.access.table_shape import head_readable, schema_at, schema_fields
from tidemark.engine.access.table_state import OWNED, TableState, ledger_missing, load, read_state
from tidemark.engine.schema.by_hand import taken_away


@dataclass(frozen=True, slots=True)
class Pair:
    """Both tables at one moment. `columns`: of the append table's head snapshot.

    `append` is None before its first load, and while its topic has brought none but Debezium's own records.
    """

    current: UpsertTable
    append: AppendHistory | None
    state: TableState
    columns: Struct
    cut: datetime | None = None
    """Retention has deleted append rows of records from before this."""
    taken: Taken | None = None
    """Up to where it has deleted them beside an upsert table; None where that was rolled back."""
    elsewhere: bool = False
    """The append table holds rows of a backfill from elsewhere, which are no records of its topic; False once that was
    accepted."""

    readable: bool = True
    """Spark can be pinned to the append table's head, as `TableState.head_readable`, and finds the columns there that
    were renamed back since."""
    lost: Mapping[Path, Path | None] = field(default_factory=dict)
    """Columns of the upsert table that the append table had, with what somebody has renamed them to; None: dropped."""

    @property
    def trimmed(self) -> bool:
        """Append rows are gone: the table cannot be made anew from what is left."""
        return self.cut is not None

    @property
    def whole(self) -> bool:
        """Made anew it would hold what it holds; or someone has accepted that it will not."""
        accepted = self.state.merged is not None and self.state.merged.anew
        return accepted or not (self.trimmed and self.state.rows)

    @property
    def waiting(self) -> int:
        """Offsets of the append table that are not merged."""
        return unmerged_offsets(self.state.merged, self.append) if self.append else 0

    @property
    def behind(self) -> bool:
        """A merge has something to do: offsets wait, or what was merged was replayed or taken back since."""
        return self.append is not None and is_behind(self.state.merged, self.append)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest append commit that is not merged was published."""
        return lag_since(self.state.merged, self.append) if self.append else None


def read_pair(lake: Lake, current: UpsertTable, *, ledger: bool = True) -> Pair:
    """Both tables as they are now.

    Raises:
        Stopped: `ledger_missing` of either, or `table_missing`: the append table that was merged is gone (if `ledger`
            is needed).
    """
    state = read_state(lake.catalog, current.contract.table, ledger=ledger)
    append = load(lake.catalog, current.append.table)
    if append is None or newest_receipt(append.metadata) is None:
        if ledger and not state.paused:
            _require_not_lost(append, current, state, lake.catalog.name)
        return Pair(current, None, state, Struct(()))
    columns = columns_of(schema_at(append.metadata, append.metadata.current_snapshot()))
    if not has_rows(columns):
        return Pair(current, None, state, columns)
    named = state.merged.append_snapshot if state.merged else None
    if ledger:
        require_whole(append.metadata, current.append.table, lake.catalog.name)
    history = read_history(append.metadata, current.append.table, named, lake.catalog.name)
    cut, gone = expired_before(append.metadata.properties), taken(append.metadata.properties)
    own = schema_fields(state.schemas[-1]) if state.schemas else ()
    lost = taken_away(append.metadata, [path for path, _ in own])
    accepted = state.merged is not None and state.merged.own_topic_only
    elsewhere = not accepted and _holds_others(append, named)
    return Pair(
        current,
        history,
        state,
        columns,
        cut=cut,
        taken=None if gone is None or is_undone(append.metadata, gone.snapshot) else gone,
        elsewhere=elsewhere,
        readable=head_readable(append.metadata) and all(path != now for path, now in lost.items()),
        lost={path: now for path, now in lost.items() if path != now},
    )


def _require_not_lost(append: Table | None, current: UpsertTable, state: TableState, catalog: str) -> None:
    """Require that an append table without a receipt is yet to be made, renamed or adopted.

    Raises:
        Stopped: `table_missing`, `ledger_missing`.
    """
    table = current.append.table
    merged = state.merged is not None and state.merged.append_table == state.made_of == table
    if append is None:
        if merged:
            why = f"{current.contract.table} was made of its rows."
            raise Stopped("table_missing", table, why, topic=current.append.topic)
        return
    written = append.metadata.current_snapshot_id is not None or LEDGER_TAG in append.metadata.refs
    if written and (merged or OWNED in append.metadata.properties):
        raise ledger_missing(append.metadata, table, catalog)


def read_history(metadata: TableMetadata, table: str, named: int | None, catalog: str) -> AppendHistory:
    """The history of an append table; receipts as far back as the snapshot `named`, at least the newest.

    Raises:
        Stopped: `ledger_missing`: there is no receipt at all.
    """
    chain = list(ancestors(metadata, metadata.current_snapshot_id))
    receipts: list[AppendReceipt] = []
    for snapshot in chain:
        if receipts and (named is None or snapshot.snapshot_id == named):
            break
        if is_receipt(snapshot):
            receipts.append(_append_receipt(snapshot, table))
    if not receipts:
        newest = newest_receipt(metadata)
        if newest is None:
            raise ledger_missing(metadata, table, catalog)
        receipts.append(_append_receipt(newest, table))
    return AppendHistory(
        uuid=str(metadata.table_uuid),
        head=metadata.current_snapshot_id or 0,
        chain=tuple(each.snapshot_id for each in chain),
        receipts=tuple(receipts),
        whole=not chain
        or _is_root(chain[-1], receipts[-1])
        or (named is not None and is_undone(metadata, named)),
    )


def _is_root(snapshot: Snapshot, oldest: AppendReceipt) -> bool:
    """An empty receipt of an empty table looks like one: its ledger tells whether it is the first."""
    if follows_another(snapshot):
        return False
    return snapshot.snapshot_id != oldest.snapshot or oldest.ledger.kind == "first"


def _append_receipt(snapshot: Snapshot, table: str) -> AppendReceipt:
    return AppendReceipt(snapshot.snapshot_id, made_at(snapshot), ledger_of(snapshot, table))


def next_step(lake: Lake, pair: Pair, limit: int) -> Merge | GoBack | Rebuild | None:
    """What the upsert table must do now; own receipts are only searched when history was undone."""
    if pair.append is None:
        return None
    own: Receipts = []
    if pair.state.merged and pair.state.receipt:
        own = [(pair.state.receipt, pair.state.merged)]
    step = plan_merge(own, pair.append, limit)
    if isinstance(step, Rebuild):
        step = plan_merge(own_receipts(lake, pair.state.table), pair.append, limit)
    return step


def own_receipts(lake: Lake, table: str) -> Receipts:
    """Receipts of an upsert table among main's ancestors, newest first; the tag's when expiry has cut that chain."""
    loaded = load(lake.catalog, table)
    found: list[tuple[int, MergeLedger]] = []
    if loaded is None:
        return found
    chain = list(ancestors(loaded.metadata, loaded.metadata.current_snapshot_id))
    newest = newest_receipt(loaded.metadata)
    for snapshot in chain if newest is None or newest in chain else (newest,):
        text = summary_of(snapshot).get(LEDGER_PROPERTY, "")
        if is_merge_ledger(text):
            found.append((snapshot.snapshot_id, MergeLedger.from_json(text, table=table)))
    return found


def merged_upto(lake: Lake, contract: Contract) -> tuple[int, dict[int, int]] | None:
    """(epoch, next offsets) before which all append rows are merged, for whoever deletes append rows.

    A row of an earlier epoch, or of this one below `next` in its partition, may go. None: nothing may, the upsert
    table has merged nothing of the append table that is there now, or must read merged rows again. Only for contracts
    with `upsert`.
    """
    current = upsert_table_of(contract)
    if current is None:
        return None
    append = load(lake.catalog, contract.table)
    merged = lake.state(current.contract.table).merged
    if append is None or merged is None or merged.append_uuid != str(append.metadata.table_uuid):
        return None
    history = read_history(append.metadata, contract.table, merged.append_snapshot, lake.catalog.name)
    step = plan_merge([(0, merged)], history)
    if isinstance(step, Rebuild) or (isinstance(step, Merge) and step.rows.reloaded):
        return None
    return merged.epoch, dict(merged.next)


def _holds_others(append: Table, merged: int | None) -> bool:
    """Whether a backfill from elsewhere has left rows.

    Statistics of files tell, which are read only after a cutover that is newer than `merged`, the snapshot that the
    newest merge went by: each merge has asked. The receipt of a cutover is one of a replay.
    """
    head = append.metadata.current_snapshot_id
    if CUTOVER not in append.metadata.properties or head is None:
        return False
    for snapshot in ancestors(append.metadata, head):
        if snapshot.snapshot_id == merged:
            return False
        if is_receipt(snapshot) and ledger_of(snapshot, append.name()[-1]).kind == "replay":
            break
    return next(iter(append.scan(row_filter="_kafka.epoch < 0").plan_files()), None) is not None


def as_topic(pair: Pair) -> Topic | None:
    """The append table as a merge sees it: where its ledger ends; None before its first load.

    What was replayed shows in no offset: while it waits, the identity names the snapshot.
    """
    if pair.append is None:
        return None
    ledger = pair.append.ledger
    corrected = f"/{pair.append.head}" if pair.behind and not pair.waiting else ""
    return Topic(
        name=pair.current.append.table,
        cluster_id=ledger.cluster_id,
        topic_id=f"{pair.append.uuid}/{ledger.epoch}{corrected}",
        log_start=dict(ledger.start),
        end=dict(ledger.next),
        high_watermark=dict(ledger.next),
    )
