"""What a table lacks to hold wanted columns exactly, and which names cannot live together (TYPES.md).

Belongs here: comparing two column trees. What to do about a difference is the schema plan's question.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tidemark.domain.columns.types import ColumnType, Field, ListType, MapType, Struct, widens
from tidemark.domain.errors import SchemaUnsupported

DifferenceKind = Literal["missing", "narrower", "incompatible"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a table lacks at `path` to hold wanted columns exactly.

    missing: the column is not there (`found` is None), add it; narrower: `found` widens to `wanted`;
    incompatible: no allowed change leads from `found` to `wanted`. Path parts inside lists and maps are
    Iceberg's: `element`, `key`, `value`.
    """

    path: tuple[str, ...]
    kind: DifferenceKind
    found: ColumnType | None
    wanted: ColumnType
    doc: str = ""

    @property
    def dotted(self) -> str:
        """The path as one text."""
        return ".".join(self.path)


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
            yield Difference(here, "missing", None, field.type, field.doc)
        else:
            yield from _differences(found.type, field.type, here)


def _differences(table: ColumnType, wanted: ColumnType, path: tuple[str, ...]) -> Iterator[Difference]:
    match table, wanted:
        case Struct(), Struct():
            yield from _struct_differences(table, wanted, path)
        case ListType(), ListType():
            yield from _differences(table.element, wanted.element, (*path, "element"))
        case MapType(), MapType():
            if not widens(wanted.key, table.key):
                yield Difference((*path, "key"), "incompatible", table.key, wanted.key)
            yield from _differences(table.value, wanted.value, (*path, "value"))
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


def check_names(struct: Struct) -> None:
    """Refuse names that Iceberg or Spark could not tell apart.

    Raises SchemaUnsupported with the path for: an empty name, names equal but for case in one struct, and a
    name with a dot whose path equals that of another field (`a.b` beside a struct `a` with a field `b`).
    """
    seen: dict[str, tuple[str, ...]] = {}
    for path in _paths(struct, ()):
        dotted = ".".join(path)
        if not path[-1]:
            raise SchemaUnsupported(dotted, "a column needs a name")
        other = seen.setdefault(dotted.lower(), path)
        if other is path:
            continue
        if len(other) != len(path):
            raise SchemaUnsupported(dotted, "a name with a dot clashes with a field of a struct")
        raise SchemaUnsupported(dotted, f"the name equals {'.'.join(other)} but for case, or appears twice")


def _paths(kind: ColumnType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match kind:
        case Struct():
            for field in kind.fields:
                yield (*path, field.name)
                yield from _paths(field.type, (*path, field.name))
        case ListType():
            yield from _nested_paths({"element": kind.element}, path)
        case MapType():
            yield from _nested_paths({"key": kind.key, "value": kind.value}, path)


def _nested_paths(parts: Mapping[str, ColumnType], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, kind in parts.items():
        yield (*path, name)
        yield from _paths(kind, (*path, name))
