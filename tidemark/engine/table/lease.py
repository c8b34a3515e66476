"""Never two maintenances on one table: a lease that the table itself carries, so that it survives whoever held it.

A lease is a tag `tidemark_maintenance_<n>` whose retention ends with it. Creating a tag that is there fails, in every
catalog; an expired lease is followed by the next number, so taking one over is a creation too. Ingest does not ask:
it always goes first.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotRefUpdate

from tidemark.domain.errors import Stopped
from tidemark.domain.maintenance.snapshot_keep import LEASE_PREFIX
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.table_state import load
from tidemark.engine.table.branch import is_writable
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import tag_newest
from tidemark.engine.table.races import repeated

LEASE = timedelta(minutes=60)
"""Six times the budget of one table (maintain.py): the last commit that is begun in time has most of it to end."""
INGEST_FIRST = "tidemark.ingest-first"
"""Until when (ISO 8601) maintenance leaves a table alone because its ingest was overtaken again and again."""
STAND_BACK = timedelta(minutes=10)
_AHEAD = timedelta(minutes=1)
"""By so much the clock of an ingest may be ahead of that of a maintenance."""
LOST_OFTEN = 3
"""Times that a batch or merge is overtaken before its table asks for room; a batch counts anew where it moved on."""


class Leased(Exception):
    """Someone else maintains this table now, or it wants to be left alone; the text says why."""


@contextmanager
def lease(lake: Lake, table: str) -> Iterator[None]:
    """Hold the table for maintenance while the block lasts, its newest receipt tagged before it commits.

    Raises:
        Leased: it is held already.
    """
    name, old = repeated(partial(_take, lake, table))
    try:
        for each in old:
            repeated(partial(_drop, lake, table, each))
        tag_newest(lake, table)
        yield
    finally:
        with suppress(Exception):  # it ends by itself, after an hour
            repeated(partial(_drop, lake, table, name))


def _take(lake: Lake, table: str) -> tuple[str, list[str]]:
    """The new lease, and those that have ended. Any commit that comes between fails this one."""
    metadata = existing(lake, table).metadata
    numbers, head = _leases(metadata), metadata.current_snapshot()
    if head is None:
        raise Leased("it has no snapshot")
    for until in numbers.values():
        if until > time.time():
            raise Leased(
                f"another maintenance holds it until {datetime.fromtimestamp(until, UTC):%H:%M:%S} UTC"
            )
    mine = max(numbers, default=0) + 1
    minutes = _minutes(head.timestamp_ms / 1000)
    try:
        lake.spark().sql(
            f"ALTER TABLE {lake.identifier(table)} CREATE TAG `{LEASE_PREFIX}{mine}` "
            f"AS OF VERSION {head.snapshot_id} RETAIN {minutes} MINUTES"
        )
    except Exception as error:
        if mine in _leases(existing(lake, table).metadata):
            raise Leased("another maintenance was faster") from error
        raise
    return f"{LEASE_PREFIX}{mine}", [f"{LEASE_PREFIX}{number}" for number in numbers]


def _minutes(head: float) -> int:
    """The retention of a lease that begins now on a snapshot of that time, which a clock ahead may have told."""
    return max(1, int((time.time() - head + LEASE.total_seconds()) // 60) + 1)


def wanted_by_ingest(properties: Mapping[str, str]) -> str | None:
    """Why maintenance must not commit now, or None. No ingest asks for longer than STAND_BACK, but its clock may."""
    until = properties.get(INGEST_FIRST)
    left = datetime.fromisoformat(until) - datetime.now(UTC) if until else timedelta(0)
    if timedelta(0) < left < STAND_BACK + _AHEAD:
        return f"its ingest was overtaken again and again; left alone until {until}"
    return None


def ask_for_room(lake: Lake, table: str) -> None:
    """Let the table say that maintenance must leave it alone for a while: said by an ingest that keeps losing."""
    until = datetime.now(UTC) + STAND_BACK
    set_properties(lake, table, {INGEST_FIRST: until.isoformat(timespec="seconds")})


def existing(lake: Lake, table: str) -> Table:
    """The table as it is now.

    Raises:
        Stopped: `table_missing`.
    """
    loaded = load(lake.catalog, table)
    if loaded is None:
        raise Stopped("table_missing", table, "It was dropped while it was maintained.")
    return loaded


def _leases(metadata: TableMetadata) -> dict[int, float]:
    """Number of each lease -> when it ends, in seconds."""
    found: dict[int, float] = {}
    for name, ref in metadata.refs.items():
        number = name.removeprefix(LEASE_PREFIX)
        if name.startswith(LEASE_PREFIX) and number.isdecimal():
            snapshot = metadata.snapshot_by_id(ref.snapshot_id)
            at = snapshot.timestamp_ms if snapshot else 0
            found[int(number)] = (at + (ref.max_ref_age_ms or 0)) / 1000
    return found


def _drop(lake: Lake, table: str, name: str) -> None:
    """Through the catalog where PyIceberg writes the table: Spark may be what ended the maintenance."""
    held = existing(lake, table)
    if not is_writable(held.metadata):
        lake.spark().sql(f"ALTER TABLE {lake.identifier(table)} DROP TAG IF EXISTS `{name}`")
    elif name in held.metadata.refs:
        same = AssertTableUUID(uuid=held.metadata.table_uuid)
        commit(held, requirements=(same,), updates=(RemoveSnapshotRefUpdate(ref_name=name),))
