"""The columns that JSON documents become, and the documents that declared columns expect (docs/types.md).

Belongs here: both directions between nodes and column types, and the names that cannot be columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tidemark.domain.columns.ddl import parse_ddl
from tidemark.domain.columns.names import check_names, check_reserved
from tidemark.domain.columns.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
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
from tidemark.domain.formats.avro import Note
from tidemark.domain.formats.avro_columns import WHOLE_VALUE
from tidemark.domain.formats.json_nodes import EXTRA, Entries, Items, Leaf, LeafKind, Node, Object, Property

EXTRA_DOC = "JSON text of the fields that are not declared"
"""Of the column EXTRA: no field of a source has this comment."""
_TYPES: Mapping[LeafKind, Primitive] = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ,
    "text": STRING,
    "document": STRING,
    "variant": VARIANT,
}
_KINDS: Mapping[Primitive, LeafKind] = {
    kind: name for name, kind in _TYPES.items() if kind not in {STRING, VARIANT}
}
Shape = Literal["plain", "debezium", "debezium_flat", "key", "part_of_key"]
_REFUSED = {
    "float": "JSON writes numbers in decimal digits: declare double or a decimal",
    "binary": "JSON has no bytes: declare string",
}


@dataclass(frozen=True, slots=True)
class JsonDocuments:
    """How documents of one writer are read; `schema` is the JSON Schema they must follow, None without one.

    `shape` is what stands around the document that `root` describes; with `truncates` a truncation is a row.
    `title` is the schema's, by which events are routed.
    """

    root: Node
    schema: str | None = None
    notes: tuple[Note, ...] = ()
    shape: Shape = "plain"
    truncates: bool = False
    title: str | None = None


DOCUMENT = JsonDocuments(Leaf("document"))
"""Documents of which nothing is declared."""


def with_variants(documents: JsonDocuments) -> JsonDocuments:
    """The same documents for a table of format 3, where what has no single type is a VARIANT."""
    notes = tuple(replace(note, text=note.text.replace("JSON text", "VARIANT")) for note in documents.notes)
    return replace(documents, root=_with_variants(documents.root), notes=notes)


def _with_variants(node: Node) -> Node:
    match node:
        case Leaf("text" | "document"):
            return Leaf("variant")
        case Items(item):
            return Items(_with_variants(item))
        case Entries(value):
            return Entries(_with_variants(value))
        case Object():
            return replace(
                node, properties=tuple(replace(p, node=_with_variants(p.node)) for p in node.properties)
            )
    return node


def with_texts(documents: JsonDocuments, columns: Struct) -> JsonDocuments:
    """The same documents for a table that had columns as text before it became format 3: these stay as they came."""
    root = documents.root
    if isinstance(root, Object):
        return replace(documents, root=_with_texts(root, columns))
    stored = columns.field(WHOLE_VALUE)
    if root != Leaf("variant") or stored is None or stored.type != STRING:
        return replace(documents, root=_with_texts(root, stored.type)) if stored else documents
    return replace(documents, root=Leaf("text" if documents.schema else "document"))


def _with_texts(node: Node, kind: ColumnType) -> Node:
    match node, kind:
        case Leaf("variant"), Primitive("string"):
            return Leaf("text")
        case Items(item), ListType(element):
            return Items(_with_texts(item, element))
        case Entries(value), MapType(_, inner):
            return Entries(_with_texts(value, inner))
        case Object(), Struct():
            parts = ((p, kind.field(p.name)) for p in node.properties)
            return replace(
                node,
                properties=tuple(replace(p, node=_with_texts(p.node, f.type)) if f else p for p, f in parts),
            )
    return node


def declared(fields: Mapping[str, str], *, with_bytes: bool = False) -> JsonDocuments:
    """The documents that `value.fields` of a contract expects: column names and Spark DDL types.

    Documents of Kafka Connect's converter know bytes too.

    Raises SchemaUnsupported, with the path, for a type that cannot be spelled or filled, and for reserved names.
    """
    properties = tuple(
        Property(name, _declared(name, ddl, with_bytes=with_bytes)) for name, ddl in fields.items()
    )
    documents = JsonDocuments(Object(properties))
    columns(documents)
    return documents


def columns(documents: JsonDocuments) -> Struct:
    """The columns of the documents; what is no object becomes one column `value`.

    Raises SchemaUnsupported, with the path, for names that clash or are reserved.
    """
    root = documents.root
    struct = (
        _struct(root, ())
        if isinstance(root, Object)
        else Struct(
            (Field(WHOLE_VALUE, column_type(root), meaning=_meaning(root) if documents.schema else ""),)
        )
    )
    check_names(struct)
    check_reserved(struct)
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
    fields = [
        Field(p.name, column_type(p.node, (*path, p.name)), p.doc, meaning=_meaning(p.node))
        for p in node.properties
    ]
    if node.is_open:
        if any(field.name.lower() == EXTRA for field in fields):
            raise SchemaUnsupported(
                ".".join((*path, EXTRA)), "the name is reserved for what an open object holds undeclared"
            )
        fields.append(Field(EXTRA, STRING, EXTRA_DOC))
    return Struct(tuple(fields))


def _meaning(node: Node) -> str:
    """JSON text is no other text: a string would stand in it in quotes; also of what a list or map holds."""
    match node:
        case Items(inner) | Entries(inner):
            return _meaning(inner)
        case Leaf("text" | "variant"):
            return "JSON text"
    return ""


def _declared(path: str, ddl: str, *, with_bytes: bool) -> Node:
    try:
        return node_of(parse_ddl(ddl), path, with_bytes=with_bytes)
    except ValueError as error:
        raise SchemaUnsupported(path, str(error)) from error


def node_of(kind: ColumnType, path: str, *, with_bytes: bool = False) -> Node:
    """What JSON must hold to fill a column.

    Raises SchemaUnsupported, with the path, for a type that JSON cannot fill.
    """
    match kind:
        case ListType(element):
            return Items(node_of(element, f"{path}.element", with_bytes=with_bytes))
        case MapType(key, value):
            if key != STRING:
                raise SchemaUnsupported(f"{path}.key", f"keys of a JSON object are strings, not {key}")
            return Entries(node_of(value, f"{path}.value", with_bytes=with_bytes))
        case Struct(fields):
            parts = ((f, node_of(f.type, f"{path}.{f.name}", with_bytes=with_bytes)) for f in fields)
            return Object(tuple(Property(f.name, node, f.doc) for f, node in parts))
        case Primitive(name) if name in _REFUSED and not (with_bytes and kind == BINARY):
            raise SchemaUnsupported(path, _REFUSED[name])
        case Primitive() if kind.decimal:
            return Leaf("decimal", *kind.decimal)
    return Leaf(_KINDS.get(kind, "string"))
