"""The branch of one attempt: made at the planned head, written to by nobody else, dropped when it came to nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
)

from tidemark.domain.errors import Overtaken, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.table_state import load
from tidemark.engine.faults import pause_point
from tidemark.engine.table.races import repeated

LAST_WRITABLE_FORMAT = 2
"""The newest format of tables that PyIceberg writes."""
_DAY_MINUTES = 1_440


@dataclass(frozen=True, slots=True)
class Attempt:
    """A branch that belongs to one attempt alone, created at main's planned `head` (None: there is no snapshot yet).

    That of a rollback, or of a merge that goes back, begins at `target`, an ancestor of the head. Where nothing is
    staged it may be main itself.
    """

    table: str
    branch: str
    head: int | None
    target: int | None = None

    @property
    def base(self) -> int | None:
        """The snapshot that the branch begins with."""
        return self.head if self.target is None else self.target


def open_branch(lake: Lake, attempt: Attempt) -> frozenset[int]:
    """Create the attempt's branch at the planned head; returns the snapshots that this alone has made.

    On a table without snapshots Iceberg makes an empty one for the branch, else none. Expirers count a branch's age
    from its snapshot: the head's age is added to its retention, so that it lasts a day from now.

    Raises:
        Overtaken: the snapshot that it should begin with is gone.
        Outage: `spark_down`: nothing is begun that could not go on.
    """
    lake.require_spark()
    base = attempt.base
    if base is None:
        _by_spark(lake, attempt, f"CREATE BRANCH `{attempt.branch}` RETAIN {_DAY_MINUTES} MINUTES")
        made = frozenset({branch_head(lake, attempt).snapshot_id})
    else:
        repeated(lambda: _begin(lake, attempt, base))
        made = frozenset()
    pause_point("branched")
    return made


def _begin(lake: Lake, attempt: Attempt, base: int) -> None:
    table = loaded(lake, attempt)
    found = table.metadata.snapshot_by_id(base)
    if found is None:
        raise Overtaken(attempt.table, base, table.metadata.current_snapshot_id)
    minutes = _DAY_MINUTES + max(0, int(time.time() - found.timestamp_ms / 1000) // 60)
    if not is_writable(table.metadata):
        change = (
            f"CREATE BRANCH IF NOT EXISTS `{attempt.branch}` AS OF VERSION {base} RETAIN {minutes} MINUTES"
        )
        return _by_spark(lake, attempt, change)
    begins = ref_at(attempt.branch, "branch", found.snapshot_id, max_age_ms=minutes * 60_000)
    return commit(table, requirements=(AssertTableUUID(uuid=table.metadata.table_uuid),), updates=(begins,))


def branch_identifier(lake: Lake, attempt: Attempt) -> str:
    """The attempt's branch as a writable table of Spark."""
    return f"{lake.identifier(attempt.table)}.`branch_{attempt.branch}`"


def branch_head(lake: Lake, attempt: Attempt) -> Snapshot:
    """The newest snapshot of the attempt's branch.

    Raises:
        Overtaken: someone dropped the branch.
        Stopped: someone dropped the table.
    """
    return head_of(loaded(lake, attempt), attempt)


def head_of(table: Table, attempt: Attempt) -> Snapshot:
    """The newest snapshot of the attempt's branch, in a table that was looked at. Raises Overtaken."""
    head = table.metadata.snapshot_by_name(attempt.branch)
    if head is None:
        raise Overtaken(attempt.table, attempt.head or 0, None)
    return head


def drop_branch(lake: Lake, attempt: Attempt) -> None:
    """Drop the branch of an attempt that came to nothing."""
    repeated(lambda: _drop(lake, attempt))
    pause_point("dropped")


@contextmanager
def dropped_on_failure(lake: Lake, attempt: Attempt) -> Iterator[None]:
    """What fails or is interrupted in here, from `open_branch` on, leaves no branch behind, if that can be helped."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            drop_branch(lake, attempt)
        raise


def _drop(lake: Lake, attempt: Attempt) -> None:
    table = loaded(lake, attempt)
    if attempt.branch not in table.metadata.refs:
        return None
    if not is_writable(table.metadata):
        return _by_spark(lake, attempt, f"DROP BRANCH IF EXISTS `{attempt.branch}`")
    return commit(
        table,
        requirements=(AssertTableUUID(uuid=table.metadata.table_uuid),),
        updates=(RemoveSnapshotRefUpdate(ref_name=attempt.branch),),
    )


def _by_spark(lake: Lake, attempt: Attempt, change: str) -> None:
    lake.spark().sql(f"ALTER TABLE {lake.identifier(attempt.table)} {change}")


def is_writable(metadata: TableMetadata) -> bool:
    """Whether PyIceberg writes tables of this format."""
    return metadata.format_version <= LAST_WRITABLE_FORMAT


def main_at(table: Table, head: int | None) -> tuple[TableRequirement, ...]:
    """What a catalog asserts before it moves main: the table is this very one, its head as it was planned for."""
    return (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head),
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


def main_to(table: Table, target: int) -> SetSnapshotRefUpdate:
    """The update that moves main; the retention that somebody has given it (`REPLACE BRANCH main …`) stays."""
    moved, was = ref_at(MAIN_BRANCH, "branch", target), table.metadata.refs.get(MAIN_BRANCH)
    if was is None:
        return moved
    kept = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
    return moved.model_copy(update={each: getattr(was, each) for each in kept})


def loaded(lake: Lake, attempt: Attempt) -> Table:
    """The attempt's table as it is now.

    Raises:
        Stopped: someone dropped it, or gave it another name.
    """
    table = load(lake.catalog, attempt.table)
    if table is None:
        step = f"tidemark run {attempt.table} tells whether it has another name now"
        raise Stopped("table_missing", attempt.table, "It went while a batch was staged.", next_step=step)
    return table
