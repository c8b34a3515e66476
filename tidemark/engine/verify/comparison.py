"""What a comparison of two tables is asked for, and what it finds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.engine.verify.differences import Differences
from tidemark.engine.verify.fingerprint import shown


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is compared, and how: `by` a time goes by day; without `keys` rows are told apart by their values.

    Only rows with `since` <= `by` < `until`, where these are given. `ignore`: columns that are left out.
    """

    keys: Sequence[str] = ()
    by: str = ""
    since: datetime | None = None
    until: datetime | None = None
    ignore: frozenset[str] = frozenset()
    sample: int = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """A table, or a group of its rows. `keys` are counted without repetition."""

    rows: int = 0
    keys: int = 0
    checksum: str = shown(0)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"rows": self.rows, "keys": self.keys, "checksum": self.checksum}


NONE = Figures()


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two, at the snapshot that was read."""

    table: str
    snapshot_id: int | None
    committed_at: datetime | None
    newest: str | None
    whole: Figures
    groups: Mapping[str | None, Figures]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, without the groups."""
        at = self.committed_at.isoformat() if self.committed_at else None
        known = {"table": self.table, "snapshot_id": self.snapshot_id, "committed_at": at}
        return {**known, "newest": self.newest, **self.whole.as_json()}


@dataclass(frozen=True, slots=True)
class Columns:
    """Top-level columns: compared ones, and those that cannot be."""

    compared: tuple[str, ...]
    only_in_table: tuple[str, ...]
    only_in_other: tuple[str, ...]
    types_differ: Mapping[str, tuple[str, str]]

    @property
    def same(self) -> bool:
        """Both tables have the same columns of the same types."""
        return not (self.only_in_table or self.only_in_other or self.types_differ)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "compared": list(self.compared),
            "only_in_table": list(self.only_in_table),
            "only_in_other": list(self.only_in_other),
            "types_differ": {name: list(kinds) for name, kinds in self.types_differ.items()},
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found; `groups` are those of either side, in order."""

    table: Side
    other: Side
    keys: tuple[str, ...]
    by: str
    columns: Columns
    closer: Differences

    @property
    def groups(self) -> list[tuple[str | None, Figures, Figures]]:
        """(group, figures of the table, figures of the other)."""
        every = sorted({*self.table.groups, *self.other.groups}, key=lambda g: (g is not None, g or ""))
        return [(g, self.table.groups.get(g, NONE), self.other.groups.get(g, NONE)) for g in every]

    @property
    def equal(self) -> bool:
        """Nothing differs."""
        return self.columns.same and all(one == other for _, one, other in self.groups)

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `compare --json`."""
        return {
            "equal": self.equal,
            "table": self.table.as_json(),
            "other": self.other.as_json(),
            "keys": list(self.keys),
            "by": self.by or None,
            "columns": self.columns.as_json(),
            "groups": [
                {"group": g, "equal": one == other, "table": one.as_json(), "other": other.as_json()}
                for g, one, other in self.groups
            ],
            "differences": self.closer.as_json(),
        }
