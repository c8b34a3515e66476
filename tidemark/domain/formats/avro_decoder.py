"""The schema that Spark's `from_avro` is given in place of the writer's, and what it makes of it.

Belongs here: a schema of the same bytes under which Spark 4.1 loses nothing. Tried, with the writer's own
schema: a decimal of up to 18 digits takes the low 64 bits of a larger number in silence; a map forgets that a
key came twice; `avro.java.string` turns invalid UTF-8 into question marks; a record name used twice and a
field name that is no Avro name are refused; of an int written with more than 32 bits, as Python's encoders do without
a word, the low ones are taken. So: decimals and ints are read wider, maps as arrays of key and value, names are
made up.

Truncated, empty and garbage input gives a struct of NULLs, and trailing bytes are not noticed. Therefore the
value is a field of an outer record that ends in SENTINEL: the bytes are appended to the value and must come
back.

Not noticed, for Avro's Java decoder does not tell: a boolean byte other than 0 and 1 is false. Nor an int beyond
32 bits in a union of int and long. No producer that we know writes either.
"""

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from tidemark.domain.columns.types import (
    BINARY,
    DOUBLE,
    FLOAT,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    ListType,
    Primitive,
    Struct,
    decimal,
)
from tidemark.domain.formats.avro_nodes import (
    NULL,
    Array,
    Entries,
    Enum,
    Fixed,
    Leaf,
    Node,
    Record,
    Union,
    max_decimal_precision,
    merged_numbers,
)

AVRO_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
"""CORRECTED is the default, but a session may say otherwise, and dates must not depend on it."""
SENTINEL = bytes.fromhex("a7e1c05d9b3f6284")
ID_SIZE = 4
HEADER_SIZE = 1 + ID_SIZE
"""Bytes before the value in Confluent's wire format: a zero and the schema id, big-endian."""

VOID = Primitive("void")
_LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONG_DIGITS = 18
_LONG_BYTES = 8
_WIDE = {"int": "long"}
"""Their bytes are the same."""
_READ_BY_SPARK = {
    "timestamp-millis": TIMESTAMPTZ,
    "timestamp-micros": TIMESTAMPTZ,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
}


def decoder_schema(root: Node, header_size: int) -> str:
    """The outer record {header, value, sentinel} as JSON; no header field when `header_size` is 0."""
    names = (f"n{number}" for number in count())
    header = [_field("header", _fixed(names, header_size))] if header_size else []
    fields = [
        *header,
        _field("value", _schema(root, names)),
        _field("sentinel", _fixed(names, len(SENTINEL))),
    ]
    return json.dumps({"type": "record", "name": next(names), "fields": fields})


DEFAULT = "default"


def default_schema(node: Node) -> str:
    """A record whose one field DEFAULT is the node, for a field's encoded default.

    Alone, Spark would read the NULL of a union as 0, or as a struct of NULLs.
    """
    inner = _schema(node, (f"n{number}" for number in count()))
    return json.dumps({"type": "record", "name": "d", "fields": [{"name": DEFAULT, "type": inner}]})


def decoded_type(node: Node) -> ColumnType:
    """The type that Spark gives to a node under `decoder_schema`: no maps, only lists of key and value."""
    match node:
        case Leaf() | Fixed():
            return _decoded_leaf(node)
        case Enum():
            return STRING if has_legal_symbols(node) else Primitive("int")
        case Record(_, fields):
            names = decoded_names(node)
            return Struct(
                tuple(Field(name, decoded_type(f.type)) for name, f in zip(names, fields, strict=True))
            )
        case Array(items):
            return ListType(decoded_type(items))
        case Entries(key, value):
            return ListType(Struct((Field("key", decoded_type(key)), Field("value", decoded_type(value)))))
        case Union():
            return _decoded_union(node)


def decoded_names(record: Record) -> tuple[str, ...]:
    """The names that a record's fields have for Spark: their own where it can tell them apart."""
    own = tuple(field.name for field in record.fields)
    if all(_LEGAL_NAME.fullmatch(name) for name in own) and len({name.lower() for name in own}) == len(own):
        return own
    return tuple(f"f{position}" for position in range(len(own)))


def _read_precision(node: Leaf | Fixed) -> int | None:
    """The precision under which a decimal is read; None when it has too many digits for Spark.

    Up to 18 digits Spark keeps the low 64 bits alone; where more bits can come, it is read as the widest
    decimal.
    """
    if node.precision > MAX_PRECISION:
        return None
    if node.precision > _LONG_DIGITS:
        return node.precision
    if isinstance(node, Leaf):
        return MAX_PRECISION
    return (
        node.precision if node.size <= _LONG_BYTES else min(MAX_PRECISION, max_decimal_precision(node.size))
    )


def has_legal_symbols(enum: Enum) -> bool:
    """False where Spark would refuse the schema; such an enum is read as its position."""
    return all(_LEGAL_NAME.fullmatch(symbol) for symbol in enum.symbols) and len(set(enum.symbols)) == len(
        enum.symbols
    )


def has_number_keys(entries: Entries) -> bool:
    """Whether the keys are floating: of those alone Spark's maps change one, -0.0 to 0.0."""
    return decoded_type(entries.key) in {FLOAT, DOUBLE}


def is_boxed(branch: Node) -> bool:
    """True for a union's branch that read our way could equal another: a record is put around it."""
    if isinstance(branch, Leaf):
        return branch.kind == "int"
    return isinstance(branch, Entries) or (isinstance(branch, Enum) and not has_legal_symbols(branch))


def _schema(node: Node, names: Iterator[str]) -> Any:  # noqa: PLR0911 - one return per kind of node
    match node:
        case Leaf() | Fixed():
            return _leaf_schema(node, names)
        case Enum(_, symbols) if has_legal_symbols(node):
            return {"type": "enum", "name": next(names), "symbols": symbols}
        case Enum():
            return "int"
        case Record(_, fields, logical="variable-decimal"):
            return _record(names, [_field(f.name, f.type.kind) for f in fields if isinstance(f.type, Leaf)])
        case Record(_, fields):
            parts = zip(decoded_names(node), fields, strict=True)
            return _record(names, [_field(name, _schema(field.type, names)) for name, field in parts])
        case Array(items):
            return {"type": "array", "items": _schema(items, names)}
        case Entries(key, value):
            pair = [_field("key", _schema(key, names)), _field("value", _schema(value, names))]
            return {"type": "array", "items": _record(names, pair)}
        case Union():
            return _union_schema(node, names)


def _leaf_schema(node: Leaf | Fixed, names: Iterator[str]) -> Any:
    base = {"type": _WIDE.get(node.kind, node.kind)} if isinstance(node, Leaf) else _fixed(names, node.size)
    precision = _read_precision(node) if node.logical == "decimal" else None
    if precision is not None:
        return {**base, "logicalType": "decimal", "precision": precision, "scale": node.scale}
    return {**base, "logicalType": node.logical} if node.logical in _READ_BY_SPARK else base


def _union_schema(union: Union, names: Iterator[str]) -> Any:
    if merged_numbers(union):
        return [branch.kind for branch in union.branches if isinstance(branch, Leaf)]
    several = len(union.values) > 1
    branches = []
    for branch in union.branches:
        schema = _schema(branch, names)
        branches.append(_record(names, [_field("box", schema)]) if several and is_boxed(branch) else schema)
    return [*branches, _fixed(names, 1)] if _kept_apart(union) else branches


def _decoded_leaf(node: Leaf | Fixed) -> ColumnType:
    if node == NULL:
        return VOID
    if node.logical == "decimal":
        precision = _read_precision(node)
        return BINARY if precision is None else decimal(precision, node.scale)
    if node.logical in _READ_BY_SPARK:
        return _READ_BY_SPARK[node.logical]
    if isinstance(node, Fixed) or node.kind == "bytes":
        return BINARY
    return Primitive(_WIDE.get(node.kind, node.kind))


def _decoded_union(union: Union) -> ColumnType:
    if not union.values:
        return VOID
    if len(union.values) == 1:
        return decoded_type(union.values[0])
    if merged := merged_numbers(union):
        return Primitive(merged)
    fields = [
        Field(f"member{position}", _decoded_branch(branch)) for position, branch in enumerate(union.values)
    ]
    spare = [Field(f"member{len(fields)}", BINARY)] if _kept_apart(union) else []
    return Struct((*fields, *spare))


def _decoded_branch(branch: Node) -> ColumnType:
    kind = decoded_type(branch)
    return Struct((Field("box", kind),)) if is_boxed(branch) else kind


def _kept_apart(union: Union) -> bool:
    """True where Spark would merge two numbers that are not of one meaning: a spare branch prevents it."""
    kinds = {branch.kind if isinstance(branch, Leaf) else "" for branch in union.values}
    return kinds in ({"int", "long"}, {"float", "double"}) and merged_numbers(union) is None


def _record(names: Iterator[str], fields: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": next(names), "fields": fields}


def _field(name: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "type": schema}


def _fixed(names: Iterator[str], size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": next(names), "size": size}
