"""How columns grow: what a table must become to hold one more writer schema exactly. Pure; nothing is applied here."""

from collections.abc import Iterable
from dataclasses import replace

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.types import STRING, VARIANT, ColumnType, ListType, MapType, Struct, widens
from tidemark.domain.errors import SchemaUnsupported


def extended(table: Struct, wanted: Struct) -> Struct:
    """`table` with what `wanted` adds (last), widened where it is wider; other differences stay as they are."""
    known = tuple(
        replace(f, type=_extended(f.type, other.type))
        if (other := wanted.field(f.name)) and f.means_as(other)
        else f
        for f in table.fields
    )
    added = tuple(f for f in wanted.fields if table.field(f.name) is None)
    return Struct((*known, *added))


def first_columns(versions: Iterable[Struct]) -> Struct:
    """The columns of a new table for writer schemas given oldest first.

    The newest decides; older versions add the columns and widths that only they have, as long as nothing of the
    newest is lost. A version that cannot be held beside it is left out, and its records will stop the table by name.
    """
    ordered = list(versions)
    columns = ordered[-1]
    for older in reversed(ordered[:-1]):
        grown = extended(columns, older)
        try:
            clashes = covers(grown, older)
        except SchemaUnsupported:
            continue  # a name equals one of the newest but for case
        if not clashes:
            columns = grown
    return columns


def _extended(table: ColumnType, wanted: ColumnType) -> ColumnType:
    match table, wanted:
        case Struct(), Struct():
            return extended(table, wanted)
        case ListType(), ListType():
            return ListType(_extended(table.element, wanted.element))
        case MapType(), MapType():
            return MapType(table.key, _extended(table.value, wanted.value))
    holds_both = (table, wanted) == (VARIANT, STRING)  # of two versions; no column that is there becomes text
    return wanted if holds_both or widens(table, wanted) else table
