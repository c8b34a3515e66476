"""The end of the commit path: the receipt, and main moves to it.

The only place that moves the `main` of an append or upsert table to new rows: only ever to a chain that this attempt
wrote itself, and only from the planned head. After an answer that failed or was lost the table is looked at before
anything is believed (docs/adr/0001).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from tidemark.domain.errors import Overtaken, Stopped, TidemarkError
from tidemark.domain.ledger.ledger import ACT_PROPERTY, LEDGER_PROPERTY, LEDGER_TAG, Ledger, branch_name
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.times import DAY_MS
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, newest_receipt, require_whole
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.table_state import PAUSED, TableState, load
from tidemark.engine.access.totals import totals_unsaid
from tidemark.engine.faults import pause_point
from tidemark.engine.table.branch import (
    Attempt,
    branch_identifier,
    drop_branch,
    dropped_on_failure,
    head_of,
    is_writable,
    loaded,
    main_at,
    main_to,
    open_branch,
    ref_at,
)
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.races import repeated, was_overtaken

TAG_RETENTION_DAYS = 36_500


class _OneSnapshot(Transaction):
    """One that stages nothing: the library copies all metadata at each look, here they are the table's own."""

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


def publish(
    lake: Lake,
    attempt: Attempt,
    written: frozenset[int],
    ledger: Ledger | MergeLedger,
    require_unchanged: Callable[[], None] | None = None,
    *,
    act: str | None = None,
    properties: Mapping[str, str] | None = None,
    unless_paused: bool = False,
) -> int:
    """Append the receipt, an empty snapshot with `ledger`, and move main to it when nothing has come between.

    The ledger tag follows, the branch goes. All of it is one catalog commit where PyIceberg writes the table; where it
    does not, Spark appends the receipt to the branch before main moves. Returns the receipt's snapshot id.

    `written` are the snapshot ids that this attempt wrote; `require_unchanged` re-checks what was read and raises when
    it is no longer so. `act`: who asked for it, if a person did. `properties` of the table come with it: in the same
    commit where PyIceberg makes it, else right behind. `unless_paused`: for runs; an act
    that a person asks for is published on a paused table too.

    Raises:
        Overtaken: main is no longer the planned head, the branch or some of its snapshots are gone, or it was paused.
        Stopped: the branch holds a snapshot that this attempt did not write.
    """
    receipt = _Receipt(
        attempt,
        written,
        {LEDGER_PROPERTY: ledger.to_json(), **({ACT_PROPERTY: act} if act else {})},
        require_unchanged or _nothing_was_read,
        dict(properties or {}),
        unless_paused,
    )
    try:
        published = repeated(lambda: _published_or_moved(lake, receipt))
    except TidemarkError:
        raise
    except Exception as error:
        metadata = loaded(lake, attempt).metadata
        found = _published(metadata, receipt)
        if found is None:
            now = metadata.current_snapshot_id
            if now != attempt.head or was_overtaken(error):
                raise Overtaken(attempt.table, attempt.head or 0, now) from error
            raise
        _set_properties_late(lake, receipt, metadata)
        published = found
    pause_point("published")
    return published


def publish_receipt(
    lake: Lake,
    state: TableState,
    ledger: Ledger | MergeLedger,
    *,
    act: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Publish a receipt with no rows before it; returns its snapshot id. `act`, `properties`: as for `publish`.

    Raises:
        Overtaken: main is no longer `state.head`.
    """
    attempt = Attempt(state.table, branch_name(ledger.batch_id, ledger.attempt), state.head)
    if is_writable(loaded(lake, attempt).metadata):
        alone = replace(attempt, branch=MAIN_BRANCH)
        return publish(lake, alone, frozenset(), ledger, act=act, properties=properties)
    with dropped_on_failure(lake, attempt):
        made = open_branch(lake, attempt)
        return publish(lake, attempt, made, ledger, act=act, properties=properties)


@dataclass(frozen=True, slots=True)
class _Receipt:
    """What `publish` was asked for; `entries` are those of the receipt's summary."""

    attempt: Attempt
    written: frozenset[int]
    entries: dict[str, str]
    require_unchanged: Callable[[], None]
    properties: dict[str, str]
    unless_paused: bool

    def is_in(self, snapshot: Snapshot | None) -> bool:
        """Whether this very receipt is that snapshot: no two ledgers are the same, each names its attempt."""
        return summary_of(snapshot).get(LEDGER_PROPERTY) == self.entries[LEDGER_PROPERTY]


def _nothing_was_read() -> None:
    """No check: nothing outside of the table was read."""


def _published_or_moved(lake: Lake, receipt: _Receipt) -> int:
    """One look at the table and one try; the receipt's snapshot id.

    It may be published already: a catalog that was asked twice can call its own first answer another's commit.
    """
    attempt = receipt.attempt
    table = loaded(lake, attempt)
    published = _published(table.metadata, receipt)
    if published is not None:
        _set_properties_late(lake, receipt, table.metadata)
        return published
    if table.metadata.current_snapshot_id != attempt.head:
        raise Overtaken(attempt.table, attempt.head or 0, table.metadata.current_snapshot_id)
    if receipt.unless_paused and table.metadata.properties.get(PAUSED):
        raise Overtaken(attempt.table)
    return _in_one_commit(table, receipt) if is_writable(table.metadata) else _in_steps(lake, table, receipt)


def _in_one_commit(table: Table, receipt: _Receipt) -> int:
    """The receipt and the move to it; whoever writes to the branch or moves main before wins."""
    attempt = receipt.attempt
    _require_own_chain(table.metadata, attempt, receipt.written)
    entries = receipt.entries | totals_unsaid(table, table.metadata.snapshot_by_name(attempt.branch))
    snapshot = _OneSnapshot(table).update_snapshot(entries, attempt.branch).fast_append()
    added, as_it_was = snapshot._commit()  # noqa: SLF001 - the public commit takes no further requirements
    pause_point("receipted")
    receipt.require_unchanged()
    pause_point("publishing")
    _compare_and_set(table, receipt, snapshot.snapshot_id, added, as_it_was)
    return snapshot.snapshot_id


def _in_steps(lake: Lake, table: Table, receipt: _Receipt) -> int:
    """The same where PyIceberg cannot write: Spark appends the receipt to the branch, then main moves."""
    attempt = receipt.attempt
    head = head_of(table, attempt)
    if not receipt.is_in(head):
        _append_nothing(lake, receipt)
        table = loaded(lake, attempt)
        head = head_of(table, attempt)
        if not receipt.is_in(head):
            raise Overtaken(attempt.table, attempt.head or 0, head.snapshot_id)
    pause_point("receipted")
    _require_own_chain(table.metadata, attempt, receipt.written | {head.snapshot_id})
    receipt.require_unchanged()
    pause_point("publishing")
    if can_compare_and_set(lake, table.metadata):
        _compare_and_set(table, receipt, head.snapshot_id)
        return head.snapshot_id
    _fast_forward(lake, receipt, head.snapshot_id)
    metadata = loaded(lake, attempt).metadata
    if _published(metadata, receipt) is None:
        raise Overtaken(attempt.table, attempt.head or 0, metadata.current_snapshot_id)
    return head.snapshot_id


def _append_nothing(lake: Lake, receipt: _Receipt) -> None:
    """The receipt on the branch, by Spark."""
    attempt = receipt.attempt
    empty = lake.spark().sql(f"SELECT * FROM {lake.identifier(attempt.table)} WHERE false")
    writer = empty.writeTo(branch_identifier(lake, attempt))
    for name, entry in receipt.entries.items():
        writer = writer.option(f"snapshot-property.{name}", entry)
    writer.append()


def move_to(lake: Lake, attempt: Attempt, properties: Mapping[str, str]) -> None:
    """Move main to the attempt's branch, which has no receipt: rows are gone on purpose, the ledger stays as it is.

    `properties` are table properties that come with it: in the same commit where PyIceberg makes it, else right before.

    Raises:
        CommitFailedException: main is no longer the planned head.
    """
    table = loaded(lake, attempt)
    target = head_of(table, attempt).snapshot_id
    if can_compare_and_set(lake, table.metadata):
        return commit(
            table,
            requirements=main_at(table, attempt.head),
            updates=(
                main_to(table, target),
                RemoveSnapshotRefUpdate(ref_name=attempt.branch),
                SetPropertiesUpdate(updates=dict(properties)),
            ),
        )
    if table.metadata.current_snapshot_id != attempt.head:
        raise CommitFailedException(f"main of {attempt.table} is no longer as it was planned for")
    set_properties(lake, attempt.table, properties)
    lake.spark().sql(_forward(lake, attempt)).collect()
    return drop_branch(lake, attempt)


def can_compare_and_set(lake: Lake, metadata: TableMetadata) -> bool:
    """Whether PyIceberg can move this table's refs: it does not write format 3, a REST catalog does it for us."""
    return is_writable(metadata) or lake.platform.catalog.type == "rest"


def _compare_and_set(
    table: Table,
    receipt: _Receipt,
    target: int,
    added: tuple[TableUpdate, ...] = (),
    as_it_was: tuple[TableRequirement, ...] = (),
) -> None:
    """One catalog commit that asserts the planned head: a rollback by someone else in this very moment wins.

    `table` may be older than the catalog's: what is asserted is asserted of the table as it is then.
    """
    attempt = receipt.attempt
    staged = attempt.branch != MAIN_BRANCH
    commit(
        table,
        requirements=(*main_at(table, attempt.head), *as_it_was),
        updates=(
            *added,
            main_to(table, target),
            ref_at(LEDGER_TAG, "tag", target, max_age_ms=TAG_RETENTION_DAYS * DAY_MS),
            *((RemoveSnapshotRefUpdate(ref_name=attempt.branch),) if staged else ()),
            *((SetPropertiesUpdate(updates=receipt.properties),) if receipt.properties else ()),
        ),
    )


def _fast_forward(lake: Lake, receipt: _Receipt, target: int) -> None:
    """The same in three commits of Spark, for tables that PyIceberg cannot write.

    After a death between them the next run moves the tag, and expiry drops the branch after a day.
    """
    attempt, properties = receipt.attempt, receipt.properties
    if attempt.target is None:
        lake.spark().sql(_forward(lake, attempt)).collect()
    else:
        set_back(lake, attempt, target)
    pause_point("forwarded")
    tag_receipt(lake, attempt.table, target)
    pause_point("tagged")
    set_properties(lake, attempt.table, properties)
    drop_branch(lake, attempt)


def set_back(lake: Lake, attempt: Attempt, target: int) -> None:
    """Main to a snapshot that is no child of it, which Spark does whatever main is by then.

    A commit that came in between would be undone without what it asks of other tables: it is put back.

    Raises:
        Overtaken: main was not `attempt.head`.
    """
    before = loaded(lake, attempt).metadata.current_snapshot_id
    if before == attempt.head:
        _set_main(lake, attempt, target)
        metadata = loaded(lake, attempt).metadata
        log = [each.snapshot_id for each in metadata.snapshot_log]
        before = log[-2] if log[-1:] == [target] and len(log) > 1 else attempt.head
    if before != attempt.head:
        if before is not None and loaded(lake, attempt).metadata.current_snapshot_id == target:
            _set_main(lake, attempt, before)
        raise Overtaken(attempt.table, attempt.head or 0, before)


def _set_main(lake: Lake, attempt: Attempt, snapshot_id: int) -> None:
    lake.spark().sql(
        lake.call("set_current_snapshot", attempt.table, f"snapshot_id => {snapshot_id}")
    ).collect()


def _set_properties_late(lake: Lake, receipt: _Receipt, metadata: TableMetadata) -> None:
    """The properties that come with a receipt which turns out to be published, where Spark sets them behind it.

    The act has taken place, and is not told as one that has not when they cannot be set.
    """
    if receipt.properties and not can_compare_and_set(lake, metadata):
        with suppress(Exception):
            set_properties(lake, receipt.attempt.table, receipt.properties)


def tag_receipt(lake: Lake, table: str, receipt: int) -> None:
    """Let the tag name the newest receipt: alone it tells of the ledger once somebody has expired all others."""
    lake.spark().sql(
        f"ALTER TABLE {lake.identifier(table)} CREATE OR REPLACE TAG `{LEDGER_TAG}` AS OF VERSION {receipt} "
        f"RETAIN {TAG_RETENTION_DAYS} DAYS"
    )


def tag_newest(lake: Lake, table: str) -> None:
    """Let the tag follow where a run that died or somebody's rollback has left it elsewhere.

    A commit above the newest receipt hides that from whoever keeps one snapshot alone: then the tag tells of it.
    """
    found = load(lake.catalog, table)
    receipt = newest_receipt(found.metadata) if found else None
    if found is None or receipt is None:
        return
    tag = found.metadata.refs.get(LEDGER_TAG)
    if tag is None or tag.snapshot_id != receipt.snapshot_id:
        with suppress(Stopped):  # main stands at half of a commit: what the tag names is the way out
            require_whole(found.metadata, table, lake.catalog.name)
            tag_receipt(lake, table, receipt.snapshot_id)


def _forward(lake: Lake, attempt: Attempt) -> str:
    return lake.call("fast_forward", attempt.table, f"branch => '{MAIN_BRANCH}', to => '{attempt.branch}'")


def _require_own_chain(metadata: TableMetadata, attempt: Attempt, written: frozenset[int]) -> None:
    """Require that the branch holds what this attempt wrote, all of it and nothing else.

    Raises:
        Overtaken: the branch is gone, or somebody has expired snapshots of it: what is left may be half of a commit.
        Stopped: it holds a snapshot that this attempt did not write, or was taken back.
    """
    head = metadata.refs.get(attempt.branch)
    if head is None and (attempt.branch != MAIN_BRANCH or attempt.head is not None):
        raise Overtaken(attempt.table, attempt.head or 0, metadata.current_snapshot_id)
    chain = set()
    for snapshot in ancestors(metadata, head.snapshot_id if head else None):
        if snapshot.snapshot_id == attempt.base:
            break
        chain.add(snapshot.snapshot_id)
    if chain < written and all(metadata.snapshot_by_id(each) is None for each in written - chain):
        raise Overtaken(attempt.table)
    if chain != written:
        raise Stopped(
            "failed",
            attempt.table,
            f"The attempt branch holds snapshots {sorted(chain)}, this attempt wrote {sorted(written)}.",
        )


def _published(metadata: TableMetadata, receipt: _Receipt) -> int | None:
    """The receipt's snapshot id when it is in main's history."""
    for snapshot in ancestors(metadata, metadata.current_snapshot_id):
        if snapshot.snapshot_id == receipt.attempt.head:
            return None
        if receipt.is_in(snapshot):
            return snapshot.snapshot_id
    return None
