"""The commit path on the table: attempt branch, receipt, publish, clean-up. The only place that moves `main`.

`main` only ever moves to a chain that this attempt wrote itself, and only from the planned head. After an answer that
failed or was lost the table is looked at before anything is believed (DESIGN.md, step 9).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import ancestors, load, summary_of
from tidemark.engine.faults import pause_point
from tidemark.engine.table.races import repeated

TAG_RETENTION_DAYS = 36_500
_DAY_MS = 86_400_000
_LAST_WRITABLE_FORMAT = 2
_DAY_MINUTES = 1_440
RACES = ("ValidationException", "CommitFailedException", "not an ancestor", "is not fast-forwardable")

ACT_PROPERTY = "tidemark.act"
"""Of a receipt: who asked for it, and for what."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A branch that belongs to one attempt alone, created at main's planned `head` (None: there is no snapshot yet).

    That of a rollback begins at `target`, an ancestor of the head.
    """

    table: str
    branch: str
    head: int | None
    target: int | None = None

    @property
    def base(self) -> int | None:
        """The snapshot that the branch begins with."""
        return self.head if self.target is None else self.target


class _OneSnapshot(Transaction):
    """The library copies all metadata at each look at them. Until something is staged they are the table's own."""

    @property
    def table_metadata(self) -> TableMetadata:
        return super().table_metadata if self._updates else self._table.metadata


def open_branch(lake: Lake, attempt: Attempt) -> frozenset[int]:
    """Create the attempt's branch at the planned head; returns the snapshots that this alone has made.

    Spark does it although PyIceberg could: so nothing has moved when it turns out that Spark is down.

    On a table without snapshots Iceberg begins the branch with an empty one, otherwise there are none. Expirers count
    a branch's age from its snapshot, so what an old head lacks is added: a day from now, not from the head.

    Raises:
        Overtaken: the snapshot that it should begin with is gone.
    """
    metadata = _metadata(lake, attempt)
    if attempt.base is None:
        _by_spark(lake, attempt, f"CREATE BRANCH `{attempt.branch}` RETAIN {_DAY_MINUTES} MINUTES")
        pause_point("branched")
        return frozenset({branch_head(lake, attempt).snapshot_id})
    base = metadata.snapshot_by_id(attempt.base)
    if base is None:
        raise Overtaken(attempt.table, attempt.base, metadata.current_snapshot_id)
    minutes = _DAY_MINUTES + max(0, int(time.time() - base.timestamp_ms / 1000) // 60)
    _by_spark(
        lake,
        attempt,
        f"CREATE BRANCH `{attempt.branch}` AS OF VERSION {base.snapshot_id} RETAIN {minutes} MINUTES",
    )
    pause_point("branched")
    return frozenset()


def branch_identifier(lake: Lake, attempt: Attempt) -> str:
    """The attempt's branch as a writable table of Spark."""
    return f"{lake.identifier(attempt.table)}.`branch_{attempt.branch}`"


def write_receipt(
    lake: Lake, attempt: Attempt, ledger: Ledger | MergeLedger, act: str | None = None
) -> Snapshot:
    """Append an empty snapshot with `ledger` to the branch; returns it. `act`: who asked for it, if a person did.

    Raises:
        Overtaken: the branch is gone, or someone else has written to it.
    """
    entries = {LEDGER_PROPERTY: ledger.to_json(), **({ACT_PROPERTY: act} if act else {})}
    before = repeated(lambda: _append_nothing(lake, attempt, entries))
    pause_point("receipted")
    receipt = branch_head(lake, attempt)
    if receipt.parent_snapshot_id != before:
        raise Overtaken(attempt.table, before or 0, receipt.parent_snapshot_id)
    return receipt


def _append_nothing(lake: Lake, attempt: Attempt, entries: Mapping[str, str]) -> int | None:
    """An empty snapshot with summary `entries` on the branch; returns the one that it follows.

    It may be there already: a catalog that was asked twice can call its own first answer another's commit.
    """
    table = _load(lake, attempt)
    head = _branch_head(table, attempt)
    if summary_of(head).get(LEDGER_PROPERTY) == entries[LEDGER_PROPERTY]:
        return head.parent_snapshot_id
    if _is_writable(table.metadata):
        with (
            _OneSnapshot(table) as change,
            change.update_snapshot(dict(entries), attempt.branch).fast_append(),
        ):
            pass
    else:
        empty = lake.spark().sql(f"SELECT * FROM {lake.identifier(attempt.table)} WHERE false")
        writer = empty.writeTo(branch_identifier(lake, attempt))
        for name, entry in entries.items():
            writer = writer.option(f"snapshot-property.{name}", entry)
        writer.append()
    return head.snapshot_id


def branch_head(lake: Lake, attempt: Attempt) -> Snapshot:
    """The newest snapshot of the attempt's branch.

    Raises:
        Overtaken: someone dropped the branch.
        Stopped: someone dropped the table.
    """
    return _branch_head(_load(lake, attempt), attempt)


def _branch_head(table: Table, attempt: Attempt) -> Snapshot:
    head = table.metadata.snapshot_by_name(attempt.branch)
    if head is None:
        raise Overtaken(attempt.table, attempt.head or 0, None)
    return head


def publish(
    lake: Lake,
    attempt: Attempt,
    written: frozenset[int],
    unchanged: Callable[[], None],
    says: Mapping[str, str] | None = None,
) -> None:
    """Move main to the head of the branch when nothing has come between; the ledger tag follows, the branch goes.

    `written` are the snapshot ids that this attempt wrote, receipt included; `unchanged` re-checks the topic and
    raises when it is no longer the one that was read. `says` are table properties that come with it: in the same
    commit where PyIceberg makes it, else right behind.

    Raises:
        Overtaken: main is no longer the planned head.
        Stopped: the branch holds a snapshot that this attempt did not write.
    """
    table = _load(lake, attempt)
    metadata = table.metadata
    if metadata.current_snapshot_id != attempt.head:
        raise Overtaken(attempt.table, attempt.head or 0, metadata.current_snapshot_id)
    _own_chain(metadata, attempt, written)
    unchanged()
    target = metadata.refs[attempt.branch].snapshot_id
    compares = can_compare_and_set(lake, metadata)
    properties = dict(says or {})
    pause_point("publishing")
    try:
        if compares:
            _compare_and_set(table, attempt, target, properties)
        else:
            _fast_forward(lake, attempt, target, properties)
    except Exception as error:
        if not _is_published(lake, attempt, target):
            now = _metadata(lake, attempt).current_snapshot_id
            if now != attempt.head or any(sign in f"{type(error).__name__}: {error}" for sign in RACES):
                raise Overtaken(attempt.table, attempt.head or 0, now) from error
            raise
    if not compares and not _is_published(lake, attempt, target):
        raise Overtaken(attempt.table, attempt.head or 0, _metadata(lake, attempt).current_snapshot_id)
    pause_point("published")


def drop_branch(lake: Lake, attempt: Attempt) -> None:
    """Drop the branch of an attempt that came to nothing."""
    if _is_writable(_metadata(lake, attempt)):
        _set_refs(lake, attempt, RemoveSnapshotRefUpdate(ref_name=attempt.branch))
    else:
        _by_spark(lake, attempt, f"DROP BRANCH IF EXISTS `{attempt.branch}`")
    pause_point("dropped")


def can_compare_and_set(lake: Lake, metadata: TableMetadata) -> bool:
    """Whether PyIceberg can move this table's refs: it does not write format 3, a REST catalog does it for us."""
    return _is_writable(metadata) or lake.platform.catalog.type == "rest"


def _is_writable(metadata: TableMetadata) -> bool:
    return metadata.format_version <= _LAST_WRITABLE_FORMAT


def _by_spark(lake: Lake, attempt: Attempt, change: str) -> None:
    lake.spark().sql(f"ALTER TABLE {lake.identifier(attempt.table)} {change}")


def _set_refs(lake: Lake, attempt: Attempt, update: TableUpdate) -> None:
    """A change of the attempt's own branch, which no other commit to the table contradicts."""

    def change() -> None:
        table = _load(lake, attempt)
        table._do_commit(  # noqa: SLF001 - the public builder does not repeat a commit that lost a race
            requirements=(AssertTableUUID(uuid=table.metadata.table_uuid),), updates=(update,)
        )

    repeated(change)


def _compare_and_set(table: Table, attempt: Attempt, target: int, says: dict[str, str]) -> None:
    """One catalog commit that asserts the planned head: a rollback by someone else in this very moment wins.

    `table` may be older than the catalog's: what is asserted is asserted of the table as it is then.
    """
    table._do_commit(  # noqa: SLF001 - the public transaction cannot assert the head of main
        requirements=(
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref="main", snapshot_id=attempt.head),
        ),
        updates=(
            ref_at("main", "branch", target),
            ref_at(LEDGER_TAG, "tag", target, max_age_ms=TAG_RETENTION_DAYS * _DAY_MS),
            RemoveSnapshotRefUpdate(ref_name=attempt.branch),
            *((SetPropertiesUpdate(updates=says),) if says else ()),
        ),
    )


def ref_at(
    name: str, kind: Literal["branch", "tag"], target: int, max_age_ms: int | None = None
) -> SetSnapshotRefUpdate:
    """The update that lets a branch or tag name `target`."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=kind,
        snapshot_id=target,
        max_ref_age_ms=max_age_ms,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def _fast_forward(lake: Lake, attempt: Attempt, target: int, says: dict[str, str]) -> None:
    """The same in three commits of Spark, for tables that PyIceberg cannot write.

    The second and third are conveniences: the next batch repeats the tag, expiry drops the branch after a day.
    A rollback is no fast-forward; a commit that falls between its last look and this call is rolled back with the rest.
    """
    spark, table = lake.spark(), lake.identifier(attempt.table)
    catalog = lake.platform.catalog.name
    if attempt.target is None:
        call = f"fast_forward('{attempt.table}', 'main', '{attempt.branch}')"
    else:
        call = f"set_current_snapshot('{attempt.table}', {target})"
    spark.sql(f"CALL `{catalog}`.system.{call}").collect()
    spark.sql(
        f"ALTER TABLE {table} CREATE OR REPLACE TAG `{LEDGER_TAG}` AS OF VERSION {target} "
        f"RETAIN {TAG_RETENTION_DAYS} DAYS"
    )
    pause_point("tagged")
    if says:
        listed = ", ".join(f"{quoted_text(key)} = {quoted_text(value)}" for key, value in says.items())
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({listed})")
    drop_branch(lake, attempt)


def _load(lake: Lake, attempt: Attempt) -> Table:
    table = load(lake.catalog, attempt.table)
    if table is None:
        raise Stopped("table_missing", attempt.table, "It was dropped while a batch was staged.")
    return table


def _metadata(lake: Lake, attempt: Attempt) -> TableMetadata:
    return _load(lake, attempt).metadata


def _own_chain(metadata: TableMetadata, attempt: Attempt, written: frozenset[int]) -> None:
    head = metadata.refs.get(attempt.branch)
    if head is None:
        raise Overtaken(attempt.table, attempt.head or 0, metadata.current_snapshot_id)
    chain = set()
    for snapshot in ancestors(metadata, head.snapshot_id):
        if snapshot.snapshot_id == attempt.base:
            break
        chain.add(snapshot.snapshot_id)
    if chain != written:
        raise Stopped(
            "failed",
            attempt.table,
            f"The attempt branch holds snapshots {sorted(chain)}, this attempt wrote {sorted(written)}.",
        )


def _is_published(lake: Lake, attempt: Attempt, target: int) -> bool:
    metadata = _metadata(lake, attempt)
    return any(s.snapshot_id == target for s in ancestors(metadata, metadata.current_snapshot_id))
