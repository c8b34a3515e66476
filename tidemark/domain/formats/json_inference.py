"""Declared columns for schemaless JSON, from documents that were seen: exact for all of them, or left to `_extra`.

Conservative on purpose. A field becomes a column only when one type holds every value that it had; what was mixed,
always null or always empty stays undeclared, and is kept whole in `_extra`.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from tidemark.domain.columns.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    ListType,
    MapType,
    Struct,
    decimal,
)

MAX_FIELDS = 40
"""Names that an object may have had before it is taken for a map."""
_LONG = 2**63
_EXACT = 2**53
_DIGITS = 38
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:[0-5]\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)?")


def infer(documents: Iterable[Mapping[str, Any]]) -> tuple[Struct, dict[str, str]]:
    """(columns, undeclared: field -> why); numbers of the documents are int, or Decimal where a fraction is written."""
    seen: dict[str, list[Any]] = {}
    for document in documents:
        for name, value in document.items():
            seen.setdefault(name, []).append(value)
    columns, left = [], {}
    for name, values in seen.items():
        kind, why = _type(values)
        if kind is None:
            left[name] = why
        else:
            columns.append(Field(name, kind))
    return Struct(tuple(columns)), left


def _type(values: list[Any]) -> tuple[ColumnType | None, str]:  # noqa: PLR0911 - one per JSON type
    known = [value for value in values if value is not None]
    if not known:
        return None, "it was always null"
    kinds = {_kind(value) for value in known}
    if kinds == {"boolean"}:
        return BOOLEAN, ""
    if kinds <= {"integer", "fraction"}:
        return _number(known, kinds)
    if kinds == {"string"}:
        return _text(known), ""
    if kinds == {"array"}:
        return _list(known)
    if kinds == {"object"}:
        return _object(known)
    return None, f"it was {' and '.join(sorted(kinds))}"


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case Decimal() | float():
            return "fraction"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _number(values: list[Any], kinds: set[str]) -> tuple[ColumnType | None, str]:
    integers = [value for value in values if isinstance(value, int)]
    if kinds == {"integer"}:
        if all(-_LONG <= value < _LONG for value in integers):
            return LONG, ""
        if all(len(str(abs(value))) <= _DIGITS for value in integers):
            return decimal(_DIGITS, 0), ""
        return None, f"it had integers of more than {_DIGITS} digits"
    if any(abs(value) > _EXACT for value in integers):
        return None, "it mixed fractions with integers that no double holds exactly"
    return DOUBLE, ""


def _text(values: list[str]) -> ColumnType:
    if all(_is_date(value) for value in values):
        return DATE
    zones = {
        bool(found[2]) if (found := _TIME.fullmatch(value)) and _is_date(value[:10]) else None
        for value in values
    }
    if zones == {True}:
        return TIMESTAMPTZ
    return TIMESTAMP if zones == {False} else STRING


def _is_date(value: str) -> bool:
    try:
        return len(value) == len("2026-01-31") and date.fromisoformat(value) is not None
    except ValueError:
        return False


def _list(values: list[list[Any]]) -> tuple[ColumnType | None, str]:
    kind, why = _type([item for value in values for item in value])
    if kind is None:
        return None, "it was always an empty array" if "always null" in why else f"an element: {why}"
    return ListType(kind), ""


def _object(values: list[dict[str, Any]]) -> tuple[ColumnType | None, str]:
    names = {name for value in values for name in value}
    if len(names) > MAX_FIELDS:
        kind, why = _type([item for value in values for item in value.values()])
        return (MapType(STRING, kind), "") if kind else (None, f"it had {len(names)} names; a value: {why}")
    columns, _ = infer(values)
    if not columns.fields:
        return None, "it was an object without anything that has one type"
    return columns, ""
