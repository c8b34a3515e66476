"""Table metadata that this process has read or written itself, by the file that holds it: no such file ever changes.

PyIceberg parses the file at each look at a table, several times in every batch, and more snapshots take longer. The
catalog is still asked each time which file is current. A known file is not parsed again, nor are known snapshots in a
newer one; and a commit neither copies nor serializes earlier snapshots again.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, TypeVar, cast

from pydantic_core import from_json
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.serializers import Compressor, FromInputFile, ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataCommonFields, TableMetadataUtil
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import UTF8, IcebergBaseModel

from tidemark.engine.access.snapshots import ledger_size

Entry = TypeVar("Entry", SnapshotLogEntry, MetadataLogEntry)

ROOM = 20_000
"""Snapshots of all tables together that are kept parsed, some 4 KiB each; the newest file of a table alone.

A table whose ledgers fill `LEDGER_ROOM` counts for a quarter or so."""
_LONG = 4_096
"""Letters of a ledger, which every second snapshot has, parsed and as JSON, for which each counts once more."""
_NEWEST = 10
"""Snapshots among which one has a ledger, which is as long as earlier ones."""
_LEAST = 10
"""What a table counts for besides its snapshots."""


class MetadataFiles:
    """The last read or written metadata of each table, the least recently used first."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._taken = 0
        self._by_folder: OrderedDict[str, tuple[str, TableMetadata]] = OrderedDict()
        self._texts: dict[str, dict[int, tuple[Snapshot, str]]] = {}
        self._lock = Lock()

    def find(self, location: str) -> TableMetadata | None:
        """What the file holds, if it is the newest one known of its table. Must not be changed."""
        with self._lock:
            folder = _folder(location)
            known, metadata = self._by_folder.get(folder, ("", None))
            if known != location:
                return None
            self._by_folder.move_to_end(folder)
            return metadata

    def snapshots(self, location: str) -> dict[int, Snapshot]:
        """Those of the newest file known of the same table, by id: no snapshot ever changes."""
        with self._lock:
            _, metadata = self._by_folder.get(_folder(location), ("", None))
            return {each.snapshot_id: each for each in metadata.snapshots} if metadata else {}

    def keep(self, location: str, metadata: TableMetadata) -> TableMetadata:
        """Take note of what a file holds; returns it."""
        with self._lock:
            self._drop(_folder(location))
            self._by_folder[_folder(location)] = (location, metadata)
            self._taken += _size(metadata)
            while self._taken > self._room and len(self._by_folder) > 1:
                oldest = next(iter(self._by_folder))
                self._drop(oldest)
                self._texts.pop(oldest, None)
        return metadata

    def texts(self, location: str, snapshots: Sequence[Snapshot]) -> list[str]:
        """The JSON of these snapshots of a table, one of whose files is at `location`."""
        folder = _folder(location)
        known, found = self._texts.get(folder, {}), {}
        for each in snapshots:
            its, text = known.get(each.snapshot_id, (None, ""))
            found[each.snapshot_id] = (each, text if its is each else each.model_dump_json())
        with self._lock:
            if folder in self._by_folder:
                self._texts[folder] = found
        return [text for _, text in found.values()]

    def _drop(self, folder: str) -> None:
        _, metadata = self._by_folder.pop(folder, ("", None))
        if metadata is not None:
            self._taken -= _size(metadata)


def _folder(location: str) -> str:
    return location.rpartition("/")[0]


def _size(metadata: TableMetadata) -> int:
    longest = max(map(ledger_size, metadata.snapshots[-_NEWEST:]), default=0)
    return _LEAST + len(metadata.snapshots) * (1 + longest // _LONG)


_FILES = MetadataFiles()
_parsed, _written = FromInputFile.table_metadata, ToOutputFile.table_metadata


def _read(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    location = input_file.location
    found = _FILES.find(location)
    if found is not None:
        return found
    known = _FILES.snapshots(location)
    return _FILES.keep(location, _parsed_on(input_file, known) if known else _parsed(input_file, encoding))


def _parsed_on(input_file: InputFile, known: Mapping[int, Snapshot]) -> TableMetadata:
    """The same, where only what is not `known` is parsed."""
    plain = Compressor.get_compressor(location=input_file.location).stream_decompressor
    with input_file.open() as stream, plain(stream) as content:
        found = from_json(content.read())
    found["snapshots"] = [known.get(each["snapshot-id"], each) for each in found.get("snapshots") or ()]
    return TableMetadataUtil.parse_obj(found)


class _Spliced:
    """Metadata whose snapshots are dumped once: what PyIceberg asks of it in order to write it to `location`."""

    def __init__(self, metadata: TableMetadata, location: str) -> None:
        self._metadata = metadata
        self._location = location

    def model_dump_json(self, *, exclude_none: bool) -> str:
        if not exclude_none:  # as PyIceberg's `legacy-current-snapshot-id` wants it
            return self._metadata.model_dump_json(exclude_none=False)
        rest = self._metadata.model_dump_json(exclude={"snapshots"})
        snapshots = ",".join(_FILES.texts(self._location, self._metadata.snapshots))
        return f'{rest.removesuffix("}")},"snapshots":[{snapshots}]}}'


def _write(metadata: TableMetadata, output_file: OutputFile, overwrite: bool = False) -> None:  # noqa: FBT001, FBT002 - as PyIceberg has it
    spliced = _Spliced(_in_order(metadata), output_file.location)
    _written(cast("TableMetadata", spliced), output_file, overwrite)


def _in_order(metadata: TableMetadata) -> TableMetadata:
    """The same with logs that Java reads: of none does it bear that it goes back, or ends after the last update.

    PyIceberg writes what the clock says, which may have been set back, or be another host's: ours holds, now.
    """
    now = metadata.last_updated_ms
    snapshots, files = _until(metadata.snapshot_log, now), _until(metadata.metadata_log, now)
    return metadata.model_copy(update={"snapshot_log": snapshots, "metadata_log": files})


def _until(log: Sequence[Entry], now: int) -> list[Entry]:
    times = accumulate((min(each.timestamp_ms, now) for each in log), max)
    return [
        each if each.timestamp_ms == at else each.model_copy(update={"timestamp_ms": at})
        for each, at in zip(log, times, strict=True)
    ]


def _newest_first(self: TableMetadataCommonFields, snapshot_id: int) -> Snapshot | None:
    return next((each for each in reversed(self.snapshots) if each.snapshot_id == snapshot_id), None)


def _itself(self: IcebergBaseModel, _: dict[int, Any] | None = None) -> IcebergBaseModel:
    return self


def spare_parsing() -> None:
    """From now on every catalog of this process reads and writes metadata files through this module.

    A snapshot that is asked for is mostly one of the newest, which are the last: PyIceberg looks from the first one on.
    """
    FromInputFile.table_metadata = staticmethod(_read)  # type: ignore[method-assign]
    ToOutputFile.table_metadata = staticmethod(_write)  # type: ignore[method-assign]
    TableMetadataCommonFields.snapshot_by_id = _newest_first  # type: ignore[method-assign]
    for part in (Snapshot, SnapshotLogEntry, MetadataLogEntry):
        part.__deepcopy__ = _itself  # type: ignore[method-assign, assignment]  # frozen: nobody changes earlier ones


def commit(
    table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
) -> None:
    """One catalog commit of these very updates: PyIceberg's own transactions cannot assert the head of main."""
    table._do_commit(requirements=requirements, updates=updates)  # noqa: SLF001 - there is no public way
    if table.metadata_location:
        _FILES.keep(table.metadata_location, table.metadata)
