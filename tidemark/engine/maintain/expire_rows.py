"""Retention of append rows: one DELETE, which drops whole files and rewrites only those that straddle the cut.

The table notes the cut first. A delete is a snapshot without a receipt: the ledger does not move, and what is missing
before the cut is no gap (reconcile). Rows that the upsert table has not merged stay, and where there was one that the
contract no longer names, the table notes how far rows have gone.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.config.contract import Contract, Retention
from tidemark.domain.config.naming import CURRENT
from tidemark.domain.config.units import counted
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, LEDGER_PROPERTY, branch_name
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.maintenance.retention import (
    EXPIRED_BEFORE,
    FIRST,
    NOTED,
    TAKEN,
    Taken,
    cuts_noted,
    expired_before,
    merged_filter,
    retention_cut,
    taken,
)
from tidemark.domain.plan.contract_record import remembered
from tidemark.domain.times import moment
from tidemark.engine.access.foreign_commits import others_since
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, is_undone, newest_receipt
from tidemark.engine.access.snapshots import is_compaction, is_receipt, ledger_of, summary_of
from tidemark.engine.access.table_state import ledger_missing, load, upsert_of
from tidemark.engine.access.totals import totals_of
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.conflicts import Conflicts
from tidemark.engine.merge.pair import merged_upto
from tidemark.engine.table.branch import (
    Attempt,
    branch_head,
    branch_identifier,
    dropped_on_failure,
    open_branch,
)
from tidemark.engine.table.lease import existing, lease, wanted_by_ingest
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import move_to

PATIENT = 10
"""Times that a delete is tried which any commit of the ingest beats."""
_UNREAD = "the upsert table has rows to read again first"


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rows from before `before` may go, as far as `known` (SQL) says of main at `head`; empty: whatever comes in."""

    head: int
    before: datetime
    known: str = ""

    @property
    def where(self) -> str:
        """The rows that go, in Spark SQL."""
        first, last = (f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S}+00:00'" for at in (FIRST, self.before))
        return f"_kafka.timestamp >= {first} AND _kafka.timestamp < {last} AND {self.known or 'true'}"


def expire_rows(lake: Lake, contract: Contract, *, until: float, dry_run: bool) -> Gain:
    """Delete the append rows that are older than `retention.append`, unless planning that took until after `until`.

    Raises:
        Leased: another maintenance holds the table.
        Outage: a service does not answer.
    """
    began, name = time.perf_counter(), contract.table
    table = load(lake.catalog, name)
    if contract.retention is None or table is None or table.metadata.current_snapshot_id is None:
        return Gain(name, "retention", acted=False, reason="rows are kept for ever")
    if standing_back := wanted_by_ingest(table.metadata.properties):
        return Gain(name, "retention", acted=False, reason=standing_back)
    cut = _cut(lake, contract, contract.retention, table, table.metadata.current_snapshot_id)
    if cut is None:
        return Gain(name, "retention", acted=False, reason=_UNREAD)
    where = f"_kafka.timestamp >= '{FIRST.isoformat()}' and _kafka.timestamp < '{cut.before.isoformat()}'"
    tasks = list(table.scan(row_filter=where).plan_files())
    rows = sum(task.file.record_count for task in tasks)
    found = {"files": len(tasks), "rows_at_most": rows}
    if not tasks or dry_run:
        told = f"{counted(len(tasks), 'file')} with rows from before {cut.before:%Y-%m-%d %H:%M} UTC"
        return Gain(name, "retention", acted=False, reason=told, numbers=found)
    if time.monotonic() > until:
        return Gain(name, "retention", acted=False, reason="its time was over; next time", numbers=found)
    conflicts = Conflicts()
    with lease(lake, name):
        if not cut.known:
            done = conflicts.tried("a file", lambda: _delete(lake, contract, cut))
        else:
            merged = _Merged(lake, contract, contract.retention, cut)
            done = conflicts.tried("a file", merged.delete, PATIENT)
    gone = _rows_deleted(existing(lake, name), table.metadata.current_snapshot_id)
    unread = [_UNREAD] if done is False else []
    return Gain(
        name,
        "retention",
        acted=bool(done),
        reason="; ".join([f"rows before {cut.before:%Y-%m-%d %H:%M} UTC", *unread, *conflicts.gave_up]),
        numbers={
            "files": len(tasks),
            "rows_deleted": gone,
            "conflicts": conflicts.count,
            "seconds": time.perf_counter() - began,
        },
    )


def _cut(lake: Lake, contract: Contract, retention: Retention, table: Table, head: int) -> _Cut | None:
    """What may go; None while the upsert table has rows to read again. `table`, at `head`, is from before it looks."""
    if contract.upsert is None:
        known = _loaded_rows(table) if _was_merged(lake, table) else ""
        return _Cut(head, retention_cut(datetime.now(UTC), retention.append), known)
    merged = merged_upto(lake, contract)
    if merged is None:
        return None
    merged_rows = merged_filter(*merged)
    needed = _oldest_unmerged(lake, contract, merged_rows)
    return _Cut(head, retention_cut(datetime.now(UTC), retention.append, needed), merged_rows)


def _was_merged(lake: Lake, table: Table) -> bool:
    """Whether there is an upsert table of this one that the contract does not name: it may do so again."""
    name = ".".join(table.name())
    last = remembered(table.metadata.properties).get("upsert.table")
    return any(upsert_of(lake.catalog, each) == name for each in (last, name + CURRENT) if each)


def _loaded_rows(table: Table) -> str:
    """SQL that is true for what `table` has, and for nothing that a batch brings later: the note would not know of it.

    Raises:
        Stopped: `ledger_missing`.
    """
    name, receipt = ".".join(table.name()), newest_receipt(table.metadata)
    if receipt is None:
        raise ledger_missing(table.metadata, name, table.catalog.name)
    ledger = ledger_of(receipt, name)
    return merged_filter(ledger.epoch, ledger.next)


def _delete(lake: Lake, contract: Contract, cut: _Cut) -> bool:
    """One commit behind the note, beside whatever comes in; a rollback meanwhile may have taken the note back."""
    table = existing(lake, contract.table)
    note = _note(table, cut)
    if not note.items() <= table.metadata.properties.items():
        set_properties(lake, contract.table, note)
    pause_point("retention_noted")
    lake.spark().sql(f"DELETE FROM {lake.identifier(contract.table)} WHERE {cut.where}")
    pause_point("retention_deleted")
    now = expired_before(existing(lake, contract.table).metadata.properties)
    if now is None or now < cut.before:
        set_properties(lake, contract.table, {EXPIRED_BEFORE: cut.before.isoformat()})
    return True


@dataclass(slots=True)
class _Merged:
    """The delete of rows beside an upsert table, and what is known of them as long as only batches come in."""

    lake: Lake
    contract: Contract
    retention: Retention
    cut: _Cut
    furthest: Mapping[tuple[int, int], int] | None = None

    def delete(self) -> bool:
        """One commit with the note, only while no replay brings rows back: it is tried again until main has not moved.

        False when one has: its rows are to be read first.

        Raises:
            CommitFailedException: main has moved; to be tried again.
        """
        table = self._looked_at()
        if table is None:
            return False
        attempt = Attempt(
            self.contract.table,
            branch_name("retention", uuid4().hex[:8]),
            table.metadata.current_snapshot_id,
        )
        with dropped_on_failure(self.lake, attempt):
            open_branch(self.lake, attempt)
            self.lake.spark().sql(
                f"DELETE FROM {branch_identifier(self.lake, attempt)} WHERE {self.cut.where}"
            )
            pause_point("retention_staged")
            now = _taken(table, branch_head(self.lake, attempt).snapshot_id, self.furthest or {})
            move_to(self.lake, attempt, {**_note(table, self.cut), **now})
        pause_point("retention_deleted")
        return True

    def _looked_at(self) -> Table | None:
        """The table now, `cut` and `furthest` renewed if need be; None: the upsert table must read first.

        The slow part is done once, before the branch is made: each batch that comes in beats a delete.
        """
        table = existing(self.lake, self.contract.table)
        while self.furthest is None or not _only_batches_since(table, self.cut.head):
            head = table.metadata.current_snapshot_id
            if self.furthest is not None and head is not None:
                newer = _cut(self.lake, self.contract, self.retention, table, head)
                if newer is None:
                    return None
                self.cut = replace(newer, before=min(newer.before, self.cut.before))
            self.furthest = _furthest(self.lake, self.contract, self.cut)
            table = existing(self.lake, self.contract.table)
        return table


def _only_batches_since(table: Table, snapshot: int) -> bool:
    """Whether all that has come to main since are new offsets, or their files were rewritten."""
    for each in ancestors(table.metadata, table.metadata.current_snapshot_id):
        if each.snapshot_id == snapshot:
            return True
        summary = summary_of(each)
        if LEDGER_PROPERTY in summary:
            sound = ledger_of(each, ".".join(table.name())).kind == "append"
        else:
            sound = BATCH_PROPERTY in summary or is_compaction(each)
        if not sound:
            return False
    return False


def _note(table: Table, cut: _Cut) -> dict[str, str]:
    """What the table says of it: rows before this may be gone. And what it said so far, for a rollback.

    Of the heads that have expired the last one stays: the delete behind it may be there.
    """
    metadata = table.metadata
    noted, head = expired_before(metadata.properties), metadata.current_snapshot_id
    on_main = {each.snapshot_id for each in ancestors(metadata, head)}
    known = [each for each in cuts_noted(metadata.properties) if each[0] in on_main]
    latest = cut.before if noted is None else max(noted, cut.before)
    if noted == latest and known and known[-1][0] == head:
        return {EXPIRED_BEFORE: latest.isoformat()}
    gone = [each for each in cuts_noted(metadata.properties) if not metadata.snapshot_by_id(each[0])]
    before = metadata.properties.get(EXPIRED_BEFORE, "")
    return {
        EXPIRED_BEFORE: latest.isoformat(),
        NOTED: json.dumps([*gone[-1:], *known, (head, before)]),
    }


def cut_as_of(metadata: TableMetadata, target: int) -> dict[str, str]:
    """The properties by which the table says what retention had deleted at `target`; empty where they say it by now.

    A DELETE cannot write into its snapshot: it is the first one after the head at which its cut was noted that no
    batch and no compaction has made. Where another may be that one, or it may be on its way, the cut stays.
    """
    noted = cuts_noted(metadata.properties)
    for n, (head, before) in enumerate(noted):
        if head == metadata.current_snapshot_id:
            break
        if is_undone(metadata, head, target) or not _may_be_deleted(metadata, head, target):
            return {EXPIRED_BEFORE: before, NOTED: json.dumps(noted[:n])}
    return {}


def _may_be_deleted(metadata: TableMetadata, since: int, until: int) -> bool:
    for each in ancestors(metadata, until):
        if each.snapshot_id == since:
            return False
        if not (is_receipt(each) or is_compaction(each) or BATCH_PROPERTY in summary_of(each)):
            return True
    return True


def _furthest(lake: Lake, contract: Contract, cut: _Cut) -> dict[tuple[int, int], int]:
    """(epoch, partition) -> offset behind the last row that goes."""
    found = lake.spark().sql(
        "SELECT _kafka.epoch, _kafka.partition, max(_kafka.offset) + 1 AS next "
        f"FROM {lake.identifier(contract.table)} VERSION AS OF {cut.head} WHERE {cut.where} GROUP BY 1, 2"
    )
    return {(row["epoch"], row["partition"]): row["next"] for row in found.collect()}


def _taken(table: Table, delete: int, furthest: Mapping[tuple[int, int], int]) -> dict[str, str]:
    """What the table says of rows that are gone: an upsert table that has not merged them (any more) lacks them."""
    if not furthest:
        return {}
    epoch = max(epoch for epoch, _ in furthest)
    now = Taken(snapshot=delete, epoch=epoch, next={p: o for (e, p), o in furthest.items() if e == epoch})
    before = taken(table.metadata.properties)
    if before is not None and not is_undone(table.metadata, before.snapshot):
        now = now.joined(before)
    return {TAKEN: now.model_dump_json()}


def _oldest_unmerged(lake: Lake, contract: Contract, merged_rows: str) -> datetime | None:
    """The record time of the oldest row that the upsert table has not merged; None when it has all of them.

    A time in the future is none to wait for, and may be one that no datetime holds.
    """
    (row,) = (
        lake.spark()
        .sql(
            f"SELECT unix_micros(min(_kafka.timestamp)) AS oldest FROM {lake.identifier(contract.table)} "
            f"WHERE NOT ({merged_rows})"
        )
        .collect()
    )
    oldest = row["oldest"]
    if oldest is None or oldest / 1_000_000 >= time.time():
        return None
    return moment(oldest, per_second=1_000_000)


def _rows_deleted(table: Table, since: int | None) -> int:
    """By deletes on main after snapshot `since`, which are retention's as far as nobody else deletes rows then."""
    metadata, found = table.metadata, 0
    for each in others_since(metadata, metadata.current_snapshot_id, since):
        own = metadata.snapshot_by_id(each.snapshot_id)
        parent = metadata.snapshot_by_id(own.parent_snapshot_id or 0) if own else None
        found += max(0, totals_of(table, parent).live_rows - totals_of(table, own).live_rows)
    return found
