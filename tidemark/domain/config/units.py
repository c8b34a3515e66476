"""Durations, sizes and shares as people write them: `5s`, `1h30m`, `256MB`, `0.05`.

Sizes are binary, as in Iceberg and Parquet: 1 kB = 1024 B, 1 MB = 1024 kB; `MiB` says the same as `MB`.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?")
_SIZE = re.compile(r"(\d+)\s?(B|[kKMGT]i?B)")
_AMOUNT = re.compile(r"\s*(\d+)\s*([A-Za-z]*)\s*")
_SPELLINGS = {
    **dict.fromkeys(["", "S", "sec", "secs", "second", "seconds"], "s"),
    **dict.fromkeys(["M", "min", "mins", "minute", "minutes"], "m"),
    **dict.fromkeys(["H", "hr", "hrs", "hour", "hours"], "h"),
    **dict.fromkeys(["D", "day", "days"], "d"),
    **dict.fromkeys(["MS", "msec", "millis", "milliseconds"], "ms"),
}
MAX_DAYS = 36_500
MAX_BYTES = 2**63 - 1
_MAX_DIGITS = 20


def counted(number: int, one: str) -> str:
    """`1 file`, `1,024 files`."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


SHOWN = 3
"""Names in a sentence; the rest is counted."""


def first_few(names: Sequence[str], most: int = SHOWN) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def parse_duration(value: Any) -> timedelta:
    """`1h30m` -> timedelta; the parts go from days down to milliseconds. Raises ValueError's pydantic kin."""
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if not found:
        raise _invalid("duration", "like 5s, 1m, 2h, 7d or 500ms", value, _meant_duration(value))
    parts = zip(found.groups(), MILLISECONDS.values(), strict=True)
    total = sum(int(amount) * unit for amount, unit in parts if amount)
    if total > MAX_DAYS * MILLISECONDS["d"]:
        raise _invalid("duration", "of at most 100 years", value, None)
    return timedelta(milliseconds=total)


def format_duration(duration: timedelta) -> str:
    """The shortest spelling that `parse_duration` reads back; whole milliseconds."""
    left = duration // timedelta(milliseconds=1)
    parts = []
    for unit, size in MILLISECONDS.items():
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"


def parse_size(value: Any) -> int:
    """`256MB` -> bytes (binary multiples)."""
    value = whole_number(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return _size(value, value)
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise _invalid("size", "like 64kB, 256MB or 20GB", value, _meant_size(value))
    unit = found[2].replace("i", "").replace("K", "k")
    digits = found[1].lstrip("0") or "0"
    return _size(int(digits) * BYTES[unit] if len(digits) <= _MAX_DIGITS else MAX_BYTES + 1, value)


def _size(size: int, value: Any) -> int:
    if size > MAX_BYTES:
        raise _invalid("size", f"of at most {MAX_BYTES} B", value, None)
    return size


def format_size(size: int) -> str:
    """The largest whole unit: 268435456 -> `256MB`."""
    for unit, factor in reversed(BYTES.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return "0B"


def _meant_duration(value: Any) -> str | None:
    found = _AMOUNT.fullmatch(str(value))
    if not found or isinstance(value, bool):
        return None
    unit = _SPELLINGS.get(found[2], _SPELLINGS.get(found[2].lower(), found[2].lower()))
    if unit == "w":
        return f"{int(found[1]) * 7}d"
    return f"{int(found[1])}{unit}" if unit in MILLISECONDS else None


def _meant_size(value: Any) -> str | None:
    found = _AMOUNT.fullmatch(str(value))
    if not found or isinstance(value, bool):
        return None
    letter = found[2][:1].upper()
    if letter not in set("BKMGT"):
        return None
    return f"{found[1]}B" if letter == "B" else f"{found[1]}{letter.replace('K', 'k')}B"


def _invalid(what: str, example: str, value: Any, suggestion: str | None) -> PydanticCustomError:
    return PydanticCustomError(
        "unit", "{value} is not a {what} {example}",
        {"value": repr(value), "what": what, "example": example, "suggestion": suggestion},
    )  # fmt: skip


def _positive(duration: timedelta) -> timedelta:
    if not duration:
        raise PydanticCustomError("unit", "must be more than nothing")
    return duration


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "{value} is not a number", {"value": repr(value)})
    return value


def whole_number(value: Any) -> Any:
    """Text of digits, as what `${NAME}` stands for always is, where nothing but a number makes sense."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value) else value


_DURATION_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$",
    "examples": ["5s", "1m", "7d"],
}
_SIZE_SCHEMA = {
    "anyOf": [{"type": "string", "pattern": r"^\d+ ?(B|[kKMGT]i?B)$"}, {"type": "integer", "minimum": 0}],
    "description": "binary: 1 MB = 1024 kB = 1048576 B",
    "examples": ["256MB"],
}

Duration = Annotated[
    timedelta,
    PlainValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema(_DURATION_SCHEMA),
]
"""A span of time, zero included."""

PositiveDuration = Annotated[
    timedelta,
    PlainValidator(parse_duration),
    AfterValidator(_positive),
    PlainSerializer(format_duration),
    WithJsonSchema(_DURATION_SCHEMA),
]
"""A span of time longer than nothing."""

Size = Annotated[int, PlainValidator(parse_size), PlainSerializer(format_size), WithJsonSchema(_SIZE_SCHEMA)]
"""Bytes; written `256MB`, or a bare number of bytes."""

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_number)]
"""A share from 0 to 1."""

Count = Annotated[int, Field(ge=1), BeforeValidator(_number)]
"""A whole number from 1."""

Several = Annotated[int, Field(ge=2), BeforeValidator(_number)]
"""A whole number from 2."""
