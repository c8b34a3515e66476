"""Random trees of declared columns, and documents that are nearly of them."""

import json
from random import Random
from typing import Any

from tidemark.domain.formats.json_nodes import Entries, Items, Leaf, LeafKind, Node, Object, Property

_KINDS: tuple[LeafKind, ...] = (
    "boolean",
    "int",
    "long",
    "double",
    "string",
    "date",
    "timestamp",
    "timestamptz",
    "text",
)
_NAMES = ("id", "a.b", "Größe", "😀", 'quo"te', "back\\slash", "x y", "n", "ключ")
_NUMBERS_TEXT = (
    "0 -0 -0.0 0.0 0e0 1 -1 12 1.0 1.50 100e-2 1e2 1E+2 0.1 1.239 -1.5e-3 0.000001 0.0000001 1e-7 1e22 1e23 123456e-27 "
    "2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775808 "
    "9007199254740992 9007199254740993 18014398509481984 123456789012345678 1234567890123456789 999999999999999999 "
    "1e400 -1e400 1e-400 0e400 -0e-400 4.9e-324 2e-324 1.7976931348623157e308 1.8e308 1e999999999999999999 "
    "1e1000000000000000000 1e-999999999999999999 10e999999999999999999 0.1e1000000000000000000 0e9999999999999999999 "
    "1e18446744073709551618 7e+18446744073709551617 1e-18446744073709551617 5e-0018446744073709551618 1e00000000000000000002 "
    "1e129127208515966861315 2.5e55340232221128654850 3e-36893488147419103233 1e184467440737095516162 1e9223372036854775810 "
    "99999999999999999999999999999999999999 100000000000000000000000000000000000000 0.00000000000000000000000000000001 "
    "1180591620717411303424 100000000000000000000000000000.00 1.00000000000000000000000000000000000000000000 5e-1 "
    "01 1. .5 1e 1e+ +1 - -a 1a NaN Infinity 0x10 1_000 00 -01 1.e5"
)
_NUMBERS = _NUMBERS_TEXT.split()
_TIMES_TEXT = (
    "2026-01-31T23:59:59Z 2026-01-31T23:59:59 2026-01-31 2026-02-29 2024-02-29T00:00:00z 0001-01-01T00:00:00Z 2026-1-31 "
    "0001-01-01T00:00:00+00:01 0000-01-01T00:00:00Z 0000-01-01 9999-12-31T23:59:59.999999Z 9999-12-31T23:59:59-00:01 "
    "2026-01-31T24:00:00Z 2026-01-31T23:60:00Z 2026-01-31T23:59:60Z 2026-01-31T23:59:59.1234560000+23:59 2026-13-01 "
    "2026-01-31T23:59:59.1234567Z 2026-01-31T23:59:59.Z 2026-01-31T23:59:59.5 2026-01-31t23:59:59,5Z 1582-10-10 2026-01-00 "
    "2026-01-31T23:59:59+24:00 2026-01-31T23:59:59+01:60 2026-01-31T23:59:59+0100 2026-01-31T23:59Z 20260131 1969-12-31 "
    "1969-12-31T23:59:59.999999 1900-02-29 2000-02-29 2026-01-31T23:59:59.000001-12:30 2026-01-31T23:59:59Zz 9999-12-31"
)
_TIMES = [*_TIMES_TEXT.split(), "2026-01-31 23:59:59Z", "２026-01-31", "2026-01-31T23:59:59 Z", ""]
_TEXTS = (
    '""',
    '"plain"',
    '"é😀"',
    '"\\u00e9\\uD83D\\ude00"',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"',
    '"\\ud800"',
    '"\\udc00x"',
    '"\\ud83d\\u0041"',
    '"\\x"',
    '"\\u12"',
    '"tab\there"',
    '"open',
    '"nul\\u0000"',
    '"' + "long " * 40 + '"',
)
_ANY = (
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "[1, 2.50, [null]]",
    '{"a": {"b": 1E5}, "c": "\\u00e9"}',
    "tru",
    "nulL",
    "[1,]",
)
_BROKEN = (
    '{"a": 1, "a": 2}',
    '{"a": 1,}',
    "{1: 2}",
    '{"a" 1}',
    '{"a": 1, "\\u0061": 2}',
    "{a: 1}",
    "[1 2]",
    "[,]",
    "",
)
Said = tuple[dict[str, Any], ...]


class Maker:
    """Trees, and for them documents; `wild` of 0 makes documents that land."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def object(self, width: int, depth: int) -> Object:
        """A tree of so many properties and levels."""
        names = self.chance.sample(_NAMES, min(width, len(_NAMES)))
        return Object(
            tuple(Property(name, self.node(depth - 1)) for name in names), is_open=self.chance.random() < 0.7
        )

    def node(self, depth: int) -> Node:
        match self.chance.randrange(8) if depth else 3:
            case 0:
                return Items(self.node(depth - 1))
            case 1:
                return Entries(self.node(depth - 1))
            case 2:
                return self.object(self.chance.randint(1, 4), depth)
        if self.chance.random() < 0.2:
            scale = self.chance.randint(0, 20)
            return Leaf("decimal", self.chance.randint(max(scale, 1), 38), scale)
        return Leaf(self.chance.choice(_KINDS))

    def text(self, node: Node, wild: float) -> str:
        """A document, or what is none, as text."""
        chance = self.chance
        if chance.random() < wild:
            return self.anything()
        if chance.random() < 0.1:
            return "null"
        match node:
            case Items(item):
                return self.listed([self.text(item, wild) for _ in range(chance.randrange(4))], "[]")
            case Entries(value):
                keys = chance.sample(_NAMES, chance.randrange(4))
                return self.listed([f"{self.key(key)}:{self.text(value, wild)}" for key in keys], "{}")
            case Object(properties):
                members = [
                    f"{self.key(p.name)}:{self.text(p.node, wild)}"
                    for p in properties
                    if chance.random() < 0.9
                ]
                members += [f'"more{n}":{self.value(wild)}' for n in range(chance.choice((0, 0, 0, 1, 2)))]
                if chance.random() < 0.3:
                    chance.shuffle(members)
                if members and chance.random() < wild:
                    members.append(chance.choice(members))
                return self.listed(members, "{}")
        return self.leaf(node.kind)

    def schema(self, node: Node) -> dict[str, Any]:
        """A JSON Schema of the node, which may say more: what is required, bounds, one of some texts."""
        chance = self.chance
        said = self.typed(node)
        if "type" in said and chance.random() < 0.3:
            return chance.choice(
                (
                    {**said, "type": [said["type"], "null"]},
                    {"oneOf": [{"type": "null"}, said]},
                    {"anyOf": [said, {"type": "null"}], "title": "maybe"},
                    {"allOf": [said]},
                )
            )
        return {**said, "description": "x", "x-odd": 1} if chance.random() < 0.2 else said

    def typed(self, node: Node) -> dict[str, Any]:
        chance = self.chance
        match node:
            case Items(item):
                most = {"minItems": 1, "maxItems": 2} if chance.random() < 0.3 else {}
                return {"type": "array", "items": self.schema(item), **most}
            case Entries(value):
                return {"type": "object", "additionalProperties": self.schema(value)}
            case Object(properties):
                names = [prop.name for prop in properties if chance.random() < 0.3]
                said = {
                    "properties": {prop.name: self.schema(prop.node) for prop in properties},
                    **({"required": names} if chance.random() < 0.5 else {}),
                    **({} if node.is_open else {"additionalProperties": False}),
                }
                return said if chance.random() < 0.2 else {"type": "object", **said}
        return self.value_schema(node)

    def value_schema(self, leaf: Leaf) -> dict[str, Any]:
        texts: Said = (
            {"enum": ["", "é", "a\nb", None]},
            {"minLength": 1, "maxLength": 3},
            {"const": "é"},
            {},
            {},
        )
        bounds: Said = (
            {"minimum": 0},
            {"exclusiveMaximum": 12.25, "minimum": -99},
            {"maximum": 7, "exclusiveMinimum": 0},
            {"minimum": -1, "maximum": 2**70},
            {},
        )
        schemas: dict[str, dict[str, Any]] = {
            "text": {},
            "boolean": {"type": "boolean"},
            "date": {"type": "string", "format": "date"},
            "timestamp": {"type": "string", "format": "date-time"},
            "timestamptz": {"type": "string", "format": "date-time"},
            "string": {"type": "string", **self.chance.choice(texts)},
        }
        number = {"type": self.chance.choice(("integer", "number")), **self.chance.choice(bounds)}
        return schemas.get(leaf.kind, number)

    def leaf(self, kind: str) -> str:
        year = self.chance.randint(1000, 9998)
        choices = {
            "boolean": ("true", "false"),
            "date": ('"2026-01-31"',),
            "timestamp": (f'"{year}-01-02T03:04:05.6"',),
            "timestamptz": (f'"{year}-12-31T03:04:05.678901Z"', f'"{year}-12-31T03:04:05.678901-01:30"'),
            "text": (self.value(0),),
            "string": [json.dumps(text, ensure_ascii=False) for text in ("", "é", "a\nb", "x" * 50, "\0")],
        }
        numbers = (str(self.chance.randint(-99, 10**9)), "1.0", "-25e1", "0.5", "12.250", "7")
        return self.chance.choice(choices.get(kind, numbers))

    def value(self, wild: float) -> str:
        if self.chance.random() < wild:
            return self.anything()
        return self.chance.choice(
            (*_ANY[:7], *_TEXTS[:5], "1", "-0", "1.50", "1e7", "-0.0", "0.0000001", "12e-3")
        )

    def anything(self) -> str:
        """What a stranger may put there."""
        return self.chance.choice(
            (
                self.chance.choice(_NUMBERS),
                self.chance.choice(_NUMBERS),
                json.dumps(self.chance.choice(_TIMES), ensure_ascii=False),
                self.chance.choice(_TEXTS),
                self.chance.choice(_ANY),
                self.chance.choice(_BROKEN),
            )
        )

    def key(self, name: str) -> str:
        return self.space() + json.dumps(name, ensure_ascii=self.chance.random() < 0.2) + self.space()

    def listed(self, parts: list[str], brackets: str) -> str:
        return (
            brackets[0]
            + self.space()
            + f"{self.space()},{self.space()}".join(parts)
            + self.space()
            + brackets[1]
        )

    def space(self) -> str:
        return self.chance.choice(("", "", "", " ", "\n\t", "\r"))

    def damaged(self, value: bytes) -> bytes:
        """Cut short, lengthened, or with some other bytes."""
        chance = self.chance
        kind = chance.randrange(3)
        if kind == 0:
            return value[: chance.randrange(len(value) + 1)]
        if kind == 1:
            return value + chance.choice((b" ", b"\n ", b"x", b"{}", b",", b"\0", b"]", b"}"))
        spoiled = bytearray(value)
        for _ in range(chance.randint(1, 3)):
            if spoiled:
                spoiled[chance.randrange(len(spoiled))] = chance.choice(
                    b'"\\{}[],:0-.eE \0\x1f\x80\xc3\xff\xed'
                )
        return bytes(spoiled)


def numbers() -> Any:
    """Every odd number."""
    return _NUMBERS


def times() -> Any:
    """Every odd time, as text."""
    return [json.dumps(each, ensure_ascii=False) for each in _TIMES]
