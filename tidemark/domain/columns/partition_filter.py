"""One table partition as a filter of Spark SQL on the source columns (Iceberg spec, Partition Transforms).

Times become ranges, so files of an older partition spec are found as well.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from tidemark.domain.columns.far_times import far_iso, first_of_month
from tidemark.domain.columns.partitioning import TIME_TRANSFORMS
from tidemark.domain.columns.spark_types import quoted_name, quoted_text

_EPOCH_DAY = date(1970, 1, 1)
_HOUR, _DAY = 3_600_000_000, 86_400_000_000
"""In microseconds."""
_PARAMETER = re.compile(r"(bucket|truncate)\[(\d+)\]")
_TIMES = {"timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "date": "DATE"}
_ENDS = {"timestamp": 1 << 63, "timestamptz": 1 << 63, "date": _DAY << 31}
"""Microseconds from 1970 to where times end, either way: nothing lies beyond, and Spark has no literal for it."""
_HOURS = 1 << 32
"""Iceberg counts hours in 32 bits, and those of a time beyond come round again."""


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """One field of a partition: `source` as names from the outside in, `type` in Iceberg's words, the stored value.

    `source` is empty where the column was dropped.
    """

    source: tuple[str, ...]
    type: str
    transform: str
    value: Any


def partition_where(values: Sequence[PartitionValue], catalog: str) -> str | None:
    """The filter of a whole partition; None when one of its fields cannot be said. Empty for a table without.

    A field that is void from now on says nothing.
    """
    parts = [
        _condition(each, catalog) if each.source else None for each in values if each.transform != "void"
    ]
    known = [part for part in parts if part is not None]
    return " AND ".join(known) if len(known) == len(parts) else None


def _condition(each: PartitionValue, catalog: str) -> str | None:
    column = quoted_name(*each.source)
    if each.value is None:
        return f"{column} IS NULL"
    if each.transform == "identity":
        literal = _literal(each.value, each.type)
        return None if literal is None else f"{column} = {literal}"
    if each.transform in TIME_TRANSFORMS and each.type in _TIMES:
        return _within(column, each)
    found = _PARAMETER.fullmatch(each.transform)
    literal = _literal(each.value, "int" if found and found[1] == "bucket" else each.type)
    if found is None or literal is None:
        return None
    return f"{quoted_name(catalog)}.system.{found[1]}({found[2]}, {column}) = {literal}"


def _within(column: str, each: PartitionValue) -> str | None:
    value = _number(each.value)
    values = (value, value - _HOURS, value + _HOURS) if each.transform == "hour" else (value,)
    spans = (_between(column, each.type, *_span(each.transform, value)) for value in values)
    found = [span for span in spans if span]
    return f"({' OR '.join(found)})" if len(found) > 1 else next(iter(found), None)


def _between(column: str, kind: str, low: int, high: int) -> str:
    """A bound beyond the end of times is left out; empty where both are."""
    end = _ENDS[kind]
    bounds = [(sign, at) for sign, at in ((">=", low), ("<", high)) if -end <= at < end]
    return " AND ".join(f"{column} {sign} {_time(at, kind)}" for sign, at in bounds)


def _number(value: Any) -> int:
    """As it is stored; a day may come as its date."""
    days: int = (value - _EPOCH_DAY).days if isinstance(value, date) else value
    return days


def _span(transform: str, value: int) -> tuple[int, int]:
    """From a moment to before another, in microseconds since 1970."""
    match transform:
        case "hour":
            return value * _HOUR, (value + 1) * _HOUR
        case "day":
            return value * _DAY, (value + 1) * _DAY
        case "month":
            return first_of_month(value), first_of_month(value + 1)
    return first_of_month(12 * value), first_of_month(12 * value + 12)


def _time(microseconds: int, kind: str) -> str:
    at = far_iso(microseconds).removesuffix("+00:00").replace("T", " ")
    if kind == "date":
        return f"DATE '{at.partition(' ')[0]}'"
    zone = "+00:00" if kind == "timestamptz" else ""
    return f"{_TIMES[kind]} '{at}{zone}'"


def _literal(value: Any, kind: str) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if kind in {"int", "long"} and isinstance(value, int):
        return f"{value}L" if kind == "long" else str(value)
    if kind == "string" and isinstance(value, str):
        return quoted_text(value)
    if kind == "date":
        return _time(_number(value) * _DAY, kind)
    if kind.startswith("decimal") and isinstance(value, Decimal):
        return f"CAST('{value}' AS {kind})"
    return None
