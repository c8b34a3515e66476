"""Why a value does not decode: the second look at a record that Spark could not read.

Belongs here: a strict walk through Avro's binary encoding that stops at the first fault and names its place.
It builds no values and is for failed records alone, so it may be slow. Causes: docs/types.md.
"""

import struct
from collections.abc import Callable

from tidemark.domain.columns.types import MAX_PRECISION
from tidemark.domain.formats.avro_columns import branch_names
from tidemark.domain.formats.avro_decoder import has_number_keys
from tidemark.domain.formats.avro_nodes import NULL, Array, Entries, Enum, Fixed, Leaf, Node, Record, Union
from tidemark.domain.formats.connect import MAX_SCALE, is_zoned_time
from tidemark.domain.formats.explanation import Cause, Explanation

_VARINT_BYTES = {"int": 5, "long": 10}
_BITS = {"int": 32, "long": 64}
_A = {"int": "an int", "long": "a long"}
_SIZES = {"boolean": 1, "float": 4, "double": 8}
_INT = 1 << 31
_FLOATING = {4: "<f", 8: "<d"}
_MILLIS_LIMIT = ((1 << 63) - 1) // 1000
_MAX_EMPTY_ITEMS = 1 << 24
"""Items that take no bytes: more of them are garbage, and would be counted for hours."""
_COUNTED_BYTES = 1024
"""Of longer numbers the digits are not counted: Python spells no more than 4,300."""


def explain(
    payload: bytes, root: Node, document_fault: Callable[[str], str | None] = lambda _: None
) -> Explanation | None:
    """The first fault of `payload`, the value without its header, as written with `root`.

    None when it has none. `document_fault` says why a VARIANT does not keep a JSON document.
    """
    walk = _Walk(payload, document_fault)
    try:
        walk.node(root, ())
    except _FaultError as fault:
        return Explanation(fault.cause, str(fault))
    if rest := len(payload) - walk.position:
        return Explanation(
            "undecodable", f"{rest} bytes follow the value, which ends at byte {walk.position}"
        )
    return None


class _FaultError(Exception):
    def __init__(self, cause: Cause, path: tuple[str, ...], position: int, reason: str) -> None:
        self.cause: Cause = cause
        super().__init__(f"{'.'.join(path) or 'the value'}: {reason} (byte {position})")


class _Walk:
    """A position in the payload; every method moves it past one thing or raises _FaultError."""

    def __init__(self, payload: bytes, document_fault: Callable[[str], str | None]) -> None:
        self.payload = payload
        self.document_fault = document_fault
        self.position = 0

    def node(self, node: Node, path: tuple[str, ...]) -> None:
        match node:
            case Leaf():
                self._leaf(node, path)
            case Fixed(_, size):
                self._decimal(node, self._take(size, path), path)
            case Enum(_, symbols):
                self._one_of(len(symbols), "symbols", path)
            case Record(logical="variable-decimal"):
                self._variable_decimal(path)
            case Record(_, fields):
                for field in fields:
                    self.node(field.type, (*path, field.name))
            case Array(items):
                self._blocks(path, lambda: self.node(items, (*path, "element")))
            case Entries():
                self._entries(node, path)
            case Union(branches):
                self._branch(node, self._one_of(len(branches), "branches", path), path)

    def _branch(self, union: Union, position: int, path: tuple[str, ...]) -> None:
        branch = union.branches[position]
        if branch == NULL or len(union.values) == 1:
            self.node(branch, path)
        else:
            self.node(branch, (*path, branch_names(union)[union.values.index(branch)]))

    def _leaf(self, node: Leaf, path: tuple[str, ...]) -> None:
        match node.kind:
            case "int" | "long":
                number = self._varint("long", path)
                if node.kind == "int" and not -_INT <= number < _INT:
                    raise self._fault("value_out_of_range", path, f"{number} in an int of 32 bits")
                if node.logical.endswith("timestamp-millis") and abs(number) > _MILLIS_LIMIT:
                    raise self._fault(
                        "value_out_of_range", path, f"{number} ms is no timestamp in microseconds"
                    )
            case "string" | "bytes":
                self._text_or_bytes(node, path)
            case "boolean":
                if self._take(1, path) not in {b"\0", b"\1"}:
                    raise self._fault("undecodable", path, "a boolean is 0 or 1")
            case "float" | "double":
                self._take(_SIZES[node.kind], path)

    def _text_or_bytes(self, node: Leaf, path: tuple[str, ...]) -> None:
        size = self._varint("long", path)
        if size < 0:
            raise self._fault("undecodable", path, f"a length of {size}")
        content = self._take(size, path)
        if node.kind == "bytes":
            self._decimal(node, content, path)
            return
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise self._fault("undecodable", path, f"no UTF-8 at byte {error.start} of the text") from None
        if node.logical == "zoned-timestamp" and not is_zoned_time(text):
            reason = f"{text[:80]!r} is no time with a zone, of the years 1 to 9999 and at most microseconds"
            raise self._fault("value_out_of_range", path, reason)
        if node.logical == "document" and (why := self.document_fault(text)):
            raise self._fault("value_out_of_range", path, why)

    def _decimal(self, node: Leaf | Fixed, content: bytes, path: tuple[str, ...]) -> None:
        if node.logical != "decimal":
            return
        if not content:
            raise self._fault("undecodable", path, "a decimal without bytes")
        number = abs(int.from_bytes(content, "big", signed=True))
        if node.precision <= MAX_PRECISION and number >= 10**node.precision:
            digits = f"{len(str(number))} digits in" if len(content) <= _COUNTED_BYTES else "more digits than"
            declared = f"decimal({node.precision},{node.scale})"
            raise self._fault("value_out_of_range", path, f"{digits} a {declared}: 0x{content[:40].hex()}")

    def _variable_decimal(self, path: tuple[str, ...]) -> None:
        scale, size = self._varint("int", path), self._varint("long", path)
        if size <= 0:
            raise self._fault("undecodable", path, "a decimal without bytes")
        self._take(size, path)
        if abs(scale) > MAX_SCALE:
            raise self._fault("value_out_of_range", path, f"a decimal of scale {scale}")

    def _entries(self, node: Entries, path: tuple[str, ...]) -> None:
        seen: set[bytes] = set()
        has_numbers, has_minus_zero = has_number_keys(node), False

        def entry() -> None:
            nonlocal has_minus_zero
            start = self.position
            self._key(node.key, (*path, "key"))
            key = self.payload[start : self.position]
            number = key if isinstance(node.key, Leaf) else key[1:]
            if has_numbers and number:
                found = struct.unpack(_FLOATING[len(number)], number)[0]
                has_minus_zero = has_minus_zero or repr(found) == "-0.0"
                key = repr(found + 0.0).encode()
            if key in seen:
                raise self._fault("undecodable", path, f"the map key {key[:80]!r} twice")
            seen.add(key)
            self.node(node.value, (*path, "value"))

        self._blocks(path, entry)
        if has_minus_zero:
            raise self._fault("value_out_of_range", path, "the map key -0.0, of which Spark makes 0.0")

    def _key(self, key: Node, path: tuple[str, ...]) -> None:
        if not isinstance(key, Union):
            self.node(key, path)
            return
        position = self._one_of(len(key.branches), "branches", path)
        if key.branches[position] == NULL:
            raise self._fault("undecodable", path, "a map key that is NULL")
        self._branch(key, position, path)

    def _blocks(self, path: tuple[str, ...], item: Callable[[], None]) -> None:
        """Blocks of items: a count, negative when a size in bytes follows it; a count of 0 ends them."""
        while items := self._varint("long", path):
            if items < 0:
                self._varint("long", path)
            for number in range(abs(items)):
                start = self.position
                item()
                if start == self.position and number > _MAX_EMPTY_ITEMS:
                    raise self._fault("undecodable", path, f"{abs(items)} items without bytes")

    def _one_of(self, count: int, what: str, path: tuple[str, ...]) -> int:
        position = self._varint("int", path)
        if not 0 <= position < count:
            raise self._fault("undecodable", path, f"number {position} of {count} {what}")
        return position

    def _varint(self, kind: str, path: tuple[str, ...]) -> int:
        number = shift = 0
        for _ in range(_VARINT_BYTES[kind]):
            octet = self._take(1, path)[0]
            number |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:  # noqa: PLR2004 - the eighth bit says that more bytes follow
                break
        else:
            raise self._fault("undecodable", path, f"no end of {_A[kind]}")
        if number >> _BITS[kind]:
            raise self._fault("undecodable", path, f"{_A[kind]} of more than {_BITS[kind]} bits")
        return (number >> 1) ^ -(number & 1)

    def _take(self, size: int, path: tuple[str, ...]) -> bytes:
        end = self.position + size
        if end > len(self.payload):
            left = len(self.payload) - self.position
            raise self._fault("undecodable", path, f"truncated: {size} bytes expected, {left} left")
        content = self.payload[self.position : end]
        self.position = end
        return content

    def _fault(self, cause: Cause, path: tuple[str, ...], reason: str) -> _FaultError:
        return _FaultError(cause, path, self.position, reason)
