"""Declared columns for schemaless JSON, from documents that were seen: exact for all of them, or left to `_extra`.

Conservative on purpose. A field becomes a column only when one type holds every value that it had; what was mixed,
always null or always empty stays undeclared, and is kept whole in `_extra`.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from tidemark.domain.columns.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
)
from tidemark.domain.formats.json_columns import node_of
from tidemark.engine.decode.shipped.json_values import JsonFault, check

MAX_FIELDS = 40
"""Names that an object may have had before it is taken for a map."""
_WHOLE = (LONG, decimal(MAX_PRECISION, 0))
_TIMES = (DATE, TIMESTAMPTZ, TIMESTAMP)


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
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "fraction"


def _number(values: list[Any], kinds: set[str]) -> tuple[ColumnType | None, str]:
    if kinds == {"integer"}:
        kind = next((kind for kind in _WHOLE if _land(values, kind)), None)
        return kind, "" if kind else f"it had integers of more than {MAX_PRECISION} digits"
    numbers = [Decimal(value) for value in values]
    if _land(values, DOUBLE) and all(Decimal(repr(float(number))) == number for number in numbers):
        return DOUBLE, ""
    scale = max(-int(number.as_tuple().exponent) for number in numbers)
    if 0 <= scale <= MAX_PRECISION and _land(values, exact := decimal(MAX_PRECISION, scale)):
        return exact, ""
    return None, f"it had numbers of more digits than a double or {MAX_PRECISION} digits hold"


def _text(values: list[str]) -> ColumnType:
    return next((kind for kind in _TIMES if _land(values, kind)), STRING)


def _land(values: list[Any], kind: Primitive) -> bool:
    """Whether the decoder takes all of them."""
    node = node_of(kind, "")
    try:
        for value in values:
            check(node, value)
    except JsonFault:
        return False
    return True


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
