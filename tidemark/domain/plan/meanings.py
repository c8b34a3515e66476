"""What the values of a table's columns mean where the types do not say it; the table knows, for comments are free.

A unit (microseconds since midnight), an encoding (JSON text) or what a struct is of (a record, the branches of a union)
never changes in a column that is there: rows of both would stand side by side, and nothing in a row tells which it is.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidemark.domain.columns.names import Path
from tidemark.domain.columns.types import (
    TYPE_RULES_PROPERTY,
    ColumnType,
    ListType,
    MapType,
    Struct,
)
from tidemark.domain.plan.comments import fields_of
from tidemark.domain.plan.schema_plan import Change

MEANINGS = "tidemark.meanings"
"""The table property: a JSON object of dotted paths and meanings, of the columns that have one."""
_WITHOUT_UNIONS = "1"
"""The type rules of tables that kept units and encodings alone."""


def meanings_property(columns: Struct) -> str:
    """The property of a new table."""
    return json.dumps({".".join(path): field.meaning for path, field in fields_of(columns) if field.meaning})


def known(columns: Struct, properties: Mapping[str, str]) -> Struct:
    """A table's columns with their meanings; what a table made by older type rules did not keep is not known."""
    if MEANINGS not in properties:
        return _struct(columns, None, ())
    meanings = json.loads(properties[MEANINGS])
    if properties.get(TYPE_RULES_PROPERTY) == _WITHOUT_UNIONS:
        unsaid = (path for path, field in fields_of(columns) if _holds_struct(field.type))
        meanings = dict.fromkeys((".".join(path) for path in unsaid), None) | meanings
    return _struct(columns, meanings, ())


def meanings_after(properties: Mapping[str, str], done: Iterable[Change]) -> dict[str, str]:
    """The property, where it is kept, with what the columns mean that were added."""
    if MEANINGS not in properties:
        return {}
    meanings = json.loads(properties[MEANINGS])
    for change in done:
        if change.kind != "add_column" or change.column is None:
            continue
        added = {change.path: (change.column, change.meaning)}
        added |= {path: (f.type, f.meaning) for path, f in fields_of(change.column, change.path)}
        if properties.get(TYPE_RULES_PROPERTY) == _WITHOUT_UNIONS:  # an older Tidemark reads them too
            added = {path: each for path, each in added.items() if not _holds_struct(each[0])}
        meanings |= {".".join(path): meaning for path, (_, meaning) in added.items()}
    return {MEANINGS: json.dumps({path: meaning for path, meaning in meanings.items() if meaning})}


def _holds_struct(kind: ColumnType) -> bool:
    """Whether values are structs, inside of lists and maps too: of a record, or of a union."""
    match kind:
        case ListType(element):
            return _holds_struct(element)
        case MapType(key, value):
            return _holds_struct(key) or _holds_struct(value)
    return isinstance(kind, Struct)


def _struct(columns: Struct, meanings: Mapping[str, str | None] | None, at: Path) -> Struct:
    fields = []
    for field in columns.fields:
        here = (*at, field.name)
        meaning = None if meanings is None else meanings.get(".".join(here), "")
        fields.append(replace(field, type=_known(field.type, meanings, here), meaning=meaning))
    return Struct(tuple(fields))


def _known(kind: ColumnType, meanings: Mapping[str, str | None] | None, at: Path) -> ColumnType:
    match kind:
        case Struct():
            return _struct(kind, meanings, at)
        case ListType(element):
            return ListType(_known(element, meanings, (*at, "element")))
        case MapType(key, value):
            return MapType(_known(key, meanings, (*at, "key")), _known(value, meanings, (*at, "value")))
    return kind
