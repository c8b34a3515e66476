"""Protobuf descriptors, read into the tree that messages are taken apart by (docs/types.md).

Belongs here: which message the values are, and what its fields hold. The text of a schema is compiled to
descriptors by `protoc`; what a node becomes as a column is in `domain.protobuf_columns`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tidemark.domain.columns.names import Path
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro import Note
from tidemark.domain.formats.protobuf_columns import REMARKS, ProtobufMessage
from tidemark.domain.formats.protobuf_nodes import (
    Entries,
    Enum,
    Known,
    KnownKind,
    Message,
    Node,
    Part,
    Repeated,
    Scalar,
    ScalarKind,
    Wrapper,
)

MAX_NODES = 20_000
MAX_DEPTH = 20
_MESSAGES, _FIELDS, _NESTED = 4, 2, 3
"""Field numbers of descriptor.proto that make the path of a comment."""
_SCALARS: Mapping[int, ScalarKind] = {
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "binary",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_SINT32: "int",
    FieldDescriptor.TYPE_SFIXED32: "int",
    FieldDescriptor.TYPE_INT64: "long",
    FieldDescriptor.TYPE_SINT64: "long",
    FieldDescriptor.TYPE_SFIXED64: "long",
    FieldDescriptor.TYPE_UINT32: "uint",
    FieldDescriptor.TYPE_FIXED32: "long",
    FieldDescriptor.TYPE_UINT64: "ulong",
    FieldDescriptor.TYPE_FIXED64: "ulong",
}
_KNOWN: Mapping[str, KnownKind] = {
    "Timestamp": "timestamp",
    "Duration": "duration",
    "Struct": "json",
    "Value": "json",
    "ListValue": "json",
    "Any": "json",
}
_WRAPPERS = frozenset(
    f"{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_PACKAGE = "google.protobuf."


def read(
    descriptors: bytes, name: str | None = None, *, nanos: bool = False, variants: bool = False
) -> ProtobufMessage:
    """The message of this full name in the last file of a FileDescriptorSet, its first one without a name.

    With `nanos` timestamps keep all nine digits, with `variants` JSON is a VARIANT. Raises SchemaUnsupported, with the
    path, for a schema without the message and for a message that contains itself.
    """
    files = FileDescriptorSet.FromString(descriptors).file
    pool = DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:  # what protoc only warns of: two fields with one name in JSON
        raise SchemaUnsupported("", str(error)) from error
    indexes = _indexes(files)
    if not indexes:
        raise SchemaUnsupported("", "the schema has no message")
    if name is not None and name not in indexes:
        raise SchemaUnsupported("", f"the schema has no message {name}: {', '.join(indexes)}")
    chosen = name or next(iter(indexes))
    reader = _Reader(dict(comment for file in files for comment in _comments(file)), nanos, variants)
    root = reader.message(pool.FindMessageTypeByName(chosen), (), ())
    if not isinstance(root, Message):
        raise SchemaUnsupported("", f"{chosen} has no field to store")
    return ProtobufMessage(descriptors, indexes[chosen], root, tuple(reader.notes))


def places(descriptors: bytes) -> dict[str, tuple[int, ...]]:
    """Full names and message indexes of every message in the last file of a FileDescriptorSet."""
    return _indexes(FileDescriptorSet.FromString(descriptors).file)


def _indexes(files: Sequence[FileDescriptorProto]) -> dict[str, tuple[int, ...]]:
    return dict(_places(files[-1].message_type, f".{files[-1].package}".rstrip("."), ())) if files else {}


def _places(
    messages: Iterable[DescriptorProto], prefix: str, index: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Full names of messages and their message indexes, in the order of the file."""
    for number, message in enumerate(messages):
        full = f"{prefix}.{message.name}".lstrip(".")
        yield full, (*index, number)
        yield from _places(message.nested_type, full, (*index, number))


class _Reader:
    """Reads one message; `docs` are comments by the full name of a field."""

    def __init__(self, docs: Mapping[str, str], nanos: bool, variants: bool) -> None:  # noqa: FBT001 - private
        self.docs = docs
        self.nanos = nanos
        self.variants = variants
        self.notes: list[Note] = []
        self.nodes = 0

    def message(self, found: Descriptor, path: Path, opened: tuple[str, ...]) -> Node:
        name = found.full_name
        short = name.removeprefix(_PACKAGE) if name.startswith(_PACKAGE) else ""
        if short in _KNOWN:
            return self.known(_KNOWN[short], path)
        if short in _WRAPPERS:
            return Wrapper(Scalar(_SCALARS[found.fields_by_name["value"].type]))
        if name in opened:
            raise SchemaUnsupported(".".join(path), f"message {name} contains itself")
        self.nodes += len(found.fields)
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise SchemaUnsupported(".".join(path), "the schema is too large or nested too deeply")
        if not found.fields:
            return Known("empty")
        parts = (self.part(field, (*path, field.name), (*opened, name)) for field in found.fields)
        return Message(name, tuple(parts))

    def part(self, field: FieldDescriptor, path: Path, opened: tuple[str, ...]) -> Part:
        return Part(
            field.name,
            self.field(field, path, opened),
            field.has_presence,
            self.docs.get(field.full_name, ""),
        )

    def field(self, field: Any, path: Path, opened: tuple[str, ...]) -> Node:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            if not field.is_repeated:
                raise SchemaUnsupported(
                    ".".join(path), f"an entry of a map, {kind.name}, that is not repeated"
                )
            key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
            return Entries(Scalar(_SCALARS[key.type]), self.single(value, (*path, "value"), opened))
        if field.is_repeated:
            return Repeated(self.single(field, (*path, "element"), opened))
        return self.single(field, path, opened)

    def single(self, field: Any, path: Path, opened: tuple[str, ...]) -> Node:
        if field.message_type is not None:
            return self.message(field.message_type, path, opened)
        if field.enum_type is not None:
            return Enum(tuple((value.number, value.name) for value in reversed(field.enum_type.values)))
        return Scalar(_SCALARS[field.type])

    def known(self, kind: KnownKind, path: Path) -> Node:
        if kind == "timestamp" and self.nanos:
            kind = "timestamp_nanos"
        if kind == "json" and self.variants:
            kind = "variant"
        if remark := REMARKS.get(kind):
            self.notes.append(Note(".".join(path), remark))
        return Known(kind)


def _comments(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    found = {
        tuple(place.path): place.leading_comments.strip() or place.trailing_comments.strip()
        for place in file.source_code_info.location
    }
    for number, message in enumerate(file.message_type):
        prefix = f"{file.package}." if file.package else ""
        yield from _field_comments(message, prefix, (_MESSAGES, number), found)


def _field_comments(
    message: DescriptorProto, prefix: str, path: tuple[int, ...], found: Mapping[tuple[int, ...], str]
) -> Iterator[tuple[str, str]]:
    for number, field in enumerate(message.field):
        if comment := found.get((*path, _FIELDS, number)):
            yield f"{prefix}{message.name}.{field.name}", comment
    for number, nested in enumerate(message.nested_type):
        yield from _field_comments(nested, f"{prefix}{message.name}.", (*path, _NESTED, number), found)
