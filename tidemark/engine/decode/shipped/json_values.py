"""One JSON document at a time: strict parsing, and the exact value of each leaf (docs/types.md).

Belongs here: what makes a value right or wrong, and the words for it. `json_arrow` takes whole batches apart
and comes back to these functions for every value that is not plainly right.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring
from typing import Any, Literal

import jiter

from tidemark.domain.formats.json_nodes import Entries, Items, Leaf, Node, Object

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_KINDS = {
    str: "a string",
    bytes: "bytes",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
    type(None): "null",
}
_EXACT_IN_DOUBLE = 1 << 53
_MICROS = 6
Cause = Literal[
    "undecodable", "value_out_of_range", "type_mismatch", "invalid_against_schema", "skip", "truncate"
]
_MAX_DIGITS = 80
"""Digits of a number that are shown to a person."""


VARIANT_SIZE = 16 << 20
"""Bytes of JSON text; Spark's own limit is on its encoding and higher."""
_VARIANT_DIGITS = 38
_DOUBLE_EXPONENT = 400


class _Spelled:
    """A number as it is to be written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class JsonFault(Exception):
    """What is wrong with a document, at `pointer` (RFC 6901)."""

    def __init__(self, cause: Cause, reason: str, pointer: str = "") -> None:
        super().__init__(reason)
        self.cause: Cause = cause
        self.reason = reason
        self.pointer = pointer

    def under(self, token: str) -> "JsonFault":
        """The same fault, seen from one level higher."""
        escaped = token.replace("~", "~0").replace("/", "~1")
        return JsonFault(self.cause, self.reason, f"/{escaped}{self.pointer}")

    @property
    def detail(self) -> str:
        """Where and why, in words."""
        return f"{self.pointer or 'the document'}: {self.reason}"


def parse(value: bytes) -> Any:
    """The document in `value`: integers exact, other numbers as Decimal.

    Raises JsonFault for what RFC 8259 does not allow, for a key twice in one object and for text after the document.
    """
    try:
        return jiter.from_json(
            value, allow_inf_nan=False, catch_duplicate_keys=True, float_mode="decimal", cache_mode="keys"
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise JsonFault("undecodable", str(error)) from None


class Reader:
    """Parses a value and takes it to the document that a tree describes; it travels to the executors by value."""

    def __init__(self, shape: Callable[[Any], Any]) -> None:
        self.shape = shape

    def __call__(self, value: bytes) -> Any:
        """The document. Raises JsonFault."""
        return self.shape(parse(value))


def check(node: Node, value: Any) -> None:
    """Raises JsonFault where `value` does not land exactly; null lands everywhere."""
    if value is None:
        return
    match node, value:
        case Object(), dict():
            for prop in node.properties:
                _inside(prop.name, prop.node, value.get(prop.name))
        case Items(), list():
            for position, item in enumerate(value):
                _inside(str(position), node.item, item)
        case Entries(), dict():
            for key, item in value.items():
                _inside(key, node.value, item)
        case Leaf(), _:
            leaf(node)(value)
        case _:
            raise _mismatch("an array" if isinstance(node, Items) else "an object", value)


def _inside(token: str, node: Node, value: Any) -> None:
    try:
        check(node, value)
    except JsonFault as fault:
        raise fault.under(token) from None


def leaf(node: Leaf) -> Callable[[Any], Any]:
    """The conversion of one value that is not null; it raises JsonFault."""
    conversions: dict[str, Callable[[Any], Any]] = {
        "boolean": partial(_of, bool),
        "int": partial(_integer, bits=32),
        "long": partial(_integer, bits=64),
        "double": _double,
        "decimal": partial(_decimal, precision=node.precision, scale=node.scale),
        "string": partial(_of, str),
        "binary": partial(_of, bytes),
        "date": _date,
        "timestamp": partial(_time, zoned=False),
        "timestamptz": partial(_time, zoned=True),
        "variant": variant_text,
    }
    return conversions.get(node.kind, text_of)


def variant_text(value: Any) -> str:
    """JSON text that a VARIANT keeps every digit of: numbers written so that it holds them as decimals.

    Raises JsonFault for numbers that neither 38 digits nor the shortest spelling of a double can hold, and for
    documents larger than a VARIANT.
    """
    text = text_of(_exactly(value))
    if len(text.encode()) > VARIANT_SIZE:
        raise JsonFault("value_out_of_range", f"is larger than the {VARIANT_SIZE} bytes of a VARIANT")
    return text


def _exactly(value: Any) -> Any:
    match value:
        case dict():
            return {key: _under(key, item) for key, item in value.items()}
        case list():
            return [_under(str(position), item) for position, item in enumerate(value)]
        case bool() | str() | None:
            return value
    return _exact_number(value)


def _under(token: str, value: Any) -> Any:
    try:
        return _exactly(value)
    except JsonFault as fault:
        raise fault.under(token) from None


def _exact_number(value: int | Decimal) -> _Spelled:
    """A number as plain digits where 38 of them do, as an exponent where its digits are those of a double."""
    number = Decimal(value)
    sign, digits, exponent = _plain(number)
    if not digits:
        return _Spelled("-0e0" if sign else "0")
    whole = max(len(digits) + exponent, 0)
    scale = max(-exponent, 0)
    if whole + scale <= _VARIANT_DIGITS:
        return _Spelled(f"{Decimal((sign, tuple(map(int, digits)), exponent)):f}")
    near = float(number) if -_DOUBLE_EXPONENT < len(digits) + exponent <= _DOUBLE_EXPONENT else 0.0
    if near and near not in (float("inf"), float("-inf")) and Decimal(repr(near)) == number:
        return _Spelled(repr(near))
    raise _outside(value, "has more digits than a VARIANT keeps")


def text_of(value: Any) -> str:
    """The JSON text of a parsed value, with every digit that it came with."""
    match value:
        case str():
            return str(encode_basestring(value))
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case dict():
            return "{" + ",".join(f"{encode_basestring(k)}:{text_of(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(text_of, value)) + "]"
    return str(value)


def _mismatch(wanted: str, value: Any) -> JsonFault:
    return JsonFault("type_mismatch", f"{_KINDS.get(type(value), 'a number')} where {wanted} belongs")


def _outside(value: Any, wanted: str) -> JsonFault:
    return JsonFault("value_out_of_range", f"{shown(value)} {wanted}")


def shown(value: Any) -> str:
    """The beginning of a value, for a person; Python itself spells no integer of more than 4,300 digits."""
    return str(Decimal(value) if type(value) is int else value)[:_MAX_DIGITS]


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _mismatch(_KINDS[kind], value)
    return value


def _number(value: Any, wanted: str) -> int | Decimal:
    if type(value) is int or type(value) is Decimal:
        return value
    raise _mismatch(wanted, value)


def _integer(value: Any, bits: int) -> int:
    number = _number(value, "an integer")
    if isinstance(number, Decimal):
        sign, digits, exponent = _plain(number)
        if exponent < 0:
            raise JsonFault("type_mismatch", f"{str(number)[:_MAX_DIGITS]} where an integer belongs")
        if len(digits) + exponent > bits:
            raise _outside(number, f"is no {bits} bit integer")
        number = (-1 if sign else 1) * int(digits or "0") * 10**exponent
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise _outside(number, f"is no {bits} bit integer")
    return number


def _double(value: Any) -> float:
    """The nearest double of a decimal fraction; an integer must be one exactly, and nothing becomes 0 or infinite."""
    number = _number(value, "a number")
    try:
        found = float(number)
    except OverflowError:
        raise _outside(number, "is beyond a double") from None
    if found in {float("inf"), float("-inf")} or (found == 0 and number != 0):
        raise _outside(number, "is beyond a double")
    if type(number) is int and abs(number) > _EXACT_IN_DOUBLE and int(found) != number:
        raise _outside(number, "has more digits than a double")
    return found


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    number = _number(value, "a number")
    sign, digits, exponent = _plain(Decimal(number))
    if -exponent > scale:
        raise _outside(number, f"has {-exponent} digits after the point, not {scale}")
    if digits and len(digits) + exponent > precision - scale:
        raise _outside(number, f"has more digits than decimal({precision},{scale})")
    padded = digits + "0" * (exponent + scale) if digits else "0"
    return Decimal((sign, tuple(map(int, padded)), -scale))


def _plain(number: Decimal) -> tuple[int, str, int]:
    """Sign, digits without trailing zeros ("" for zero) and their exponent."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    return sign, kept, int(exponent) + len(text) - len(kept) if kept else 0


def _date(value: Any) -> date:
    text = _of(str, value)
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise JsonFault("type_mismatch", f"{text[:_MAX_DIGITS]!r} is no date (2026-01-31)")


def _time(value: Any, *, zoned: bool) -> datetime:
    """RFC 3339, with its zone or without; in UTC when zoned."""
    text = _of(str, value)
    found = _TIME.fullmatch(text)
    if found is None or (found[6] is not None) != zoned:
        like = f"2026-01-31T23:59:59{'Z' if zoned else ''}"
        raise JsonFault(
            "type_mismatch",
            f"{text[:_MAX_DIGITS]!r} is no time {'with' if zoned else 'without'} a zone ({like})",
        )
    fraction = (found[5] or "").rstrip("0")
    if len(fraction) > _MICROS:
        raise _outside(repr(text[:_MAX_DIGITS]), "is finer than microseconds")
    clock = f"{found[1]}T{found[2]}:{found[3]}:{found[4]}.{fraction.ljust(_MICROS, '0')}"
    try:
        local = datetime.fromisoformat(clock).replace(tzinfo=UTC)
        local -= _offset(found[6] or "Z")
    except (ValueError, OverflowError):
        raise _outside(
            repr(text[:_MAX_DIGITS]), "is no time of day, or none of the years 1 to 9999"
        ) from None
    return local if zoned else local.replace(tzinfo=None)


def _offset(zone: str) -> timedelta:
    if zone in {"Z", "z"}:
        return timedelta(0)
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:  # noqa: PLR2004 - RFC 3339's own bounds
        raise ValueError(zone)
    return (-1 if zone[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes)
