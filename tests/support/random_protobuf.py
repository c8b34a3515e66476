"""Random Protobuf schemas, and messages as no library would write them."""

import struct
from random import Random
from typing import Any

from damage import damaged
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tidemark.domain.formats.protobuf_columns import ProtobufMessage


def descriptor_of(schema: ProtobufMessage) -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(schema.root.name)


def varint(number: int, extra: int = 0) -> bytes:
    """As many bytes more than it needs."""
    rest, out = number & (1 << 64) - 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    for _ in range(min(extra, 10 - len(out))):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def sized(content: bytes) -> bytes:
    return varint(len(content)) + content


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


class Scribe:
    """Writes messages, now and then (`oddly`: how often) as no library does or as the schema does not have it.

    Of a map at most one entry is odd: which of several is looked at first is protobuf's own.
    """

    def __init__(self, chance: Random, oddly: float) -> None:
        self.chance = chance
        self.oddly = oddly

    def odd(self) -> bool:
        return self.chance.random() < self.oddly

    def message(self, described: Any) -> bytes:
        out = []
        for field in described.fields:
            times = self.chance.choice([0, 1, 1])
            if is_map(field) and self.oddly:
                times, good = self.chance.choice([0, 1]), Scribe(self.chance, 0)
                out += [good.field(field) for _ in range(self.chance.choice([0, 0, 1, 2]))]
            elif field.is_repeated:
                times = self.chance.choice([0, 1, 2, 4])
            elif field.is_required:
                times = 0 if self.odd() else 1
            elif self.odd():
                times = 2
            out += [self.field(field) for _ in range(times)]
        self.chance.shuffle(out)
        if self.odd():
            out.insert(self.chance.randint(0, len(out)), self.unknown(described))
        return b"".join(out)

    def unknown(self, described: Any) -> bytes:
        known = [field.number for field in described.fields] or [1]
        number = self.chance.choice([*known, 0, 99, 150, 15_000, 536_870_910])
        return self.any(number, self.chance.choice([0, 1, 2, 3, 3, 4, 5, 6]))

    def any(self, number: int, kind: int) -> bytes:
        content = {0: varint(self.chance.getrandbits(64)), 1: b"12345678", 2: sized(b"abc"), 5: b"1234"}
        if kind == 3:
            inner = b"".join(
                self.any(self.chance.randint(1, 9), self.chance.choice([0, 1, 2, 3, 5]))
                for _ in range(self.chance.randint(0, 1))
            )
            return tag(number, 3) + inner + tag(number + self.odd(), 4)
        return tag(number, kind) + content.get(kind, b"")

    def field(self, field: Any) -> bytes:
        if is_map(field):
            return tag(field.number, 2) + sized(self.message(field.message_type))
        if field.is_repeated and self.wire_type(field) != 2 and self.chance.random() < 0.5:
            items = b"".join(self.value(field) for _ in range(self.chance.randint(0, 3)))
            return tag(field.number, 2) + sized(items)
        return tag(field.number, self.wire_type(field)) + self.value(field)

    def wire_type(self, field: Any) -> int:
        if field.type in {field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE}:
            return 2
        if field.type in {field.TYPE_FIXED32, field.TYPE_SFIXED32, field.TYPE_FLOAT}:
            return 5
        return 1 if field.type in {field.TYPE_FIXED64, field.TYPE_SFIXED64, field.TYPE_DOUBLE} else 0

    def value(self, field: Any) -> bytes:  # noqa: PLR0911
        chance = self.chance
        if field.message_type is not None:
            return sized(self.message(field.message_type))
        if field.type == field.TYPE_STRING:
            text = chance.choice(["", "a", "é😀", "x" * 20, "k1", "k2"]).encode()
            return sized(chance.choice([b"\xff", b"\xed\xa0\x80", b"12345678\xc3"]) if self.odd() else text)
        if field.type == field.TYPE_BYTES:
            return sized(chance.randbytes(chance.choice([0, 1, 9])))
        if field.type == field.TYPE_FLOAT:
            return struct.pack("<f", chance.choice([0.0, -0.0, 1.5, float("nan"), float("-inf"), 3.4e38]))
        if field.type == field.TYPE_DOUBLE:
            return struct.pack("<d", chance.choice([0.0, -0.0, 0.1, float("nan"), float("inf"), 5e-324]))
        if self.wire_type(field) == 5:
            return chance.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x80", chance.randbytes(4)])
        if self.wire_type(field) == 1:
            return chance.choice([b"\0" * 8, b"\xff" * 8, b"\0" * 7 + b"\x80", chance.randbytes(8)])
        return varint(self.whole(field), chance.randint(1, 9) if self.odd() else 0)

    def whole(self, field: Any) -> int:
        """The number of a varint."""
        chance = self.chance
        if self.odd():
            return chance.choice([1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 31) - 1, 1 << 63, -(1 << 63)])
        if field.type == field.TYPE_ENUM:
            return chance.choice([0, 1, 5, -3, 70_000, 8])
        if field.containing_type.name in {"Timestamp", "Duration"} and field.name == "nanos":
            return chance.choice([0, 1, 999_999_999])
        if field.containing_type.name == "Timestamp":
            edges = [0, -62_135_596_800, 253_402_300_799, -9_223_372_037, 9_223_372_036]
            return chance.choice([*edges, chance.randint(-(10**9), 10**9)])
        bits = 63 if "64" in str(field.type) or field.type in _LONG else 31
        return chance.choice([0, 1, 127, 128, (1 << bits) - 1, chance.getrandbits(bits)])


_LONG = {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_UINT64}


def payloads_of(schema: ProtobufMessage, chance: Random, good: int, odd: int) -> list[bytes]:
    """Good ones, odd ones, damaged ones, and two in one."""
    described = descriptor_of(schema)
    plain = [Scribe(chance, 0).message(described) for _ in range(good)]
    odds = [Scribe(chance, chance.choice([0.01, 0.05, 0.2])).message(described) for _ in range(odd)]
    spoiled = [damaged(chance, chance.choice(plain + odds)) for _ in range(odd)]
    joined = [chance.choice(plain) + chance.choice(plain + odds) for _ in range(good)]
    return [*plain, *odds, *spoiled, *joined, b""]


class Schemas:
    """Schemas at random."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.messages = 0

    def text(self) -> str:
        syntax = self.chance.choice(["proto2", "proto3"])
        known = "".join(f'import "google/protobuf/{each}.proto"; ' for each in ("timestamp", "wrappers"))
        return (
            f'syntax = "{syntax}"; {known} {self.message("M", syntax, 3)} enum E {{ A = 0; B = 1; C = -1; }}'
        )

    def message(self, name: str, syntax: str, depth: int) -> str:
        inner: list[str] = []
        numbers = self.chance.sample([*range(1, 30), 250, 256, 3000, 536_870_911], self.chance.randint(1, 8))
        fields = [self.field(f"f{number}", number, syntax, depth, inner) for number in numbers]
        if depth > 1 and self.chance.random() < 0.5:
            members = [f"{self.type(depth, syntax, inner)} o{place} = {40 + place};" for place in range(3)]
            fields.append(f"oneof one {{ {' '.join(members)} }}")
        return f"message {name} {{ {' '.join(fields + inner)} }}"

    def field(self, name: str, number: int, syntax: str, depth: int, inner: list[str]) -> str:
        kind = self.chance.choice(["single", "single", "repeated", "map"])
        found = self.type(depth, syntax, inner)
        if kind == "map":
            key = self.chance.choice(["string", "int32", "uint32", "sint64", "fixed64", "bool", "sfixed32"])
            return f"map<{key}, {found}> {name} = {number};"
        if kind == "repeated":
            return f"repeated {found} {name} = {number};"
        label = self.chance.choice(["optional", "required"] if syntax == "proto2" else ["", "optional"])
        return f"{label} {found} {name} = {number};"

    def type(self, depth: int, syntax: str, inner: list[str]) -> str:
        whole = [f"{kind}{bits}" for kind in ("int", "sint", "uint", "fixed", "sfixed") for bits in (32, 64)]
        kinds = [*whole, "bool", "float", "double", "string", "string", "bytes", "E"]
        kinds += [
            f"google.protobuf.{each}" for each in ("Timestamp", "StringValue", "Int32Value", "UInt64Value")
        ]
        if depth and self.chance.random() < 0.4:
            self.messages += 1
            name = f"N{self.messages}"
            inner.append(self.message(name, syntax, depth - 1))
            return name
        return self.chance.choice(kinds)
