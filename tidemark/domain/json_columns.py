"""The columns that JSON documents become, and the documents that declared columns expect (TYPES.md).

Belongs here: both directions between nodes and column types, and the names that cannot be columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.domain.avro import Note
from tidemark.domain.avro_columns import RESERVED_PREFIX, WHOLE_VALUE
from tidemark.domain.coverage import check_names
from tidemark.domain.ddl import parse_ddl
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.json_nodes import EXTRA, Entries, Items, Leaf, LeafKind, Node, Object, Property
from tidemark.domain.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    KAFKA_COLUMN,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
)

_TYPES: Mapping[LeafKind, Primitive] = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "double": DOUBLE,
    "string": STRING,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ,
    "text": STRING,
    "document": STRING,
}
_KINDS: Mapping[Primitive, LeafKind] = {kind: name for name, kind in _TYPES.items() if kind != STRING}
_REFUSED = {
    "float": "JSON writes numbers in decimal digits: declare double or a decimal",
    "binary": "JSON has no bytes: declare string",
}


@dataclass(frozen=True, slots=True)
class JsonDocuments:
    """How documents of one writer are read; `schema` is the JSON Schema they must follow, None without one."""

    root: Node
    schema: str | None = None
    notes: tuple[Note, ...] = ()


DOCUMENT = JsonDocuments(Leaf("document"))
"""Documents of which nothing is declared."""


def declared(fields: Mapping[str, str]) -> JsonDocuments:
    """The documents that `value.fields` of a contract expects: column names and Spark DDL types.

    Raises SchemaUnsupported, with the path, for a type that cannot be spelled or filled, and for reserved names.
    """
    properties = tuple(Property(name, _declared(name, ddl)) for name, ddl in fields.items())
    documents = JsonDocuments(Object(properties))
    columns(documents)
    return documents


def columns(documents: JsonDocuments) -> Struct:
    """The columns of the documents; what is no object becomes one column `value`.

    Raises SchemaUnsupported, with the path, for names that clash or are reserved.
    """
    root = documents.root
    struct = (
        _struct(root, ()) if isinstance(root, Object) else Struct((Field(WHOLE_VALUE, column_type(root)),))
    )
    check_names(struct)
    for field in struct.fields:
        if field.name.lower() == KAFKA_COLUMN.name or field.name.lower().startswith(RESERVED_PREFIX):
            raise SchemaUnsupported(field.name, "the name is reserved")
    return struct


def column_type(node: Node, path: tuple[str, ...] = ()) -> ColumnType:
    """The column type of a node."""
    match node:
        case Leaf("decimal"):
            return decimal(node.precision, node.scale)
        case Leaf():
            return _TYPES[node.kind]
        case Items(item):
            return ListType(column_type(item, (*path, "element")))
        case Entries(value):
            return MapType(STRING, column_type(value, (*path, "value")))
        case Object():
            return _struct(node, path)


def _struct(node: Object, path: tuple[str, ...]) -> Struct:
    fields = [Field(p.name, column_type(p.node, (*path, p.name)), p.doc) for p in node.properties]
    if node.is_open:
        if any(field.name.lower() == EXTRA for field in fields):
            raise SchemaUnsupported(
                ".".join((*path, EXTRA)), "the name is reserved for what an open object holds undeclared"
            )
        fields.append(Field(EXTRA, STRING, "JSON text of the fields that are not declared"))
    return Struct(tuple(fields))


def _declared(path: str, ddl: str) -> Node:
    try:
        return _node(parse_ddl(ddl), path)
    except ValueError as error:
        raise SchemaUnsupported(path, str(error)) from error


def _node(kind: ColumnType, path: str) -> Node:
    match kind:
        case ListType(element):
            return Items(_node(element, f"{path}.element"))
        case MapType(key, value):
            if key != STRING:
                raise SchemaUnsupported(f"{path}.key", f"keys of a JSON object are strings, not {key}")
            return Entries(_node(value, f"{path}.value"))
        case Struct(fields):
            return Object(tuple(Property(f.name, _node(f.type, f"{path}.{f.name}"), f.doc) for f in fields))
        case Primitive(name) if name in _REFUSED:
            raise SchemaUnsupported(path, _REFUSED[name])
        case Primitive() if kind.decimal:
            return Leaf("decimal", *kind.decimal)
    return Leaf(_KINDS.get(kind, "string"))
