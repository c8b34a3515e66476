"""What can be wrong with a value although `from_avro` decoded it.

Belongs here: boolean expressions over one decoded value, false for a fault. Two kinds, for they are two
causes.
"""

from collections.abc import Callable
from functools import lru_cache

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import Primitive
from tidemark.domain.formats.avro_columns import element_type
from tidemark.domain.formats.avro_decoder import decoded_names, has_legal_symbols, has_number_keys, is_int
from tidemark.domain.formats.avro_nodes import (
    Array,
    Entries,
    Enum,
    Fixed,
    Leaf,
    Node,
    Record,
    RecordField,
    Union,
    merged_numbers,
)
from tidemark.engine.decode.avro import is_same, keys_are_unique, member
from tidemark.engine.decode.connect import document, is_variable_decimal, zoned_timestamp

Check = Callable[[Column, Node], Column | None]
_INTS = -(1 << 31), (1 << 31) - 1
_APART = " "
"""Between joined strings: no byte of it can be part of another character."""


def sound(value: Column, node: Node) -> Column | None:
    """False for a value that decodes but breaks the format: invalid UTF-8, a map key twice or NULL.

    NULL or true otherwise; None when nothing of the node needs a check.
    """
    match node:
        case Leaf("string"):
            return F.is_valid_utf8(value)
        case Enum(_, symbols) if not has_legal_symbols(node):
            return (value >= 0) & (value < len(symbols))
        case Entries():
            return _all([keys_are_unique(value, node), _each(value, _pair(node), sound)])
    return _nested(value, node, sound)


def fits(value: Column, node: Node) -> Column | None:  # noqa: PLR0911 - one per kind of node
    """False for a value outside the range of its declared type: an int, a decimal with too many digits, a key -0.0.

    NULL or true otherwise; None when nothing of the node needs a check.
    """
    match node:
        case Leaf("int"):
            return value.between(*_INTS)
        case Leaf() | Fixed() if node.logical == "decimal":
            declared = element_type(node)
            if is_same(node, declared) or not isinstance(declared, Primitive) or declared.decimal is None:
                return None
            return value.isNull() | value.try_cast(spark_ddl(declared)).isNotNull()
        case Leaf(logical="zoned-timestamp" | "document"):
            convert = document if node.logical == "document" else zoned_timestamp
            return value.isNull() | convert(value).isNotNull()
        case Record(logical="variable-decimal"):
            return value.isNull() | is_variable_decimal(value)
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
            branches = [(i, b) for i, b in enumerate(node.values) if check != fits or not is_int(b)]
            return _all([check(member(value, i, branch), branch) for i, branch in branches])
    return None


def _pair(node: Entries) -> Record:
    return Record("", (RecordField("key", node.key), RecordField("value", node.value)))


def _each(value: Column, node: Node, check: Check) -> Column | None:
    """The check of every element; None when elements need none."""
    if not _is_needed(node, check):
        return None
    texts = _texts(value, node) if check == sound else None
    if texts is not None:
        return _all([F.is_valid_utf8(F.array_join(text, _APART)) for text in texts])
    if check == fits and (numbers := _numbers(value, node)) is not None:
        return _all([edge(each).between(*_INTS) for each in numbers for edge in (F.array_min, F.array_max)])
    return F.forall(value, lambda item: _required(check(item, node)))


def _numbers(values: Column, node: Node) -> list[Column] | None:
    """All ints of the elements, lists of them; None where anything else can be out of its range. As in `_texts`."""
    match node:
        case Leaf("int"):
            return [values]
        case Record(_, fields):
            parts = zip(decoded_names(node), fields, strict=True)
            found = [_numbers(values[name], field.type) for name, field in parts]
            return None if None in found else [each for several in found for each in several or ()]
        case Union() if len(node.values) == 1:
            return _numbers(values, node.values[0])
    return None if _is_needed(node, fits) else []


def _texts(values: Column, node: Node) -> list[Column] | None:
    """All strings of the elements, lists of them; None where more than UTF-8 can be wrong with an element.

    Joined they are valid when each is, and Spark compiles that; a lambda it interprets, at ten times the cost.
    """
    match node:
        case Leaf("string"):
            return [values]
        case Record(_, fields):
            parts = zip(decoded_names(node), fields, strict=True)
            found = [_texts(values[name], field.type) for name, field in parts]
            return None if None in found else [text for texts in found for text in texts or ()]
        case Union() if len(node.values) == 1:
            return _texts(values, node.values[0])
    return None if _is_needed(node, sound) else []


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
