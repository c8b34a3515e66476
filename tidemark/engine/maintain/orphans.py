"""Orphan files: what lies under a table's location, no snapshot names, and nobody can still be writing.

Spark lists them, on any store; they are deleted one by one by PyIceberg, so that whoever stops this stops it.
"""

import random
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from math import inf

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyspark.errors import PySparkException

from tidemark.domain.config.contract import Orphans
from tidemark.domain.config.units import counted
from tidemark.domain.errors import Outage, Overtaken, Stopped
from tidemark.domain.maintenance.gain import Gain
from tidemark.domain.maintenance.snapshot_keep import Snap, began_at, is_attempt, is_dead
from tidemark.domain.plan.table_properties import GC_ENABLED
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.namespace import listed, namespaces
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import load, load_written
from tidemark.engine.faults import pause_point
from tidemark.engine.maintain.expire import refs_of
from tidemark.engine.table.folder import now_named
from tidemark.engine.table.lease import lease

LEAST = timedelta(days=1)
"""Iceberg refuses to remove files younger than this."""
LOOKS, PAUSE = 5, 1.0
VANISHED = "No such file or directory"
URI = re.compile(r"(?:([A-Za-z][\w+.-]*):(?://([^/]*))?)?(.*)", re.DOTALL)
SHOWN = 20
PARALLEL = 16


def remove_orphans(lake: Lake, name: str, limits: Orphans, *, until: float, dry_run: bool) -> Gain:
    """Remove orphans older than `older_than`, and never what is younger than a running stage; none after `until`.

    A dry run names all of them, a removal the first few.

    Raises:
        Leased: another maintenance holds the table.
        Overtaken: files came and went under each listing.
        Outage: a service does not answer.
    """
    began = time.perf_counter()
    table = load_written(lake.catalog, name)
    if table is None:
        return Gain(name, "orphan_files", acted=False, reason="it does not exist yet, or holds nothing")
    if table.properties.get(GC_ENABLED, "true").lower() == "false":
        return Gain(
            name, "orphan_files", acted=False, reason=f"{GC_ENABLED} is false: its files may be others' too"
        )
    before = cutoff(table.metadata, limits, datetime.now(UTC))
    found = _listed(lake, name, before)
    pause_point("orphans_listed")
    reason = f"{counted(len(found), 'file')} that no snapshot names, older than {before:%Y-%m-%d %H:%M} UTC"
    neighbour = _neighbour(lake, table) if found else None
    if neighbour:
        reason += f"; nothing is removed, for {neighbour}"
    removes = bool(found) and not (dry_run or neighbour)
    with lease(lake, name) if removes else nullcontext():
        sizes = _each(_delete if removes else _size, table.io, found, inf if dry_run else until)
    if len(sizes) < len(found):
        reason += f"; its time was up after {len(sizes)} of them"
    deleted = sum(size is not None for size in sizes) if removes else 0
    return Gain(
        name,
        "orphan_files",
        acted=deleted > 0,
        reason=reason,
        numbers={
            "orphans": len(found),
            "orphan_bytes": sum(size or 0 for size in sizes),
            "files_deleted": deleted,
            "seconds": time.perf_counter() - began,
        },
        plan={
            "files": sorted(found)[: None if dry_run else SHOWN],
            "older_than": before.isoformat(timespec="seconds"),
        },
    )


def cutoff(metadata: TableMetadata, limits: Orphans, now: datetime) -> datetime:
    """Only files last changed before this may go: older than every attempt that may still be writing."""
    by_id = {
        s.snapshot_id: Snap(s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms) for s in metadata.snapshots
    }
    head, at = metadata.current_snapshot_id, int(now.timestamp() * 1000)
    alive = [
        datetime.fromtimestamp(began_at(ref, by_id, head) / 1000, UTC)
        for ref in refs_of(metadata)
        if is_attempt(ref) and not is_dead(ref, by_id, head, at)
    ]
    return min([now - max(limits.older_than, LEAST + timedelta(minutes=1)), *alive])


def _listed(lake: Lake, name: str, before: datetime) -> list[str]:
    """On a local disk a listing fails when a file goes away under it, as old metadata does at any commit: again.

    Raises:
        Overtaken: it was so each time.
    """
    for _ in range(LOOKS):
        try:
            return _look(lake, name, before)
        except PySparkException as error:
            if VANISHED not in str(error):
                raise
            time.sleep(random.uniform(0, PAUSE))  # noqa: S311 - so that it does not keep step with what commits
    raise Overtaken(name)


def _look(lake: Lake, name: str, before: datetime) -> list[str]:
    rows = (
        lake.spark()
        .sql(
            lake.call(
                "remove_orphan_files",
                name,
                f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}+00:00', "
                "dry_run => true, prefix_listing => true",
            )
        )
        .collect()
    )
    return [row["orphan_file_location"] for row in rows]


def _neighbour(lake: Lake, table: Table) -> str | None:
    """Which other table of the catalog has its files under this one's location, or may have; None: no one.

    Where a table lies is asked once: what is renamed stays where it is. One that cannot be read may lie here if it is
    of the same namespace, or had this one's name before, or this one had its name; else it lies nowhere.
    """
    name, ours = table.name(), table.location()
    near, renamed = lake.catalog.list_tables(name[:-1]), now_named(lake.catalog, ".".join(name))
    far = [
        each
        for space in namespaces(lake.catalog)
        if space != name[:-1]
        for each in listed(lake.catalog.list_tables, space)
    ]
    others = {".".join(each): each for each in (*near, *far) if each != name}
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="orphans") as pool:
        places = list(pool.map(lambda other: _location(lake, other, ".".join(name)), others))
    for (other, parts), place in zip(others.items(), places, strict=True):
        if place and _may_lie_in(place, ours):
            return f"{other} lies in the same folder: move it"
        named = "/".join(("", *parts, ""))
        if place is None and (parts in near or other == renamed or _folder(ours)[1].endswith(named)):
            return f"{other} cannot be read, and may lie in the same folder"
    return None


def _location(lake: Lake, name: str, ours: str) -> str | None:
    """None when it alone cannot be read, twice where it did not answer; empty when there is no such table any more."""
    if name not in lake.locations:
        try:
            found = _loaded(lake, name)
        except Stopped:
            return None
        except Outage:
            time.sleep(PAUSE)
            load(lake.catalog, ours)  # or nothing answers
            try:
                found = _loaded(lake, name)
            except (Stopped, Outage):
                return None
        if found is None:
            return ""
        lake.locations[name] = found.location()
    return lake.locations[name]


def _loaded(lake: Lake, name: str) -> Table | None:
    with translated(name):
        return load(lake.catalog, name)


def _may_lie_in(inner: str, outer: str) -> bool:
    """A location that names no store may be in any."""
    (store, path), (other, folder) = _folder(inner), _folder(outer)
    return path.startswith(folder) and (store == other or not (store and other))


def _folder(location: str) -> tuple[str, str]:
    """Its store and path, alike in all spellings: a bucket's name under any scheme, none of a tree of files."""
    scheme, store, path = URI.findall(location)[0]
    return "" if scheme.lower() in {"", "file", "hdfs"} else store, re.sub("/+", "/", f"/{path}/")


def _each(
    work: Callable[[FileIO, str], int | None], io: FileIO, files: Sequence[str], until: float
) -> list[int | None]:
    """What `work` says of each file that it comes to in time."""

    def in_time(file: str) -> list[int | None]:
        return [] if time.monotonic() > until else [work(io, file)]

    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="orphans") as pool:
        return [size for found in pool.map(in_time, files) for size in found]


def _size(io: FileIO, file: str) -> int | None:
    """None when it has gone by itself."""
    try:
        return len(io.new_input(file))
    except FileNotFoundError:
        return None


def _delete(io: FileIO, file: str) -> int | None:
    """The size that it had; None when it has gone by itself."""
    try:
        size = len(io.new_input(file))
        io.delete(file)
    except FileNotFoundError:
        return None
    return size
