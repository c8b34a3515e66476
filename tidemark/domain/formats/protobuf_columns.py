"""The columns that a Protobuf message becomes: docs/types.md's Protobuf table, row by row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemark.domain.columns.names import check_names, check_reserved
from tidemark.domain.columns.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
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
from tidemark.domain.formats.avro import Note
from tidemark.domain.formats.protobuf_nodes import (
    Entries,
    Known,
    KnownKind,
    Message,
    Node,
    Repeated,
    Scalar,
    ScalarKind,
    Wrapper,
)

REMARKS: Mapping[str, str] = {
    "timestamp": "at microseconds, finer digits are left out; value.types: {timestamp_nanos: long} keeps all nine",
    "timestamp_nanos": "nanoseconds since 1970-01-01T00:00:00Z",
    "json": "canonical JSON as text",
}
"""What the comment of a column says about the values in it, by KnownKind."""
MEANINGS = {kind: REMARKS[kind] for kind in ("timestamp_nanos", "json")} | {"variant": REMARKS["json"]}
"""Of these, what the type of the column does not tell: text and VARIANT hold the same JSON."""

_SCALARS: Mapping[ScalarKind, ColumnType] = {
    "boolean": BOOLEAN,
    "int": INT,
    "uint": LONG,
    "long": LONG,
    "ulong": decimal(20, 0),
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
}
_KNOWN: Mapping[KnownKind, ColumnType] = {
    "timestamp": TIMESTAMPTZ,
    "timestamp_nanos": LONG,
    "duration": Struct((Field("seconds", LONG), Field("nanos", INT))),
    "json": STRING,
    "variant": VARIANT,
    "empty": BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class ProtobufMessage:
    """One message of a compiled schema.

    `descriptors` is a serialized FileDescriptorSet, dependencies first; `index` the message's place in its last
    file, as the wire format gives it; it is empty where values are the message alone.
    """

    descriptors: bytes
    index: tuple[int, ...]
    root: Message
    notes: tuple[Note, ...] = ()


def columns(message: ProtobufMessage) -> Struct:
    """The columns, all of them optional.

    Raises SchemaUnsupported, with the path, for names that clash (`check_names`) and for reserved names.
    """
    struct = _struct(message.root)
    check_names(struct)
    check_reserved(struct)
    return struct


def with_texts(message: ProtobufMessage, columns: Struct) -> ProtobufMessage:
    """The same message for a table that had some columns as text before it became format 3: these stay as they came."""
    root = _with_texts(message.root, columns)
    return replace(message, root=root) if isinstance(root, Message) else message


def _with_texts(node: Node, kind: ColumnType) -> Node:
    match node, kind:
        case Known("variant"), Primitive("string"):
            return Known("json")
        case Repeated(item), ListType(element):
            return Repeated(_with_texts(item, element))
        case Entries(key, value), MapType(_, inner):
            return Entries(key, _with_texts(value, inner))
        case Message(), Struct():
            parts = ((part, kind.field(part.name)) for part in node.parts)
            return replace(
                node,
                parts=tuple(replace(p, node=_with_texts(p.node, f.type)) if f else p for p, f in parts),
            )
    return node


def column_type(node: Node) -> ColumnType:
    """The column type of a node."""
    match node:
        case Scalar(kind) | Wrapper(Scalar(kind)):
            return _SCALARS[kind]
        case Known():
            return _KNOWN[node.kind]
        case Repeated(item):
            return ListType(column_type(item))
        case Entries(key, value):
            return MapType(column_type(key), column_type(value))
        case Message():
            return _struct(node)
    return STRING


def _struct(message: Message) -> Struct:
    return Struct(
        tuple(
            Field(
                part.name,
                column_type(part.node),
                _comment(part.doc, part.node),
                meaning=MEANINGS.get(_kind(part.node), ""),
            )
            for part in message.parts
        )
    )


def _comment(doc: str, node: Node) -> str:
    return "; ".join(part for part in (doc, REMARKS.get(_kind(node), "")) if part)


def _kind(node: Node) -> str:
    """The message of a meaning of its own that a field holds, in a list or map too; empty for every other."""
    while isinstance(node, Repeated | Entries):
        node = node.item if isinstance(node, Repeated) else node.value
    return node.kind if isinstance(node, Known) else ""
