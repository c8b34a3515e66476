"""A table as the changes of a plan make it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tidemark.domain.columns.types import ColumnType, Field, ListType, MapType, Struct
from tidemark.domain.plan.schema_plan import Change


def applied(columns: Struct, changes: Iterable[Change]) -> Struct:
    """`columns` with the additions and widenings among `changes`; what `engine.evolve` makes of the table."""
    for change in changes:
        if change.column is not None and change.kind in {"add_column", "widen_type"}:
            columns = _put(columns, change.path, change)
    return columns


def _put(kind: ColumnType, path: tuple[str, ...], change: Change) -> Any:
    """`kind` with `change.new` at `path`."""
    if not path:
        return change.column
    head, rest = path[0], path[1:]
    match kind:
        case Struct(fields) if kind.field(head) is None and change.column is not None:
            return Struct((*fields, Field(head, change.column, change.doc, meaning=change.meaning)))
        case Struct(fields):
            return Struct(
                tuple(replace(f, type=_put(f.type, rest, change)) if f.name == head else f for f in fields)
            )
        case ListType(element):
            return ListType(_put(element, rest, change))
        case MapType(key, value):
            return MapType(key, _put(value, rest, change))
    return kind
