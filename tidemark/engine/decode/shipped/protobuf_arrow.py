"""Protobuf messages to Arrow columns, a batch at a time.

Belongs here: the message index of the wire format, parsing by protobuf's C decoder, and columns of values out of
columns of messages. Whatever a message holds that its schema does not know is a fault: a field of another wire
type would otherwise read as if it were not there.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tidemark.domain.formats.protobuf_nodes import (
    Entries,
    Enum,
    Known,
    Message,
    Node,
    Repeated,
    Scalar,
    Wrapper,
)
from tidemark.engine.decode.shipped import protobuf_json
from tidemark.engine.decode.shipped.batch import causes_and_rows
from tidemark.engine.decode.shipped.protobuf_faults import ProtobufFault, nothing_unknown

Array = Any
Type = Any
"""What pyarrow makes and is given; its stubs ask for more type arguments than are known here."""

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999."""
_INT = Scalar("int")
_OF_32_BITS = {"int": pa.int32(), "uint": pa.uint32()}
_LIMITS = {"int": (-(1 << 31), (1 << 31) - 1), "uint": (0, (1 << 32) - 1)}
_BILLION = 1_000_000_000
_WIDE = {
    FieldDescriptorProto.TYPE_ENUM: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_INT32: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_SINT32: FieldDescriptorProto.TYPE_SINT64,
    FieldDescriptorProto.TYPE_UINT32: FieldDescriptorProto.TYPE_UINT64,
}
"""Types of the same bytes."""
_NO_UTF8 = "no UTF-8"
_MAX_DEPTH = 16
"""Of a message index: messages nest less."""


class Reader:
    """Reads one message type; made where it is first used, for its classes do not travel."""

    def __init__(self, descriptors: bytes, index: tuple[int, ...], root: Message) -> None:
        self.arguments = (descriptors, index, root)
        self.root = root
        prefix = _varint(len(index)) + b"".join(map(_varint, index)) if index else b""
        self.prefixes = (prefix, b"\0") if index == (0,) else (prefix,)
        self._made: tuple[Any, DescriptorPool] | None = None

    def __reduce__(self) -> tuple[type["Reader"], tuple[Any, ...]]:
        return Reader, self.arguments

    def rows(self, values: Sequence[bytes | None], target: Type) -> tuple[list[str | None], Array]:
        """Causes (None for a good value) and rows, both as long as `values`; NULL in, NULL out."""

        def cause_of(value: bytes) -> str | None:
            fault = self.fault_of(value)
            return fault.cause if fault else None

        return causes_and_rows(values, lambda some: self._built(some, target), cause_of)

    def fault_of(self, value: bytes) -> ProtobufFault | None:
        """What is wrong with one value after the schema id."""
        unreadable: list[str] = []
        try:
            message = self.parsed(value)
            if not _is_initialized(message):
                return ProtobufFault("invalid_against_schema", f"required and missing: {_named(message)}")
            self._check(self.root, message, "", unreadable)
        except ProtobufFault as fault:
            return fault
        return ProtobufFault("undecodable", _NO_UTF8, unreadable[0]) if unreadable else None

    def parsed(self, value: bytes) -> Any:
        """The message of one value. Raises ProtobufFault."""
        for prefix in self.prefixes:
            if value.startswith(prefix):
                try:
                    return self._class.FromString(value[len(prefix) :])
                except DecodeError:
                    reason = (
                        f"the bytes are no {self.root.name}: truncated, damaged, more than 100 messages in one "
                        "another, or a string that is no UTF-8"
                    )
                    raise ProtobufFault("undecodable", reason) from None
        index = _message_index(value)
        if index is None:
            raise ProtobufFault("undecodable", "no message index follows the schema id")
        reason = f"message index {list(index)} of the schema, the table is for {self.root.name}"
        raise ProtobufFault("wrong_message_type", reason)

    def _built(self, values: Sequence[bytes | None], target: Type) -> Array:
        messages = [None if value is None else self.parsed(value) for value in values]
        if not all(_is_initialized(message) for message in messages if message is not None):
            raise ProtobufFault("invalid_against_schema", "a required field is missing")
        return self._column(self.root, messages, target)

    @property
    def _class(self) -> Any:
        return self._loaded()[0]

    def _loaded(self) -> tuple[Any, DescriptorPool]:
        """The class of the message, with enums as numbers, and the schema as it is, for JSON."""
        if self._made is None:
            descriptors, _, root = self.arguments
            plain, original = DescriptorPool(), DescriptorPool()
            for file in FileDescriptorSet.FromString(descriptors).file:
                original.AddSerializedFile(file.SerializeToString())
                file.ClearField("extension")
                for message in file.message_type:
                    _as_written(message)
                plain.AddSerializedFile(file.SerializeToString())
            self._made = GetMessageClass(plain.FindMessageTypeByName(root.name)), original
        return self._made

    def _column(  # noqa: PLR0911 - one case per kind of node
        self, node: Node, values: Sequence[Any], target: Type
    ) -> Array:
        """Values of one place in many messages as an array of the type `target`, which covers the node."""
        match node:
            case Message():
                return self._struct(node, values, target)
            case Repeated():
                inner = list(chain.from_iterable(value for value in values if value is not None))
                item = self._column(node.item, inner, target.value_type)
                return pa.ListArray.from_arrays(_offsets(values), item, type=target, mask=_nulls(values))
            case Entries():
                pairs = [pair for value in values if value is not None for pair in value.items()]
                keys = self._column(node.key, [key for key, _ in pairs], target.key_type)
                items = self._column(node.value, [item for _, item in pairs], target.item_type)
                return pa.MapArray.from_arrays(
                    _offsets(values), keys, items, type=target, mask=_nulls(values)
                )
            case Known("timestamp"):
                micros = pa.array([value and self._value(node, value) for value in values], pa.int64())
                return micros.cast(target)
            case Known("duration"):
                found = [value and self._value(node, value) for value in values]
                pairs = [value and {"seconds": value.seconds, "nanos": value.nanos} for value in found]
                return pa.array(pairs, target)
            case Enum():
                names = dict(node.names)
                return pa.array(
                    [value if value is None else names.get(value, str(value)) for value in values], target
                )
            case Known() | Wrapper():
                found = [None if value is None else self._value(node, value) for value in values]
                return pa.array(found, _arrow(node, target)).cast(target)
        return pa.array(values, _arrow(node, target)).cast(target)

    def _struct(self, node: Message, values: Sequence[Any], target: Type) -> Array:
        nothing_unknown(values)
        parts = {part.name: part for part in node.parts}
        arrays = []
        for field in target:
            part = parts.get(field.name)
            if part is None:
                arrays.append(pa.nulls(len(values), field.type))
                continue
            name = part.name
            if part.has_presence:
                found = [
                    getattr(value, name) if value is not None and _has(value, name) else None
                    for value in values
                ]
            else:
                found = [None if value is None else getattr(value, name) for value in values]
            arrays.append(self._column(part.node, found, field.type))
        return pa.StructArray.from_arrays(arrays, fields=list(target), mask=_nulls(values))

    def _value(self, node: Node, value: Any) -> Any:  # noqa: PLR0911 - one case per kind of node
        """One value that needs converting or checking. Raises ProtobufFault."""
        if isinstance(node, Scalar):
            return _of_32_bits(node, value)
        nothing_unknown([value])
        match node:
            case Wrapper():
                return _of_32_bits(node.value, value.value)
            case Known("timestamp"):
                return _micros(value)
            case Known("timestamp_nanos"):
                return _nanos(value)
            case Known("duration"):
                _of_32_bits(_INT, value.nanos)
            case Known("empty"):
                return True
            case Known("json"):
                return protobuf_json.text(value, self._loaded()[1])
            case Known("variant"):
                return protobuf_json.variant_text(value, self._loaded()[1])
        return value

    def _check(self, node: Node, value: Any, path: str, unreadable: list[str]) -> None:
        """Raises ProtobufFault with the place of the first fault.

        The places of proto2's strings that are no UTF-8 go to `unreadable`; a key of a map is looked up, and raises.
        """
        match node:
            case Message():
                nothing_unknown([value], path)
            case Scalar("string"):
                if isinstance(value, bytes):
                    unreadable.append(path)
            case Scalar() | Known() | Wrapper():
                try:
                    self._value(node, value)
                except ProtobufFault as fault:
                    raise ProtobufFault(fault.cause, str(fault), path) from None
        for part, inner, place in _inside(node, value, path):
            self._check(part, inner, place, unreadable)


def _inside(node: Node, value: Any, path: str) -> Iterator[tuple[Node, Any, str]]:
    """What lies in a value, and where. Raises ProtobufFault at a key that cannot be looked up."""
    match node:
        case Message():
            for part in node.parts:
                if not part.has_presence or _has(value, part.name):
                    yield part.node, getattr(value, part.name), f"{path}.{part.name}".lstrip(".")
        case Repeated():
            for item in value:
                yield node.item, item, f"{path}.element"
        case Entries():
            for key in value:
                if isinstance(key, bytes):
                    raise ProtobufFault("undecodable", _NO_UTF8, f"{path}.key")
                yield node.key, key, f"{path}.key"
                yield node.value, value[key], f"{path}.value"


def _has(message: Any, name: str) -> bool:
    """Whether a field with presence is set; asked of the class, for a field may have the method's name."""
    return bool(type(message).HasField(message, name))


def _is_initialized(message: Any) -> bool:
    return bool(type(message).IsInitialized(message))


def _named(message: Any) -> str:
    try:
        return ", ".join(_missing(message))
    except UnicodeDecodeError:
        return "a field beside a key that is no UTF-8"


def _missing(message: Any, path: str = "") -> Iterator[str]:
    """Required fields that are unset; protobuf's own FindInitializationErrors reads memory that is not its."""
    for field in message.DESCRIPTOR.fields:
        name = f"{path}{field.name}"
        if field.message_type is None or not field.is_repeated:
            if field.has_presence and not _has(message, field.name):
                if field.is_required:
                    yield name
            elif field.message_type is not None:
                yield from _missing(getattr(message, field.name), f"{name}.")
        elif field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key, item in getattr(message, field.name).items():
                    yield from _missing(item, f"{name}[{key}].")
        else:
            for place, item in enumerate(getattr(message, field.name)):
                yield from _missing(item, f"{name}[{place}].")


def _arrow(node: Node, target: Type) -> Type:
    """The type in which a number that is beyond its own type raises, although a wider column would hold it."""
    scalar = node.value if isinstance(node, Wrapper) else node
    return _OF_32_BITS.get(scalar.kind, target) if isinstance(scalar, Scalar) else target


def _of_32_bits(scalar: Scalar, value: Any) -> Any:
    """The value. Raises ProtobufFault where its type has 32 bits and it needs more."""
    if scalar.kind in _LIMITS and not _LIMITS[scalar.kind][0] <= value <= _LIMITS[scalar.kind][1]:
        raise ProtobufFault("value_out_of_range", f"{value} in a number of 32 bits")
    return value


def _micros(value: Any) -> int:
    _in_range(value)
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1000


def _nanos(value: Any) -> int:
    _in_range(value)
    found = int(value.seconds) * _BILLION + int(value.nanos)
    if not -(1 << 63) <= found < 1 << 63:
        raise ProtobufFault("value_out_of_range", f"{value.seconds} s are more nanoseconds than 64 bits hold")
    return found


def _in_range(value: Any) -> None:
    if not (_FIRST_SECOND <= value.seconds <= _LAST_SECOND and 0 <= value.nanos < _BILLION):
        raise ProtobufFault(
            "value_out_of_range", f"{value.seconds} s, {value.nanos} ns is no time of the years 1 to 9999"
        )


def _as_written(message: DescriptorProto) -> None:
    """Fields as their bytes say, whose decoder would keep the low 32 bits of a longer number in silence.

    Enums are numbers, so that none goes to the unknown fields; extensions are not fields of the message.
    """
    message.ClearField("extension")
    for field in message.field:
        if field.type == FieldDescriptorProto.TYPE_ENUM:
            field.ClearField("type_name")
            field.ClearField("default_value")
        field.type = _WIDE.get(field.type, field.type)
    for nested in message.nested_type:
        _as_written(nested)


def _varint(number: int) -> bytes:
    """A number from 0 on as a zigzag varint."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits at a time
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _message_index(value: bytes) -> tuple[int, ...] | None:
    """The message index at the start of a value, None when there is none."""
    numbers, shift, number = [], 0, 0
    for byte in value[: 5 * _MAX_DEPTH]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            numbers.append((number >> 1) ^ -(number & 1))
            shift = number = 0
            if numbers[0] == 0:
                return (0,)
            if numbers[0] < 0 or numbers[0] > _MAX_DEPTH:
                return None
            if len(numbers) > numbers[0]:
                return tuple(numbers[1:])
    return None


def _nulls(values: Sequence[Any]) -> Array | None:
    mask = [value is None for value in values]
    return pa.array(mask) if any(mask) else None


def _offsets(values: Sequence[Any]) -> Array:
    lengths = (0 if value is None else len(value) for value in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())
