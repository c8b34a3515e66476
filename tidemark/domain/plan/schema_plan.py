"""The plan of a schema change: what a table must become for its writers, and what the contract says of each change.

A pure function of the table's columns, the registered writers and the contract. Applying a plan and planning again
gives a plan without changes; nothing is ever dropped from a table.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from tidemark.domain.columns.coverage import Difference, covers
from tidemark.domain.columns.evolution import extended
from tidemark.domain.columns.names import all_names
from tidemark.domain.columns.shape import Shape
from tidemark.domain.columns.types import ColumnType, Primitive, Struct
from tidemark.domain.config.contract import SchemaChanges
from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.json_columns import EXTRA_DOC
from tidemark.domain.secrets import redact

Kind = Literal[
    "add_column",
    "widen_type",
    "make_optional",
    "remove_column",
    "incompatible",
    "partition_spec",
    "sort_order",
    "format_version",
    "property",
    "comment",
    "contract",
    "create_table",
    "layout",
    "adopt",
    "rename",
    "release",
]
Verdict = Literal["apply", "review", "quarantine", "impossible"]
_ANY_SHAPE = Shape()
_NONE: Mapping[str, int] = {}
_KEEPS = "a column keeps its type, and no approval helps: declare the one that it has, or name another table"
_ANEW = "a column keeps its type, and no approval helps: name another `upsert.table`"
_NO_FIELDS = "a record without fields is a boolean, so one with fields needs another table"
_KINDS: Mapping[str, Kind] = {
    "missing": "add_column",
    "narrower": "widen_type",
    "incompatible": "incompatible",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change at `path` (parts as Iceberg names them), why it is there, and what happens to it.

    Changes of columns lead from a type to a type, changes of everything else from a text to a text. `upto` is the
    newest schema id that lacks a removed column.
    """

    kind: Kind
    path: tuple[str, ...]
    old: ColumnType | str | None
    new: ColumnType | str | None
    verdict: Verdict
    reason: str
    schema_id: int = 0
    doc: str = ""
    meaning: str | None = ""
    upto: int = 0

    @property
    def column(self) -> ColumnType | None:
        """The type that a column gets; None for changes that are not about the type of a column."""
        return None if isinstance(self.new, str) else self.new

    def as_json(self) -> dict[str, Any]:
        """The shape of `plan --json`; a table property whose name says that it is secret is not shown."""
        old, new = (None if each is None else str(each) for each in (self.old, self.new))
        if self.kind == "property":
            old, new = redact(old, self.path[0]), redact(new, self.path[0])
        return {
            "kind": self.kind,
            "path": ".".join(self.path),
            "from": old,
            "to": new,
            "verdict": self.verdict,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """All changes of a table; `id` names exactly what needs a decision, so an approval can not reach another plan."""

    table: str
    changes: tuple[Change, ...]

    @property
    def id(self) -> str:
        """12 hex digits of what waits for a decision, or else of all that is changed; empty without changes.

        What is applied anyway does not count beside a decision: the id that someone was shown stays the same while
        runs apply the rest. A column that is dropped, comes back and is dropped again is another plan.
        """
        if not self.changes:
            return ""
        decided = self.of("review") or self.changes
        content = [
            [c.kind, c.path, str(c.old), str(c.new), *([c.schema_id] if c.kind == "remove_column" else [])]
            for c in decided
        ]
        return hashlib.sha256(json.dumps([self.table, content]).encode()).hexdigest()[:12]

    @property
    def verdict(self) -> Literal["nothing", "apply", "review", "impossible"]:
        """The gravest verdict of the changes."""
        found = {change.verdict for change in self.changes}
        if "impossible" in found:
            return "impossible"
        if "review" in found:
            return "review"
        return "apply" if found else "nothing"

    def of(self, *verdicts: Verdict) -> tuple[Change, ...]:
        """The changes with one of these verdicts."""
        return tuple(change for change in self.changes if change.verdict in verdicts)


@dataclass(frozen=True, slots=True)
class WriterColumns:
    """One registered writer as the planner needs it; `fault` says why it has no columns.

    Id 0 stands for the columns that the contract itself declares, or for those of `table`, which is followed.
    Every value is read with those, and with a schema that is `alone`, whoever wrote it. `deleted`: in the registry.
    `sent`: the columns that it fills, where these are not all.
    """

    id: int
    version: int
    columns: Struct
    fault: str = ""
    table: str = ""
    alone: bool = False
    deleted: bool = False
    sent: Struct | None = None

    @property
    def age(self) -> tuple[bool, int]:
        """Sorts by version; what the registry has deleted is older than all that it lists."""
        return (not self.deleted, self.version)

    @property
    def reads_all(self) -> bool:
        """What it lacks, no further row has."""
        return self.alone or not self.id

    @property
    def named(self) -> str:
        """Who it is, in words."""
        if self.table:
            return f"follows {self.table}"
        return f"schema id {self.id} (version {self.version})" if self.id else "declared in the contract"


def plan_schema(
    table: str,
    columns: Struct,
    writers: Iterable[WriterColumns],
    policy: SchemaChanges,
    *,
    removed: Mapping[str, int] = _NONE,
    settled: frozenset[int] = frozenset(),
    shape: Shape = _ANY_SHAPE,
    upsert: UpsertTable | None = None,
) -> SchemaPlan:
    """What `columns` lack for `writers`, without those that clash: no record of theirs comes in, nor do their columns.

    `settled` schema ids have been dealt with before, and so have `removed` paths, up to a version. A writer that drops
    a column which the partition spec of `shape` needs is refused, and so is one that adds a column of the name that a
    partition field has, or a field inside a list or map.
    Whoever drops a key or an order column of the `upsert` table waits for a person.
    """
    fits = _fitting(columns, (w for w in writers if w.id not in settled), policy, shape.partition_names)
    needed = (d for d in covers(columns, fits.columns) if d.kind != "incompatible")
    growth = [_change(d, _first_to_need(d, columns, fits.sound), policy) for d in needed]
    gone = unapproved(_removals(fits, columns, policy), removed, shape.partition_sources)
    judged = judged_removals(gone, policy, shape.partition_sources, upsert)
    return SchemaPlan(table, (*growth, *fits.apart, *judged))


@dataclass(frozen=True, slots=True)
class _Fitting:
    """The writers that do not clash, oldest first, what sets the others apart, and `columns` that hold the former.

    Who comes first decides what a column is: a deleted version comes last, and clashes rather than a living one.
    """

    sound: tuple[WriterColumns, ...]
    apart: tuple[Change, ...]
    columns: Struct


def _fitting(
    columns: Struct, writers: Iterable[WriterColumns], policy: SchemaChanges, taken: Collection[str]
) -> _Fitting:
    apart: list[Change] = []
    sound: list[WriterColumns] = []
    grown = columns
    for writer in sorted(writers, key=lambda w: (w.deleted, w.version)):
        if writer.fault:
            apart.append(_without_columns(writer, writer.fault, policy))
            continue
        try:
            more = extended(grown, writer.columns)
            lacking = (*covers(columns, more), *covers(more, writer.columns))
            _check_names(lacking, columns, taken)
        except SchemaUnsupported as error:
            apart.append(_without_columns(writer, str(error), policy))
            continue
        clashes = [d for d in lacking if d.kind == "incompatible"]
        apart += [_change(each, writer, policy) for each in _told(clashes, columns, writer, policy)]
        if not (clashes and writer.id):  # what the contract itself declares stays wanted
            sound.append(writer)
            grown = more
    return _Fitting(tuple(sound), tuple(apart), grown)


def _told(
    clashes: Collection[Difference], columns: Struct, writer: WriterColumns, policy: SchemaChanges
) -> tuple[Difference, ...]:
    """The clashes, or in place of one what the writer asks of the table itself there, if that goes to quarantine.

    It clashes with what another writer asks then, which the table will not get either.
    """
    asked = _differences(columns, writer.columns) if clashes else ()
    wanted = [
        d for d in asked if d.kind != "incompatible" and getattr(policy, _KINDS[d.kind]) == "quarantine"
    ]
    found = (next((d for d in wanted if d.path == c.path[: len(d.path)]), c) for c in clashes)
    return tuple(dict.fromkeys(found))


def _check_names(lacking: Iterable[Difference], columns: Struct, taken: Collection[str]) -> None:
    """Raises SchemaUnsupported."""
    missing = [each.dotted for each in lacking if each.kind == "missing"]
    there = all_names(columns) if missing else ()
    for name in missing:
        if name in taken or name in there:
            who = "a partition field" if name in taken else "a field inside a list or map"
            raise SchemaUnsupported(
                name,
                f"{who} of the table has the name, and Iceberg lets no column have it beside that: give it another "
                "name, or name another table",
            )


def _change(difference: Difference, writer: WriterColumns, policy: SchemaChanges) -> Change:
    kind = _KINDS[difference.kind]
    verdict: Verdict = getattr(policy, kind)
    old, new = difference.ends
    other = ": its values mean something else than those that are there" if difference.meanings else ""
    reason = f"{writer.named}{other}" + ("" if writer.table else f"; the contract says {kind}: {verdict}")
    if Primitive("boolean") in (old, new) and any(isinstance(each, Struct) for each in (old, new)):
        reason = f"{reason}; {_NO_FIELDS}"
    if kind == "incompatible" and not writer.id:
        verdict, reason = "impossible", f"{writer.named}{other}; {_ANEW if writer.table else _KEEPS}"
    means = difference.meaning
    return Change(kind, difference.path, old, new, verdict, reason, writer.id, difference.doc, means)


def _first_to_need(
    difference: Difference, columns: Struct, writers: Iterable[WriterColumns]
) -> WriterColumns:
    """The oldest writer that asks for this at this path; one whose type does not fit there asks for nothing."""
    wanted = difference.path, difference.kind
    for writer in writers:
        found = () if writer.fault else _differences(columns, writer.columns)
        if any((d.path, d.kind) == wanted for d in found):
            return writer
    raise ValueError(f"no writer needs {difference.dotted}")


def _differences(columns: Struct, wanted: Struct) -> tuple[Difference, ...]:
    try:
        return covers(columns, wanted)
    except SchemaUnsupported:
        return ()


def _without_columns(writer: WriterColumns, why: str, policy: SchemaChanges) -> Change:
    """No approval can let such a writer in; the contract may send its records aside."""
    if writer.id and policy.incompatible == "quarantine":
        why = f"{why}; the contract says incompatible: quarantine"
        return Change("incompatible", ("*",), None, None, "quarantine", why, writer.id)
    return Change("incompatible", ("*",), None, None, "impossible", why, writer.id)


@dataclass(frozen=True, slots=True)
class Removal:
    """A writer no longer sends what earlier versions of its subject did; `since` is the first version in a row."""

    writer: WriterColumns
    path: tuple[str, ...]
    type: ColumnType
    since: int


@lru_cache(maxsize=256)
def removals(
    columns: Struct, writers: tuple[WriterColumns, ...], policy: SchemaChanges, taken: frozenset[str]
) -> tuple[Removal, ...]:
    """What each writer lacks of all versions before it, as `plan_schema` sees it. Asked before every batch.

    `taken` are the names of partition fields. A version that clashes removes nothing, and brought nothing.
    """
    return _removals(_fitting(columns, writers, policy, taken), columns, policy)


def _removals(fits: _Fitting, columns: Struct, policy: SchemaChanges) -> tuple[Removal, ...]:
    """Oldest writer first, of columns that the table has or is to get.

    An old writer that never knew a column removes nothing. Where one reads all values, what was there before is the
    table.
    """
    found: list[Removal] = []
    before: Struct | None = None
    since: dict[tuple[str, ...], int] = {}
    there = all_names(columns if policy.add_column == "quarantine" else fits.columns)
    for writer in sorted(fits.sound, key=lambda w: w.version):
        known, sent = columns if writer.reads_all else before, writer.sent or writer.columns
        if known is not None:
            missing = (d for d in _differences(sent, known) if d.kind == "missing")
            theirs = [d for d in missing if d.doc != EXTRA_DOC]  # an object that was closed has lost no field
            since = {d.path: _since(since, d.path, writer.version) for d in theirs}
            found += [Removal(writer, d.path, d.wanted, since[d.path]) for d in theirs if d.dotted in there]
        before = extended(before, sent) if before else sent
    return tuple(found)


def _since(before: Mapping[tuple[str, ...], int], path: tuple[str, ...], version: int) -> int:
    return next((first for gone, first in before.items() if path[: len(gone)] == gone), version)


def unapproved(
    found: Iterable[Removal], removed: Mapping[str, int], pinned: Collection[tuple[str, ...]]
) -> list[Removal]:
    """Those that no approval was about. One of a column that has come back since says nothing of the next removal.

    What the partition spec needs (`pinned`), none lets go.
    """
    return [r for r in found if _holds(r.path, pinned) or r.since > removed.get(".".join(r.path), 0)]


def judged_removals(
    found: Collection[Removal],
    policy: SchemaChanges,
    pinned: Collection[tuple[str, ...]],
    upsert: UpsertTable | None,
) -> list[Change]:
    """One change per column that is gone: it stays and reads NULL, and the contract may want to know."""
    newest = {each.path: each.writer.id for each in found}
    keys, order = (upsert.keys, upsert.order) if upsert else ((), ())
    changes: dict[tuple[str, ...], Change] = {}
    for each in found:
        says = f"{each.writer.named}: no longer there"
        if _holds(each.path, pinned):
            verdict: Verdict = "impossible"
            reason = f"{says}, but partition_by needs it: further rows would all fall into the NULL partition"
        elif policy.remove_column == "apply" and _holds(each.path, keys):
            verdict = "review"
            reason = f"{says}, but upsert.keys needs it: rows without it would have no key, or all the same"
        elif policy.remove_column == "apply" and _holds(each.path, order):
            verdict = "review"
            reason = f"{says}, but upsert.order_by needs it: rows without it would lose to every older one that has it"
        elif policy.remove_column == "apply":
            continue
        else:
            verdict = "review" if each.writer.reads_all else policy.remove_column
            reason = f"{says}; the column stays and reads NULL; the contract says remove_column: {policy.remove_column}"
            if verdict != policy.remove_column:
                reason = f"{reason}, and no schema tells records that go there: a person decides"
        known = Change("remove_column", each.path, each.type, None, verdict, reason, each.writer.id)
        changes.setdefault(each.path, replace(known, upto=newest[each.path]))
    return list(changes.values())


def _holds(path: tuple[str, ...], columns: Iterable[tuple[str, ...]]) -> bool:
    return any(each[: len(path)] == path for each in columns)
