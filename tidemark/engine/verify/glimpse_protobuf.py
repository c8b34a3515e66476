"""The leading fields of a Protobuf value that can be read, for a person who looks for what is wrong with it."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.protobuf import places
from tidemark.engine.schema.protoc import compile_proto

_FIXED = {1: 8, 5: 4}
"""Bytes of a value of these wire types."""
_COUNTED = 2


def read_message(payload: bytes, registered: RegisteredSchema, message: str | None) -> dict[str, Any] | None:
    """{"decoded": …}, and "stops_at" where it does not go to the end; `message` is set when no index leads the bytes.

    Raises:
        ValueError: no such message, or no message index.
        SchemaUnsupported: the schema does not compile.
    """
    descriptors = compile_proto(registered.text, registered.imports)
    at = 0
    if message is None:
        index, at = _index(payload)
        message = next((name for name, place in places(descriptors).items() if place == index), None)
    if message is None:
        return None
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return _longest(payload[at:], pool.FindMessageTypeByName(message), pool)


def _longest(body: bytes, descriptor: Descriptor, pool: DescriptorPool) -> dict[str, Any] | None:
    made = GetMessageClass(descriptor)
    ends = [(end, number) for end, number in _fields(body)]
    for count in range(len(ends), -1, -1):
        end = ends[count - 1][0] if count else 0
        try:
            found = made.FromString(body[:end])
        except DecodeError:
            continue
        shown = {
            "decoded": MessageToDict(found, preserving_proto_field_name=True, descriptor_pool=pool),
        }
        if end == len(body):
            return shown
        number = ends[count][1] if count < len(ends) else _number(body, end)
        field = descriptor.fields_by_number.get(number) if number else None
        return {**shown, "stops_at": f"{field.name if field else f'field {number}'}: byte {end}"}
    return None


def _fields(body: bytes) -> Iterator[tuple[int, int]]:
    """Where each whole field of the message ends, and its number."""
    at = 0
    while at < len(body):
        try:
            tag, at = _varint(body, at)
            kind = tag & 7
            if kind == 0:
                _, at = _varint(body, at)
            elif kind == _COUNTED:
                size, at = _varint(body, at)
                at += size
            else:
                at += _FIXED[kind]
        except (ValueError, KeyError):
            return
        if at > len(body):
            return
        yield at, tag >> 3


def _number(body: bytes, at: int) -> int:
    try:
        return _varint(body, at)[0] >> 3
    except ValueError:
        return 0


def _index(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The message index that leads a value, and where the message begins."""
    count, at = _zigzag(payload, 0)
    if count == 0:
        return (0,), at
    found = []
    for _ in range(count):
        number, at = _zigzag(payload, at)
        found.append(number)
    return tuple(found), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for place in range(at, len(data)):
        number |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return number, place + 1
        shift += 7
    raise ValueError(f"a number ends in the middle at byte {at}")
