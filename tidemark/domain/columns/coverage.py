"""What a table lacks to hold wanted columns exactly (docs/types.md).

Belongs here: comparing two column trees. What to do about a difference is the schema plan's question.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tidemark.domain.columns.names import check_names
from tidemark.domain.columns.types import ColumnType, Field, ListType, MapType, Primitive, Struct, widens

DifferenceKind = Literal["missing", "narrower", "incompatible"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a table lacks at `path` to hold wanted columns exactly.

    missing: the column is not there (`found` is None), add it, `meaning` is its; narrower: `found` widens to
    `wanted`; incompatible: no allowed change leads from `found` to `wanted`, or its values would mean something
    else, from and to `meanings`. Path parts inside lists and maps are Iceberg's: `element`, `key`, `value`.
    """

    path: tuple[str, ...]
    kind: DifferenceKind
    found: ColumnType | None
    wanted: ColumnType
    doc: str = ""
    meaning: str | None = ""
    meanings: tuple[str, str] | None = None

    @property
    def ends(self) -> tuple[ColumnType | str | None, ColumnType | str]:
        """What is there and what is wanted; in words where the type alone does not tell them apart."""
        if self.meanings is None:
            return self.found, self.wanted
        old, new = (meaning or "plain" for meaning in self.meanings)
        return f"{_brief(self.found)} ({old})", f"{_brief(self.wanted)} ({new})"

    @property
    def dotted(self) -> str:
        """The path as one text."""
        return ".".join(self.path)


def _brief(kind: ColumnType | None) -> str:
    """A type in a word where it holds structs: these may grow while their change waits, and it stays the same one."""
    text = str(kind)
    return text.partition("<")[0] if "struct<" in text else text


@lru_cache(maxsize=4096)
def covers(table: Struct, wanted: Struct) -> tuple[Difference, ...]:
    """What `table` lacks to hold every value of `wanted` exactly; empty when it covers it. Asked before every batch.

    A table may be wider, have more columns and another order. Raises SchemaUnsupported where a wanted name
    equals a name of the table but for case, and where names of both together clash (see `check_names`).
    """
    check_names(table)
    check_names(wanted)
    differences = tuple(_struct_differences(table, wanted, ()))
    check_names(_merged(table, wanted))
    return differences


def _struct_differences(table: Struct, wanted: Struct, path: tuple[str, ...]) -> Iterator[Difference]:
    for field in wanted.fields:
        here = (*path, field.name)
        found = table.field(field.name)
        if found is None:
            yield Difference(here, "missing", None, field.type, field.doc, field.meaning)
            continue
        differences = tuple(_differences(found.type, field.type, here))
        if found.means_as(field):
            yield from differences
        elif clashes := [each for each in differences if each.kind == "incompatible"]:
            yield from clashes  # the types alone tell it, and where
        else:
            meanings = (found.meaning or "", field.meaning or "")
            yield Difference(here, "incompatible", found.type, field.type, field.doc, meanings=meanings)


def _differences(table: ColumnType, wanted: ColumnType, path: tuple[str, ...]) -> Iterator[Difference]:
    match table, wanted:
        case Struct(), Struct():
            yield from _struct_differences(table, wanted, path)
        case ListType(), ListType():
            yield from _differences(table.element, wanted.element, (*path, "element"))
        case MapType(), MapType():
            if not widens(wanted.key, table.key):
                yield Difference((*path, "key"), "incompatible", table.key, wanted.key)
            yield from (d for d in _differences(table.key, wanted.key, (*path, "key")) if d.meanings)
            yield from _differences(table.value, wanted.value, (*path, "value"))
        case Primitive("string"), Primitive("variant" | "uuid"):
            return  # JSON text, on a table that had the column before format 3; a uuid as Spark reads it
        case Primitive("binary"), Primitive(name) if name.startswith("fixed["):
            return
        case _ if not widens(wanted, table):
            yield Difference(path, "narrower" if widens(table, wanted) else "incompatible", table, wanted)


def _merged(table: Struct, wanted: Struct) -> Struct:
    """The table with what is missing added: only names matter."""
    fields = [
        Field(
            field.name,
            _merged_type(field.type, other.type) if (other := wanted.field(field.name)) else field.type,
        )
        for field in table.fields
    ]
    return Struct((*fields, *(field for field in wanted.fields if table.field(field.name) is None)))


def _merged_type(table: ColumnType, wanted: ColumnType) -> ColumnType:
    match table, wanted:
        case Struct(), Struct():
            return _merged(table, wanted)
        case ListType(), ListType():
            return ListType(_merged_type(table.element, wanted.element))
        case MapType(), MapType():
            return MapType(table.key, _merged_type(table.value, wanted.value))
    return table
