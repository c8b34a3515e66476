"""One table partition as a filter of Spark SQL on the source columns (Iceberg spec, Partition Transforms).

Times become ranges, so files of an older partition spec are found as well.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from tidemark.domain.columns.far_times import iso, year
from tidemark.domain.columns.spark_types import quoted_name, quoted_text

_EPOCH_DAY = date(1970, 1, 1)
_MONTHS = 12
_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000}
_PARAMETER = re.compile(r"(bucket|truncate)\[(\d+)\]")
_TIMES = {"timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "date": "DATE"}


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
    if each.transform in {"year", "month", "day", "hour"} and each.type in _TIMES:
        low, high = _span(each.transform, each.value)
        return f"{column} >= {_time(low, each.type)} AND {column} < {_time(high, each.type)}"
    found = _PARAMETER.fullmatch(each.transform)
    literal = _literal(each.value, "int" if found and found[1] == "bucket" else each.type)
    if found is None or literal is None:
        return None
    return f"{quoted_name(catalog)}.system.{found[1]}({found[2]}, {column}) = {literal}"


def _span(transform: str, value: Any) -> tuple[str, str]:
    if isinstance(value, date):
        value = (value - _EPOCH_DAY).days
    if transform in _MICROSECONDS:
        size = _MICROSECONDS[transform]
        return _moment(value * size), _moment((value + 1) * size)
    months = value * _MONTHS if transform == "year" else value
    step = _MONTHS if transform == "year" else 1
    return _month(months), _month(months + step)


def _month(since_epoch: int) -> str:
    years, month = divmod(since_epoch, _MONTHS)
    return f"{year(1970 + years)}-{month + 1:02d}-01 00:00:00"


def _moment(microseconds: int) -> str:
    return iso(microseconds).removesuffix("+00:00").replace("T", " ")


def _time(at: str, kind: str) -> str:
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
        days = value if isinstance(value, int) else (value - _EPOCH_DAY).days
        return _time(_moment(days * _MICROSECONDS["day"]), kind)
    if kind.startswith("decimal") and isinstance(value, Decimal):
        return f"CAST('{value}' AS {kind})"
    return None
