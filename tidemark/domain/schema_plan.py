"""The plan of a schema change: what a table must become for its writers, and what the contract says of each change.

A pure function of the table's columns, the registered writers and the contract. Applying a plan and planning again
gives a plan without changes; nothing is ever dropped from a table.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tidemark.domain.contract import OnChange, SchemaChanges
from tidemark.domain.coverage import Difference, covers
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.evolution import extended
from tidemark.domain.types import ColumnType, Field, ListType, MapType, Struct

Kind = Literal["add_column", "widen_type", "remove_column", "incompatible"]
Verdict = Literal["apply", "review", "quarantine", "impossible"]
_KINDS: Mapping[str, Kind] = {
    "missing": "add_column",
    "narrower": "widen_type",
    "incompatible": "incompatible",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change at `path` (parts as Iceberg names them), why it is there, and what happens to it."""

    kind: Kind
    path: tuple[str, ...]
    old: ColumnType | None
    new: ColumnType | None
    verdict: Verdict
    reason: str
    schema_id: int
    doc: str = ""

    def as_json(self) -> dict[str, Any]:
        """The shape of `plan --json`."""
        return {
            "kind": self.kind,
            "path": ".".join(self.path),
            "from": str(self.old) if self.old else None,
            "to": str(self.new) if self.new else None,
            "verdict": self.verdict,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """All changes of a table; `id` names exactly this set, so an approval can not reach another one."""

    table: str
    changes: tuple[Change, ...]

    @property
    def id(self) -> str:
        """12 hex digits of what is changed; empty for a plan without changes."""
        if not self.changes:
            return ""
        content = [[c.kind, c.path, str(c.old), str(c.new)] for c in self.changes]
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

    Id 0 stands for the columns that the contract itself declares.
    """

    id: int
    version: int
    columns: Struct
    fault: str = ""

    @property
    def named(self) -> str:
        """Who it is, in words."""
        return f"schema id {self.id} (version {self.version})" if self.id else "declared in the contract"


def plan_schema(
    table: str,
    columns: Struct,
    writers: Iterable[WriterColumns],
    policy: SchemaChanges,
    *,
    removed: frozenset[str] = frozenset(),
    settled: frozenset[int] = frozenset(),
) -> SchemaPlan:
    """What `columns` lack for `writers`; `removed` paths and `settled` schema ids have been dealt with before."""
    ordered = sorted((w for w in writers if w.id not in settled), key=lambda w: w.version)
    apart: list[Change] = []
    grown = columns
    for writer in ordered:
        if writer.fault:
            apart.append(_impossible(writer, writer.fault))
            continue
        try:
            clashes = [d for d in covers(grown, writer.columns) if d.kind == "incompatible"]
        except SchemaUnsupported as error:
            apart.append(_impossible(writer, str(error)))
            continue
        apart += [_change(clash, writer, policy) for clash in clashes]
        grown = extended(grown, writer.columns)
    growth = [_change(d, _first_to_need(d, columns, ordered), policy) for d in covers(columns, grown)]
    return SchemaPlan(table, (*growth, *apart, *_removals(columns, ordered, policy, removed)))


def applied(columns: Struct, changes: Iterable[Change]) -> Struct:
    """`columns` with the additions and widenings among `changes`; what `engine.evolve` makes of the table."""
    for change in changes:
        if change.new is not None and change.kind in {"add_column", "widen_type"}:
            columns = _put(columns, change.path, change)
    return columns


def _change(difference: Difference, writer: WriterColumns, policy: SchemaChanges) -> Change:
    kind = _KINDS[difference.kind]
    verdict: OnChange = getattr(policy, kind)
    return Change(
        kind=kind,
        path=difference.path,
        old=difference.found,
        new=difference.wanted,
        verdict=verdict,
        reason=f"{writer.named}; the contract says {kind}: {verdict}",
        schema_id=writer.id,
        doc=difference.doc,
    )


def _first_to_need(
    difference: Difference, columns: Struct, writers: Iterable[WriterColumns]
) -> WriterColumns:
    """The oldest writer that asks for something at this path."""
    for writer in writers:
        if not writer.fault and any(d.path == difference.path for d in _differences(columns, writer.columns)):
            return writer
    raise ValueError(f"no writer needs {difference.dotted}")


def _differences(columns: Struct, wanted: Struct) -> tuple[Difference, ...]:
    try:
        return covers(columns, wanted)
    except SchemaUnsupported:
        return ()


def _impossible(writer: WriterColumns, why: str) -> Change:
    return Change("incompatible", ("*",), None, None, "impossible", why, writer.id)


def _removals(
    columns: Struct, writers: list[WriterColumns], policy: SchemaChanges, removed: frozenset[str]
) -> list[Change]:
    """Columns that the newest writer no longer sends. They stay and read NULL; the contract may want to know."""
    known = [w for w in writers if not w.fault]
    if not known or policy.remove_column == "apply":
        return []
    newest = known[-1]
    gone = [d for d in covers(newest.columns, columns) if d.kind == "missing" and d.dotted not in removed]
    reason = f"{newest.named}: no longer there; the column stays and reads NULL"
    return [
        Change("remove_column", d.path, d.wanted, None, policy.remove_column, reason, newest.id) for d in gone
    ]


def _put(kind: ColumnType, path: tuple[str, ...], change: Change) -> Any:
    """`kind` with `change.new` at `path`."""
    if not path:
        return change.new
    head, rest = path[0], path[1:]
    match kind:
        case Struct(fields) if kind.field(head) is None and change.new is not None:
            return Struct((*fields, Field(head, change.new, change.doc)))
        case Struct(fields):
            return Struct(
                tuple(
                    Field(f.name, _put(f.type, rest, change), f.doc, f.required) if f.name == head else f
                    for f in fields
                )
            )
        case ListType(element):
            return ListType(_put(element, rest, change))
        case MapType(key, value):
            return MapType(key, _put(value, rest, change))
    return kind
