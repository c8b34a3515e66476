"""What can be wrong with a value although `from_avro` decoded it.

Belongs here: boolean expressions over one decoded value, false for a fault. Two kinds, for they are two
causes.
"""

from collections.abc import Callable
from functools import lru_cache

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import MAX_PRECISION, Primitive
from tidemark.domain.formats.avro_columns import element_type
from tidemark.domain.formats.avro_decoder import decoded_names, has_legal_symbols, has_number_keys
from tidemark.domain.formats.avro_nodes import (
    Array,
    Entries,
    Enum,
    Fixed,
    Leaf,
    LeafKind,
    Node,
    Record,
    RecordField,
    Union,
    merged_numbers,
)
from tidemark.engine.decode.avro import is_same, keys_are_unique, member
from tidemark.engine.decode.connect import document, has_digits, zoned_timestamp

Check = Callable[[Column, Node], Column | None]
_INT = (-(1 << 31), (1 << 31) - 1)
_APART = " "
"""Between joined strings: no byte of it can be part of another character."""


def sound(value: Column, node: Node) -> Column | None:
    """False for a value that decodes but breaks the format: invalid UTF-8, a map key twice or NULL, no digit.

    NULL or true otherwise; None when nothing of the node needs a check.
    """
    match node:
        case Leaf("string"):
            return F.is_valid_utf8(value)
        case Leaf() | Fixed() if node.logical == "decimal" and node.precision > MAX_PRECISION:
            return F.length(value) > 0
        case Enum(_, symbols) if not has_legal_symbols(node):
            return (value >= 0) & (value < len(symbols))
        case Entries():
            return _all([keys_are_unique(value, node), _each(value, _pair(node), sound)])
    return _nested(value, node, sound)


def fits(value: Column, node: Node) -> Column | None:  # noqa: PLR0911 - one return per kind of node
    """False for a value outside the range of its declared type: a decimal with too many digits, a time, a key -0.0.

    NULL or true otherwise; None when nothing of the node needs a check.
    """
    match node:
        case Leaf() | Fixed() if node.logical == "decimal":
            declared = element_type(node)
            if is_same(node, declared) or not isinstance(declared, Primitive) or declared.decimal is None:
                return None
            return value.isNull() | value.try_cast(spark_ddl(declared)).isNotNull()
        case Leaf("int"):
            return value.between(*_INT)
        case Leaf(logical="zoned-timestamp" | "document"):
            convert = document if node.logical == "document" else zoned_timestamp
            return value.isNull() | convert(value).isNotNull()
        case Record(logical="variable-decimal"):
            return value.isNull() | has_digits(value)
        case Entries():
            return _all([_keys_are_kept(value, node), _each(value, _pair(node), fits)])
    return _nested(value, node, fits)


def _keys_are_kept(value: Column, node: Entries) -> Column | None:
    """False where a map would change a key."""
    if not has_number_keys(node):
        return None
    return ~F.exists(value["key"], lambda key: key.cast("string") == "-0.0")


def _nested(value: Column, node: Node, check: Check) -> Column | None:
    match node:
        case Record(_, fields):
            parts = zip(decoded_names(node), fields, strict=True)
            return _all([check(value[name], field.type) for name, field in parts])
        case Array(items):
            return _each(value, items, check)
        case Union() if len(node.values) == 1:
            return check(value, node.values[0])
        case Union() if merged_numbers(node) is None:
            return _all([check(member(value, i, branch), branch) for i, branch in enumerate(node.values)])
    return None


def _pair(node: Entries) -> Record:
    return Record("", (RecordField("key", node.key), RecordField("value", node.value)))


def _each(value: Column, node: Node, check: Check) -> Column | None:
    """The check of every element; None when elements need none."""
    if not _is_needed(node, check):
        return None
    kind: LeafKind = "string" if check == sound else "int"
    found = _leaves(value, node, check, kind)
    if found is not None and kind == "string":
        return _all([F.is_valid_utf8(F.array_join(texts, _APART)) for texts in found])
    if found is not None:
        bounds = [each for ints in found for each in (F.array_min(ints), F.array_max(ints))]
        return _all([F.coalesce(each.between(*_INT), F.lit(True)) for each in bounds])
    return F.forall(value, lambda item: _required(check(item, node)))


def _leaves(values: Column, node: Node, check: Check, kind: LeafKind) -> list[Column] | None:
    """All strings, or ints, of the elements, lists of them; None where something else can be wrong with an element.

    Strings joined are valid when each is, ints fit when the least and the greatest do, and Spark compiles that; a
    lambda it interprets, at ten times the cost.
    """
    match node:
        case Leaf(found, _) if found == kind:
            return [values]
        case Record(_, fields, logical=""):
            parts = zip(decoded_names(node), fields, strict=True)
            inner = [_leaves(values[name], field.type, check, kind) for name, field in parts]
            return None if None in inner else [each for lists in inner for each in lists or ()]
        case Union() if len(node.values) == 1:
            return _leaves(values, node.values[0], check, kind)
    return None if _is_needed(node, check) else []


@lru_cache(maxsize=1024)
def _is_needed(node: Node, check: Check) -> bool:
    """Remembered, for a lambda must be built to be asked, and in nested lists each asks those inside."""
    return check(F.lit(None), node) is not None


def _required(check: Column | None) -> Column:
    return F.lit(True) if check is None else check


def _all(checks: list[Column | None]) -> Column | None:
    needed = [check for check in checks if check is not None]
    return _balanced(needed) if needed else None


def _balanced(checks: list[Column]) -> Column:
    """All of them as a tree of little depth: a chain of a hundred is more than a plan's message may nest."""
    if len(checks) == 1:
        return checks[0]
    middle = len(checks) // 2
    return _balanced(checks[:middle]) & _balanced(checks[middle:])
