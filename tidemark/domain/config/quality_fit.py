"""Whether quality rules fit the columns of a table, and their values as exact literals of those columns. Pure.

A bound is moved to the nearest value that the column can hold (`min: 0.005` on two decimals is 0.01), so comparing is
exact and nothing is rounded on the way.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import partial
from math import isnan
from typing import Literal

from tidemark.domain.columns.layout import leaf_paths, resolve
from tidemark.domain.columns.types import ColumnType, ListType, MapType, Primitive, Struct
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.suggest import nearest

_WHOLE = {"int": 10, "long": 19}
_LIMITS = {"int": 2**31, "long": 2**63}
_FLOATS = frozenset({"float", "double"})
_ORDERED = _FLOATS | {"int", "long", "date", "timestamp", "timestamptz", "string"}
_MEMBERS = _ORDERED | {"boolean"}
_EXACT = Context(prec=1000)
_FAR = 500
"""Powers of ten that no column comes near."""

Value = bool | int | float | str
End = Literal["min", "max"]


def fit_faults(rules: Iterable[QualityRule], columns: Struct) -> list[str]:
    """What does not fit, one sentence each, with the nearest column; empty when all fits. SQL is not looked at."""
    faults = []
    for rule in rules:
        for path in rule.paths:
            if resolve(columns, path) is None:
                near = nearest(path, leaf_paths(columns))
                hint = f" (did you mean {near}?)" if near else ""
                faults.append(f"quality: {rule.title}: there is no column {path}{hint}")
        faults += [f"quality: {rule.title}: {fault}" for fault in misfits(rule, columns)]
    return faults


def misfits(rule: QualityRule, columns: Struct) -> Iterator[str]:
    """What does not fit of a rule whose columns are there."""
    for path in rule.paths:
        found = resolve(columns, path)
        if found is not None:
            yield from _faults(rule, path, found)


def literal(kind: Primitive, value: Value) -> str:
    """`value` in the words of SQL for a column of `kind`, without quotes. Raises ValueError when it is none."""
    if kind.name == "boolean":
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is not true or false")
        return str(value).lower()
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is no {kind}")  # noqa: TRY004 - a fault of the contract, not of the caller
    if kind.name == "string":
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is no text: put it in quotes")
        return value
    if kind.name in _FLOATS:
        return _float(kind, value)
    if kind.name in _WHOLE or kind.decimal:
        number = _decimal(kind, value)
        if number != _cut(kind, number, ROUND_FLOOR):
            raise ValueError(f"{value} has more digits after the point than {kind}")
        return _text(kind, number)
    return _time(kind, value)


def bound(kind: Primitive, value: Value, end: End) -> str:
    """The nearest value of `kind` inside the bound, as `literal` gives it. Raises ValueError when there is none."""
    if kind.name in _WHOLE or kind.decimal:
        number = _decimal(kind, value)
        return _text(kind, _cut(kind, number, ROUND_CEILING if end == "min" else ROUND_FLOOR))
    found = literal(kind, value)
    if kind.name in _FLOATS and isnan(float(found)):
        raise ValueError("NaN is no bound")
    return found


def _faults(rule: QualityRule, path: str, kind: ColumnType) -> Iterator[str]:
    check = str(rule.check)
    if not _applies(check, kind):
        yield f"{check} does not apply to {path}, which is {kind}"
    elif isinstance(kind, Primitive):
        yield from _value_faults(rule, path, kind)


def _applies(check: str, kind: ColumnType) -> bool:
    if check == "not_null":
        return True
    if check == "length":
        return isinstance(kind, (ListType, MapType)) or kind in (Primitive("string"), Primitive("binary"))
    if not isinstance(kind, Primitive):
        return False
    if check == "matches":
        return kind.name == "string"
    if check == "unique":
        return kind.name in _MEMBERS | {"binary"} or kind.decimal is not None
    known = _ORDERED if check == "in_range" else _MEMBERS
    return kind.name in known or kind.decimal is not None


def _value_faults(rule: QualityRule, path: str, kind: Primitive) -> Iterator[str]:
    given: list[tuple[str, Callable[[], str]]] = [
        ("values", partial(literal, kind, value)) for value in rule.values or ()
    ]
    if rule.check == "in_range":
        ends: list[tuple[End, Value | None]] = [("min", rule.min), ("max", rule.max)]
        given += [(end, partial(bound, kind, value, end)) for end, value in ends if value is not None]
    for key, ask in given:
        try:
            ask()
        except ValueError as error:
            yield f"{path} is {kind}: {key}: {error}"


def _cut(kind: Primitive, number: Decimal, rounding: str) -> Decimal:
    scale = kind.decimal[1] if kind.decimal else 0
    return number.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)


def _decimal(kind: Primitive, value: Value) -> Decimal:
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None
    if not number.is_finite() or abs(number.adjusted()) > _FAR:
        raise ValueError(f"{value!r} is no value of {kind}")
    return number


def _text(kind: Primitive, number: Decimal) -> str:
    digits, scale = kind.decimal or (_WHOLE[kind.name], 0)
    limit = _LIMITS.get(kind.name, Decimal(10) ** (digits - scale))
    if not (-limit <= number < limit if kind.name in _LIMITS else -limit < number < limit):
        raise ValueError(f"{number} lies outside of what {kind} holds")
    return format(number, "f")


def _float(kind: Primitive, value: Value) -> str:
    text = str(value).strip().lower().removeprefix("+")
    text = {".inf": "inf", "-.inf": "-inf", ".nan": "nan"}.get(text, text)
    try:
        float(text)
        number = Decimal(text)
    except (ValueError, InvalidOperation):
        raise ValueError(f"{value!r} is no {kind}") from None
    return "NaN" if number.is_nan() else str(number)


def _time(kind: Primitive, value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no {kind}")  # noqa: TRY004 - as in `literal`
    try:
        if kind.name == "date":
            return date.fromisoformat(value).isoformat()
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is no {kind}") from None
    if (at.tzinfo is None) == (kind.name == "timestamptz"):
        raise ValueError(f"{value!r} {'needs' if at.tzinfo is None else 'must not have'} a time zone")
    return at.isoformat()
