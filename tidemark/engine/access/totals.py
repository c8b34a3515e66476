"""What the live files of a snapshot come to: as its summary says, or its manifests where that leaves it out."""

from collections import Counter
from dataclasses import dataclass

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidemark.engine.access.snapshots import summary_of

_SAID = {
    "data_files": "total-data-files",
    "delete_files": "total-delete-files",
    "rows": "total-records",
    "delete_rows": "total-position-deletes",
}


@dataclass(frozen=True, slots=True)
class Totals:
    """`rows` are those of data files, `delete_rows` those that position deletes and deletion vectors mark."""

    data_files: int = 0
    delete_files: int = 0
    rows: int = 0
    delete_rows: int = 0

    @property
    def live_rows(self) -> int:
        """Rows that a scan finds."""
        return max(0, self.rows - self.delete_rows)


def totals_said(snapshot: Snapshot) -> Totals | None:
    """As its summary has them; None where one is left out: Iceberg's spec asks for none, and some writers say none."""
    summary = summary_of(snapshot)
    if not summary.keys() >= set(_SAID.values()):
        return None
    return Totals(**{name: int(summary[key]) for name, key in _SAID.items()})


def totals_of(table: Table, snapshot: Snapshot | None) -> Totals:
    """As its summary has them, else counted in its manifest list; of manifests only those of deletes are read."""
    if snapshot is None:
        return Totals()
    return totals_said(snapshot) or _counted(table, snapshot)


def totals_unsaid(table: Table, snapshot: Snapshot | None) -> dict[str, str]:
    """What the summary of an empty child must say itself: writers add to what the parent says, if it says that."""
    if snapshot is None or totals_said(snapshot):
        return {}
    summary, totals = summary_of(snapshot), _counted(table, snapshot)
    return {key: str(getattr(totals, name)) for name, key in _SAID.items() if key not in summary}


def _counted(table: Table, snapshot: Snapshot) -> Totals:
    files, rows = Counter[DataFileContent](), Counter[DataFileContent]()
    for manifest in snapshot.manifests(table.io):
        counts = (
            manifest.added_files_count,
            manifest.existing_files_count,
            manifest.added_rows_count,
            manifest.existing_rows_count,
        )
        if manifest.content == ManifestContent.DATA and None not in counts:
            files[DataFileContent.DATA] += sum(each or 0 for each in counts[:2])
            rows[DataFileContent.DATA] += sum(each or 0 for each in counts[2:])
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            files[entry.data_file.content] += 1
            rows[entry.data_file.content] += entry.data_file.record_count
    data = files.pop(DataFileContent.DATA, 0)
    return Totals(data, files.total(), rows[DataFileContent.DATA], rows[DataFileContent.POSITION_DELETES])
