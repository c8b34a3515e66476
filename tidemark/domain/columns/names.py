"""Names of columns: which cannot live together, and which are not for a source to give (docs/types.md)."""

import re
import struct
import unicodedata
from collections.abc import Callable, Iterator, Mapping

from tidemark.domain.columns.types import KAFKA_COLUMN, ColumnType, ListType, MapType, Struct
from tidemark.domain.errors import SchemaUnsupported

Path = tuple[str, ...]
"""A column by the names from the outermost struct on, or a field of a schema likewise."""

CDC = "_cdc"
"""The column that says of a row of Debezium's by which change it came. Whatever has it is read as one of those."""
RESERVED_PREFIX = "_tidemark"
"""Names of working columns begin with it."""
METADATA_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Columns that Iceberg gives every table (`org.apache.iceberg.MetadataColumns`, 1.12)."""
_UNDERSCORE = ord("_")


def check_names(columns: Struct) -> None:
    """Refuse names that Iceberg or Spark could not tell apart.

    Raises SchemaUnsupported with the path for: an empty name, names equal but for case in one struct, a
    name with a dot whose path equals that of another field (`a.b` beside a struct `a` with a field `b`), and names
    of one struct that are spelled the same in data files (`1` beside `_1`).
    """
    seen: dict[tuple[bool, str], Path] = {}
    in_files: dict[Path, Path] = {}
    for path in _paths(columns, ()):
        dotted = ".".join(path)
        if not path[-1]:
            raise SchemaUnsupported(dotted, "a column needs a name")
        for name in ((True, dotted.lower()), (False, _without_case(dotted))):  # Iceberg's way, and Spark's
            other = seen.setdefault(name, path)
            if len(other) != len(path):
                raise SchemaUnsupported(dotted, "a name with a dot clashes with a field of a struct")
            if other is not path:
                raise SchemaUnsupported(
                    dotted, f"the name equals {'.'.join(other)} but for case, or appears twice"
                )
        spelled = _name_in_files(path[-1])
        if (other := in_files.setdefault((*path[:-1], spelled), path)) is not path:
            raise SchemaUnsupported(
                dotted, f"the name and {'.'.join(other)} are both spelled {spelled} in data files"
            )


def all_names(columns: Struct) -> frozenset[str]:
    """The dotted names of every column and every part of one, as Iceberg knows them.

    Fields of structs have a second one without the steps `element` and `value` that lead to a struct (Iceberg's
    IndexByName): `items.sku` is `items.element.sku`, unless a column is called so.
    """
    return frozenset(".".join(path) for short in (False, True) for path in _paths(columns, (), short=short))


def check_reserved(columns: Struct) -> None:
    """Refuse names at the top level that are not for a source to give; inside of structs they are as good as any.

    Raises SchemaUnsupported with the name.
    """
    for field in columns.fields:
        name = field.name.lower()
        if name in {KAFKA_COLUMN.name, CDC} or name.startswith(RESERVED_PREFIX):
            raise SchemaUnsupported(field.name, "the name is reserved")
        if name in METADATA_COLUMNS:
            raise SchemaUnsupported(
                field.name, "the name is reserved for Iceberg's metadata: Spark would not read the table"
            )


def _without_case(name: str) -> str:
    """What names that are equal but for case have in common by Java's `equalsIgnoreCase`: `ſ` is `s`, `µ` is `μ`.

    It compares each character in upper, and then in lower case.
    """
    if name.isascii():
        return name.lower()
    return "".join(_in_case(_in_case(each, str.upper), str.lower) for each in name)


def _in_case(character: str, turn: Callable[[str], str]) -> str:
    """Java turns a character into one; where Python gives several, it stays, but for the dotted capital I."""
    turned = "i" if character == "\u0130" else turn(character)
    return turned if len(turned) == 1 else character


def _name_in_files(name: str) -> str:
    """The name of a column in Parquet: letters, digits and underscores, the first no digit.

    Source: `makeCompatibleName` in Iceberg's AvroSchemaUtil, which looks at UTF-16 code units.
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    spelled = []
    for position, (unit,) in enumerate(struct.iter_unpack(">H", name.encode("utf-16-be", "surrogatepass"))):
        kind = unicodedata.category(chr(unit))
        if unit == _UNDERSCORE or kind.startswith("L") or (position and kind == "Nd"):
            spelled.append(chr(unit))
        else:
            spelled.append(f"_{chr(unit)}" if kind == "Nd" else f"_x{unit:X}")
    return "".join(spelled)


def _paths(kind: ColumnType, path: Path, *, short: bool = False) -> Iterator[Path]:
    match kind:
        case Struct():
            for field in kind.fields:
                yield (*path, field.name)
                yield from _paths(field.type, (*path, field.name), short=short)
        case ListType():
            yield from _nested_paths({"element": kind.element}, path, short=short)
        case MapType():
            yield from _nested_paths({"key": kind.key, "value": kind.value}, path, short=short)


def _nested_paths(parts: Mapping[str, ColumnType], path: Path, *, short: bool) -> Iterator[Path]:
    for name, kind in parts.items():
        yield (*path, name)
        left_out = short and name != "key" and isinstance(kind, Struct)
        yield from _paths(kind, path if left_out else (*path, name), short=short)
