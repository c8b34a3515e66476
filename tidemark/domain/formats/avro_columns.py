"""The columns that an Avro schema becomes: docs/types.md's Avro table, row by row.

Belongs here: the type and the comment of a column, and what the plan should say about them.
"""

from dataclasses import dataclass

from tidemark.domain.columns.names import check_names, check_reserved
from tidemark.domain.columns.types import (
    BINARY,
    BOOLEAN,
    DATE,
    LONG,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARIANT,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
)
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro import AvroSchema, Note
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
    branch_kind,
    merged_numbers,
)

WHOLE_VALUE = "value"
"""The one column of a schema that is no record."""
WHOLE_COLUMNS = {
    "string": Struct((Field(WHOLE_VALUE, STRING),)),
    "raw": Struct((Field(WHOLE_VALUE, BINARY),)),
}
"""The columns of the formats that take a value as it is."""

_MAX_DEPTH, _RECORD_DEPTH, _ARRAY_DEPTH, _MAP_DEPTH = 84, 8, 4, 12
"""Nested messages of the longest expression, tried with every value in need of conversion."""
_DIGITS_DEPTH = 60
_LEAF_DEPTH = {"duration": 14, "zoned-timestamp": 4, "uuid": 2}
"""What the longest conversions need beyond the others, that of more than 38 digits to text most of all."""

_PLAIN: dict[str, Primitive] = {
    **{kind: Primitive(kind) for kind in ("boolean", "int", "long", "float", "double", "string")},
    "bytes": BINARY,
}
_LOGICAL: dict[str, Primitive] = {
    "date": DATE,
    "time-millis": LONG,
    "time-micros": LONG,
    "time-nanos": LONG,
    "timestamp-millis": TIMESTAMPTZ,
    "timestamp-micros": TIMESTAMPTZ,
    "timestamp-nanos": LONG,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
    "local-timestamp-nanos": LONG,
    "zoned-timestamp": TIMESTAMPTZ,
    "uuid": STRING,
    "document": VARIANT,
}
_DURATION = Struct(tuple(Field(part, LONG) for part in ("months", "days", "millis")))
UNITS = {
    "time-millis": "microseconds since midnight",
    "time-micros": "microseconds since midnight",
    "time-nanos": "nanoseconds since midnight",
    "timestamp-nanos": "nanoseconds since 1970-01-01T00:00:00Z",
    "local-timestamp-nanos": "nanoseconds since 1970-01-01T00:00:00, without zone",
}
"""Logical types of which a number is left, and what it counts."""
UNION = "one field per branch of a union"
"""What a struct is of that is no record's: in fields of the same name the values of both would mix."""


@dataclass(frozen=True, slots=True)
class AvroColumns:
    """The columns of a schema without `_kafka`, and what the plan says about them."""

    struct: Struct
    notes: tuple[Note, ...] = ()


def columns(schema: AvroSchema) -> AvroColumns:
    """The columns; a schema that is no record becomes one column `value`, all of them optional.

    Raises SchemaUnsupported, with the path, for names that clash (`check_names`), for reserved names, for
    more nesting than an expression may have, for a map in the key of a map and for a schema that has nothing to store.
    """
    root = schema.root
    _check_nesting(root, (), 0)
    if isinstance(root, Record):
        struct = _struct(root)
    else:
        kind = column_type(root)
        field = Field(WHOLE_VALUE, kind, _remark(root), meaning=_meaning(root)) if kind else None
        struct = Struct((field,) if field else ())
    if not struct.fields:
        raise SchemaUnsupported("", "the schema has no field to store")
    check_names(struct)
    check_reserved(struct)
    return AvroColumns(struct, schema.notes + tuple(_notes(root, ())))


def _check_nesting(node: Node, path: tuple[str, ...], depth: int) -> None:
    """Refuse what the client could not send: a Spark Connect message nests a hundred times at most.

    And what Spark's maps cannot hold: a key that is a map, or has one inside.
    """
    if depth + _leaf_depth(node) > _MAX_DEPTH:
        raise SchemaUnsupported(
            ".".join(path),
            "nested too deeply: about ten records or seven maps are possible, "
            "around a number of more than 38 digits three or two",
        )
    match node:
        case Record(_, fields, logical=""):
            for field in fields:
                _check_nesting(field.type, (*path, field.name), depth + (_RECORD_DEPTH if path else 0))
        case Array(items):
            _check_nesting(items, (*path, "element"), depth + _ARRAY_DEPTH)
        case Entries(key, value):
            _check_nesting(key, (*path, "key"), depth + _MAP_DEPTH)
            if _holds_map(element_type(key)):
                raise SchemaUnsupported(".".join((*path, "key")), "the key of a map is a map or holds one")
            _check_nesting(value, (*path, "value"), depth + _MAP_DEPTH)
        case Union():
            for branch in node.values:
                _check_nesting(branch, path, depth + (_RECORD_DEPTH if len(node.values) > 1 else 0))


def _leaf_depth(node: Node) -> int:
    match node:
        case Record(logical="variable-decimal"):
            return _DIGITS_DEPTH
        case Leaf() | Fixed() if node.logical == "decimal" and node.precision > MAX_PRECISION:
            return _DIGITS_DEPTH
        case Leaf() | Fixed():
            return _LEAF_DEPTH.get(node.logical, 0)
    return 0


def _holds_map(kind: ColumnType) -> bool:
    match kind:
        case Struct(fields):
            return any(_holds_map(field.type) for field in fields)
        case ListType(element):
            return _holds_map(element)
    return isinstance(kind, MapType)


def column_type(node: Node) -> ColumnType | None:  # noqa: PLR0911 - one return per kind of node
    """The column type of a node; None for null alone, which is no column."""
    match node:
        case Leaf() | Fixed():
            return _leaf_type(node)
        case Enum():
            return STRING
        case Record(logical="variable-decimal"):
            return STRING
        case Record():
            return _struct(node) if has_columns(node) else BOOLEAN
        case Array(items):
            return ListType(element_type(items))
        case Entries(key, value):
            return MapType(element_type(key), element_type(value))
        case Union():
            return _union_type(node)


def element_type(node: Node) -> ColumnType:
    """The type of a list element, map part or branch: null alone is a boolean that is always NULL."""
    return column_type(node) or BOOLEAN


def has_columns(record: Record) -> bool:
    """False for a record without fields, or with null fields only: it is a boolean, true when present."""
    return any(not _is_void(field.type) for field in record.fields)


def _is_void(node: Node) -> bool:
    """Null alone, also as the only branch of a union; asked of every record, so it builds no types."""
    return node == NULL or (isinstance(node, Union) and not node.values)


def branch_names(union: Union) -> tuple[str, ...]:
    """The field names of a union's struct, one for each branch that is not null.

    Named by type; a named type by its short name, by its full name with `_` for dots where short names clash.
    """
    kinds = [branch_kind(branch) for branch in union.values]
    short = [kind.rpartition(".")[2] for kind in kinds]
    lower = [name.lower() for name in short]
    return tuple(
        name if lower.count(name.lower()) == 1 else kind.replace(".", "_")
        for name, kind in zip(short, kinds, strict=True)
    )


def _leaf_type(node: Leaf | Fixed) -> ColumnType | None:
    if node == NULL:
        return None
    if node.logical == "decimal":
        return decimal(node.precision, node.scale) if node.precision <= MAX_PRECISION else STRING
    if node.logical == "duration":
        return _DURATION
    if node.logical:
        return _LOGICAL[node.logical]
    return _PLAIN[node.kind] if isinstance(node, Leaf) else BINARY


def _struct(record: Record) -> Struct:
    fields = []
    for field in record.fields:
        kind = column_type(field.type)
        if kind is not None:
            doc = _comment(field.doc or _type_doc(field.type), field.type)
            fields.append(Field(field.name, kind, doc, meaning=_meaning(field.type)))
    return Struct(tuple(fields))


def _union_type(union: Union) -> ColumnType | None:
    if not union.values:
        return None
    if len(union.values) == 1:
        return column_type(union.values[0])
    if merged := merged_numbers(union):
        return _PLAIN[merged]
    pairs = zip(branch_names(union), union.values, strict=True)
    return Struct(
        tuple(
            Field(name, element_type(branch), _comment(_type_doc(branch), branch), meaning=_meaning(branch))
            for name, branch in pairs
        )
    )


def _comment(doc: str, node: Node) -> str:
    return "; ".join(part for part in (doc, _remark(node)) if part)


def _type_doc(node: Node) -> str:
    """The doc of the named type behind an optional."""
    match node:
        case Record(doc=doc) | Enum(doc=doc):
            return doc
        case Union() if len(node.values) == 1:
            return _type_doc(node.values[0])
    return ""


def _remark(node: Node) -> str:  # noqa: PLR0911 - one return per kind of node
    """What the comment must say for the value to be understood, also of what a list or map holds."""
    match node:
        case Leaf() | Fixed() if node.logical == "decimal" and node.precision > MAX_PRECISION:
            if node.scale < 0:
                return f"number of scale {node.scale} as text"
            return f"decimal({node.precision},{node.scale}) as text"
        case Leaf():
            return UNITS.get(node.logical, "")
        case Record() if not has_columns(node):
            return f"true where a {node.name} is present; it has no fields to store"
        case Array(items):
            return _remark(items)
        case Entries(key, value):
            return _of_both(_remark(key), _remark(value))
        case Union() if len(node.values) == 1:
            return _remark(node.values[0])
    return ""


def _meaning(node: Node) -> str:
    """The unit of numbers, where the column type has none, and what a struct is of; also what a list or map holds."""
    match node:
        case Leaf():
            return UNITS.get(node.logical, "")
        case Array(items):
            return _meaning(items)
        case Entries(key, value):
            return _of_both(_meaning(key), _meaning(value))
        case Union() if len(node.values) == 1:
            return _meaning(node.values[0])
        case Union() if node.values and not merged_numbers(node):
            return UNION
    return ""


def _of_both(key: str, value: str) -> str:
    return "; ".join(part for part in (f"keys: {key}" if key else "", value) if part)


def _notes(node: Node, path: tuple[str, ...]) -> list[Note]:
    """Rules that change what a reader of the schema would expect."""
    match node:
        case Record(_, fields) if has_columns(node) and not node.logical:
            return [note for field in fields for note in _field_notes(field.type, (*path, field.name))]
        case Array(items):
            return _notes(items, (*path, "element"))
        case Entries(key, value):
            return _notes(key, (*path, "key")) + _notes(value, (*path, "value"))
        case Union() if len(node.values) == 1:
            return _notes(node.values[0], path)
        case Union() if not merged_numbers(node):
            pairs = zip(branch_names(node), node.values, strict=True)
            return [note for name, branch in pairs for note in _notes(branch, (*path, name))]
    remark = _remark(node)
    return [Note(".".join(path), remark)] if remark else []


def _field_notes(node: Node, path: tuple[str, ...]) -> list[Note]:
    if _is_void(node):
        return [Note(".".join(path), "only null: no column")]
    return _notes(node, path)
