"""A Protobuf message as its bytes are read: fields by number, for the server's own decoder.

Belongs here: what `tidemark/jvm/tidemark/protobuf` needs to know of a schema. Message types are told once, however
often they are used; the first is that of the values.
"""

from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.domain.formats.protobuf_nodes import Entries, Known, Message, Node, Repeated, Wrapper
from tidemark.engine.decode.shipped.protobuf_arrow import Reader

_TYPES = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in (
        *("bool", "string", "bytes", "float", "double", "enum", "message"),
        *(f"{kind}{bits}" for kind in ("int", "sint", "uint", "fixed", "sfixed") for bits in (32, 64)),
    )
}
"""All but groups."""
_PYTHON_ONLY = frozenset({"json", "variant"})
_SYNTAXES = {"": False, "proto2": False, "proto3": True}
"""Whether text that is no UTF-8 fails to parse. Editions, where each field says so, are left to Python."""


class _Left(Exception):
    """The message has what is left to Python."""


def fields_of(message: ProtobufMessage) -> dict[str, Any] | None:
    """The message for the server; None where the message holds what is left to Python."""
    pool, teller = DescriptorPool(), _Teller()
    for file in FileDescriptorSet.FromString(message.descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
        teller.syntaxes[file.name] = file.syntax
    try:
        teller.message(pool.FindMessageTypeByName(message.root.name), message.root)
    except _Left:
        return None
    prefixes = Reader(message.descriptors, message.index, message.root).prefixes
    return {
        "prefixes": [prefix.hex() for prefix in prefixes],
        "messages": list(teller.messages.values()),
        "enums": list(teller.enums.values()),
    }


@dataclass
class _Teller:
    """Tells message types and enums by their full names, and where each is in its list."""

    syntaxes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def message(self, found: Descriptor, node: Node) -> int:
        name = found.full_name
        if name not in self.messages:
            if found.GetOptions().message_set_wire_format or self.syntaxes[found.file.name] not in _SYNTAXES:
                raise _Left
            told = self.messages[name] = {}
            self.places[name] = len(self.messages) - 1
            if isinstance(node, Message):
                nodes = {part.name: part.node for part in node.parts}
                told["fields"] = [self.field(each, nodes[each.name]) for each in found.fields]
            else:
                told.update(self.known(found, node))
        return self.places[name]

    def known(self, found: Descriptor, node: Node) -> dict[str, Any]:
        """A message that is no struct, or one without a node of its own for each field."""
        if isinstance(node, Wrapper):
            return {"as": "wrapper", "fields": [self.field(each, node.value) for each in found.fields]}
        if not isinstance(node, Known) or node.kind in _PYTHON_ONLY:
            raise _Left
        if node.kind == "duration":
            return {"fields": [self.field(each, node) for each in found.fields]}
        return {"as": node.kind}

    def field(self, found: FieldDescriptor, node: Node) -> dict[str, Any]:
        told: dict[str, Any] = {"name": found.name, "number": found.number}
        if isinstance(node, Entries):
            entry = found.message_type.fields_by_name
            key = self.single(entry["key"], node.key)
            return told | {"key": key} | self.single(entry["value"], node.value)
        if isinstance(node, Repeated):
            return told | {"repeated": True} | self.single(found, node.item)
        oneof = found.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            told["oneof"] = oneof.index
        if found.is_required:
            told["required"] = True
        if not found.has_presence:
            told["default"] = True
        return told | self.single(found, node)

    def single(self, found: FieldDescriptor, node: Node) -> dict[str, Any]:
        kind = _TYPES.get(found.type)
        match kind:
            case None:
                raise _Left
            case "message":
                return {"type": kind, "of": self.message(found.message_type, node)}
            case "enum":
                return {"type": kind, "of": self.enum(found.enum_type)}
            case "string" if _SYNTAXES[self.syntaxes[found.file.name]]:
                return {"type": kind, "utf8": True}
        return {"type": kind}

    def enum(self, found: EnumDescriptor) -> int:
        """Of names with the same number the first."""
        name = found.full_name
        if name not in self.enums:
            self.places[name] = len(self.enums)
            self.enums[name] = {value.number: value.name for value in reversed(found.values)}
        return self.places[name]
