"""A field's default, from the JSON of the schema to Avro's binary encoding.

Belongs here: the specification's table of default values. Encoded defaults go the way of every other value,
so no type needs a second rule for its default. Those that need no decoder are told as they are: a topic of a hundred
versions, each with a field more, has thousands of fields that a writer lacks.
"""

import json
import struct
from typing import Any

from tidemark.domain.columns.types import MAX_PRECISION
from tidemark.domain.formats.avro_nodes import NULL, Array, Entries, Enum, Fixed, Leaf, Node, Record, Union
from tidemark.domain.formats.connect import is_zoned_time

_NOTHING = b"\0"
"""A list or map without elements; the end of one that has some."""
_RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}
_MILLIS = (-((1 << 63) // 1000), (1 << 63) // 1000)
"""Of times in milliseconds whose microseconds have 64 bits."""


def encode_default(node: Node, value: Any) -> bytes:  # noqa: PLR0911 - one per type
    """The default `value`, as JSON gives it, encoded as `node`; raises ValueError where it does not fit."""
    match node:
        case Leaf():
            return _leaf(node, value)
        case Fixed(_, size):
            return _within_precision(node, _sized(_latin(value), size))
        case Enum(_, symbols):
            return zigzag(symbols.index(value))
        case Record(_, fields):
            return b"".join(_field(value, field.name, field.type, field.default) for field in fields)
        case Array(items):
            return _blocks([encode_default(items, item) for item in _of(list, value)])
        case Entries(key, item):
            return _blocks([encode_default(key, k) + encode_default(item, v) for k, v in _pairs(node, value)])
        case Union(branches):
            return _first_fit(branches, value)


def plain_default(node: Node, encoded: bytes) -> tuple[Any, ...]:
    """The value of an encoded default as (value,): null, of a plain type, an empty list or dict; () for any other."""
    match node:
        case Union(branches):
            position, rest = _unzigzag(encoded)
            branch = branches[position]
            return plain_default(branch, rest) if branch == NULL or len(node.values) == 1 else ()
        case Leaf(kind, ""):
            return (_plain(kind, encoded),)
        case Enum(_, symbols):
            return (symbols[_unzigzag(encoded)[0]],)
        case Array() if encoded == _NOTHING:
            return ([],)
        case Entries() if encoded == _NOTHING:
            return ({},)
    return ()


def _plain(kind: str, encoded: bytes) -> Any:
    match kind:
        case "null":
            return None
        case "boolean":
            return encoded == b"\1"
        case "int" | "long":
            return _unzigzag(encoded)[0]
        case "float" | "double":
            return struct.unpack("<f" if kind == "float" else "<d", encoded)[0]
    value = _unzigzag(encoded)[1]
    return value if kind == "bytes" else value.decode()


def _unzigzag(encoded: bytes) -> tuple[int, bytes]:
    """The number that begins the bytes, and what follows it."""
    size = next(position for position, byte in enumerate(encoded, 1) if byte < 0x80)  # noqa: PLR2004 - as below
    rest = sum((byte & 0x7F) << (7 * position) for position, byte in enumerate(encoded[:size]))
    return (rest >> 1) ^ -(rest & 1), encoded[size:]


def zigzag(number: int) -> bytes:
    """Avro's variable-length encoding of an int or long."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest >= 0x80:  # noqa: PLR2004 - seven bits a byte, the eighth says that more follow
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _leaf(node: Leaf, value: Any) -> bytes:
    match node.kind:
        case "null" if value is None:
            return b""
        case "boolean":
            return b"\1" if _of(bool, value) else b"\0"
        case "int" | "long":
            in_millis = node.logical in {"timestamp-millis", "local-timestamp-millis"}
            return zigzag(_in_range(value, *(_MILLIS if in_millis else _RANGES[node.kind])))
        case "float" | "double":
            try:
                return struct.pack("<f" if node.kind == "float" else "<d", _number(value))
            except OverflowError as error:
                raise ValueError(f"{value!r} is beyond any {node.kind}") from error
        case "bytes":
            encoded = _within_precision(node, _latin(value))
            return zigzag(len(encoded)) + encoded
        case "string":
            text: bytes = _meant(node, _of(str, value)).encode()
            return zigzag(len(text)) + text
    raise ValueError(f"{value!r} is no {node.kind}")


def _field(value: Any, name: str, node: Node, default: bytes | None) -> bytes:
    if name in _of(dict, value):
        return encode_default(node, value[name])
    if default is None:
        raise ValueError(f"the default of a record lacks the field {name}")
    return default


def _first_fit(branches: tuple[Node, ...], value: Any) -> bytes:
    """The specification asks for the first branch up to 1.11, for any branch since 1.12."""
    for position, branch in enumerate(branches):
        try:
            return zigzag(position) + encode_default(branch, value)
        except ValueError:
            continue
    raise ValueError(f"{value!r} fits no branch of the union")


def _blocks(items: list[bytes]) -> bytes:
    return (zigzag(len(items)) if items else b"") + b"".join(items) + _NOTHING


def _pairs(node: Entries, value: Any) -> list[tuple[Any, Any]]:
    if node.written_as == "map":
        return list(_of(dict, value).items())
    return [(_part(item, "key"), _part(item, "value")) for item in _of(list, value)]


def _part(item: Any, name: str) -> Any:
    if name not in _of(dict, item):
        raise ValueError(f"{item!r} has no {name}")
    return item[name]


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")  # noqa: TRY004 - one error for "does not fit"
    return value


def _in_range(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{value!r} is no whole number from {low} to {high}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"}:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")  # noqa: TRY004 - as above
    return float(value)


def _meant(node: Leaf, text: str) -> str:
    if node.logical == "zoned-timestamp" and not is_zoned_time(text):
        raise ValueError(f"{text!r} is no time with a zone, to the microsecond")
    if node.logical == "document":
        json.loads(text)
    return text


def _latin(value: Any) -> bytes:
    """Bytes are written as text whose code points 0 to 255 are the bytes; raises ValueError beyond."""
    encoded: bytes = _of(str, value).encode("latin-1")
    return encoded


def _within_precision(node: Leaf | Fixed, value: bytes) -> bytes:
    """A decimal of more digits than a column may have is text, and text holds any."""
    if node.logical == "decimal" and not value:
        raise ValueError("a decimal without bytes")
    if node.logical == "decimal" and node.precision <= MAX_PRECISION:
        digits = str(abs(int.from_bytes(value, "big", signed=True)))
        if len(digits) > node.precision:
            raise ValueError(f"a decimal({node.precision},{node.scale}) has not {len(digits)} digits")
    return value


def _sized(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes for a fixed of {size}")
    return value
