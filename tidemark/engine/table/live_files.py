"""The live files of a table per partition, read from its manifests by PyIceberg: no Spark, no data file is opened."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.columns.partition_filter import PartitionValue, partition_where
from tidemark.domain.maintenance.compaction import Layout, Partition, scattered
from tidemark.engine.access.snapshots import is_compaction

PARALLEL = 8
_STATISTICS = 6
"""Where those of the columns begin in a data file as PyIceberg reads it."""
_DELETED_PATH = 2147483546
"""The field id of `file_path` in a position delete file."""

Key = tuple[int, tuple[Any, ...]]


@dataclass(slots=True)
class _Gathered:
    sizes: list[int] = field(default_factory=list)
    rows: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    scoped: bool = True
    written_at: int | None = None


class _Slim(DataFile):
    """A data file without the statistics of its columns, which are read and dropped."""

    def __setitem__(self, pos: int, value: Any) -> None:
        if pos < _STATISTICS:
            super().__setitem__(pos, value)


def read_layout(table: Table) -> Layout:
    """Every live file of main's head, by partition."""
    metadata = table.metadata
    head = metadata.current_snapshot()
    if head is None:
        return Layout(snapshots=len(metadata.snapshots))
    manifests = sorted(head.manifests(table.io), key=lambda each: each.content)  # data before deletes
    deletes = any(each.content != ManifestContent.DATA for each in manifests)
    written = _write_times(metadata)
    gathered: dict[Key, _Gathered] = defaultdict(_Gathered)
    dangling, live = list[int](), set[str]()
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="manifests") as pool:
        for manifest, entries in pool.map(lambda each: (each, _live_entries(each, table.io)), manifests):
            for entry in entries:
                file = entry.data_file
                only = None if manifest.content == ManifestContent.DATA else _only_file(file)
                if only is not None and only not in live:
                    dangling.append(file.record_count)
                    continue
                if deletes and manifest.content == ManifestContent.DATA:
                    live.add(file.file_path)
                values: Any = file.partition
                _gather(gathered[manifest.partition_spec_id, tuple(values)], manifest, entry, written)
    catalog = table.catalog.name
    return Layout(
        partitions=tuple(_partition(metadata, catalog, key, found) for key, found in gathered.items()),
        manifests=len(manifests),
        manifest_bytes=sum(each.manifest_length for each in manifests),
        scattered=_scattered(metadata, manifests),
        snapshots=len(metadata.snapshots),
        dangling=tuple(dangling),
    )


def _scattered(metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> tuple[int, ...]:
    """Without specs of a column that is gone: Iceberg rewrites none of these."""
    specs, schema = metadata.specs(), metadata.schema()
    sizes = defaultdict[tuple[int, int], list[int]](list)
    for each in manifests:
        if all(schema.find_column_name(part.source_id) for part in specs[each.partition_spec_id].fields):
            sizes[each.partition_spec_id, each.content].append(each.manifest_length)
    return scattered(sizes)


def _live_entries(manifest: ManifestFile, io: FileIO) -> Sequence[ManifestEntry]:
    """Those of data files without statistics, which for a hundred columns take 25 KB of memory a file."""
    if manifest.content != ManifestContent.DATA:
        return manifest.fetch_manifest_entry(io)
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION],
        read_types={-1: ManifestEntry, 2: _Slim},
        read_enums={0: ManifestEntryStatus},
    ) as entries:
        return [each for each in entries if each.status != ManifestEntryStatus.DELETED]


def _write_times(metadata: TableMetadata) -> dict[int, int]:
    """When each snapshot that brought rows was made; a rewrite brings none."""
    return {each.snapshot_id: each.timestamp_ms for each in metadata.snapshots if not is_compaction(each)}


def _gather(found: _Gathered, manifest: ManifestFile, entry: ManifestEntry, written: dict[int, int]) -> None:
    file = entry.data_file
    at = written.get(entry.snapshot_id or manifest.added_snapshot_id or 0)
    if at is not None:
        found.written_at = max(at, found.written_at or 0)
    if manifest.content == ManifestContent.DATA:
        found.sizes.append(file.file_size_in_bytes)
        found.rows += file.record_count
        return
    found.delete_files += 1
    found.deleted_rows += file.record_count
    found.scoped &= _only_file(file) is not None or str(file.file_path).endswith(".puffin")


def _only_file(file: DataFile) -> str | None:
    """The data file that all its positions are of; None of many, and of a deletion vector, which goes with its file."""
    low, high = ((bounds or {}).get(_DELETED_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    positions = file.content == DataFileContent.POSITION_DELETES and low is not None and low == high
    return low.decode() if positions and low else None


def _partition(metadata: TableMetadata, catalog: str, key: Key, found: _Gathered) -> Partition:
    values = _values(metadata, key)
    return Partition(
        name="/".join(f"{name}={each.value}" for name, each in values) or "(table)",
        where=partition_where([each for _, each in values], catalog) or None,
        sizes=tuple(found.sizes),
        rows=found.rows,
        delete_files=found.delete_files,
        deleted_rows=found.deleted_rows,
        scoped=found.scoped,
        written_at=datetime.fromtimestamp(found.written_at / 1000, UTC) if found.written_at else None,
    )


def _values(metadata: TableMetadata, key: Key) -> list[tuple[str, PartitionValue]]:
    spec = metadata.specs()[key[0]]
    schema = metadata.schema()
    found = []
    for part, value in zip(spec.fields, key[1], strict=True):
        path = schema.find_column_name(part.source_id)
        kind = str(schema.find_type(part.source_id)) if path else "dropped"
        names = _names(schema, part.source_id) if path else ()
        found.append((part.name, PartitionValue(names, kind, str(part.transform), value)))
    return found


def _names(schema: Any, field_id: int) -> tuple[str, ...]:
    """The column's names from the outside in; one of them may hold a dot."""
    names = [schema.find_field(field_id).name]
    parents = schema._lazy_id_to_parent  # noqa: SLF001 - the public interface gives dotted names only
    while (parent := parents.get(field_id)) is not None:
        field_id = parent
        names.insert(0, schema.find_field(field_id).name)
    return tuple(names)
