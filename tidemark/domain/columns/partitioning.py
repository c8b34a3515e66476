"""Partition transforms as a contract writes them: `day(ordered_at)`, `bucket(16, customer_id)`, `country`."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidemark.domain.suggest import nearest

Transform = Literal["year", "month", "day", "hour", "bucket", "truncate", "identity"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)
_TAKES_NUMBER = frozenset({"bucket", "truncate"})
TIME_TRANSFORMS = frozenset({"year", "month", "day", "hour"})
"""Spark's SQL names them in the plural."""
_DAY_OR_LONGER = TIME_TRANSFORMS - {"hour"}
_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_IN_CALL = re.compile(r"(?:`(?:[^`]|``)+`|[^`,()\s])*")
"""What names a column within the syntax of transforms: there a space, a comma or a parenthesis needs backticks."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_PARAMETER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One partition field; `column` is a dotted path, `parameter` the buckets or the width."""

    transform: Transform
    column: str
    parameter: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        arguments = self.column if self.parameter is None else f"{self.parameter}, {self.column}"
        return f"{self.transform}({arguments})"

    @property
    def iceberg(self) -> str:
        """The transform as Iceberg's metadata has it: `day`, `bucket[16]`, `identity`."""
        return self.transform if self.parameter is None else f"{self.transform}[{self.parameter}]"

    def free_name(self, name: str, columns: Collection[str]) -> str:
        """`name`, which is that of no column: Iceberg lets identity alone have one, that of its source."""
        while self.transform != "identity" and name in columns:
            name += "_"
        return name

    def spark_sql(self) -> str:
        """As in PARTITIONED BY: `days(ordered_at)`, `bucket(16, customer_id)`, `country`."""
        column = quoted(self.column)
        if self.transform == "identity":
            return column
        arguments = column if self.parameter is None else f"{self.parameter}, {column}"
        return f"{self.transform}{'s' if self.transform in TIME_TRANSFORMS else ''}({arguments})"


def column_parts(path: str) -> tuple[str, ...]:
    """`_kafka.timestamp` -> its names from the outside in; a name with a dot in it stands in backticks.

    Raises ValueError when `path` is not a column path.
    """
    parts = []
    at = 0
    while found := _PART.match(path, at):
        parts.append(found[1].replace("``", "`") if found[1] else found[2])
        if found.end() == len(path):
            return tuple(parts)
        if path[found.end()] != ".":
            break
        at = found.end() + 1
    raise ValueError(f"{path!r} is not a column name or a dotted path to one")


def path_of(name: str) -> tuple[str, ...]:
    """The parts of a column path as a note of `columns` says it; text that is none is the name of a column."""
    try:
        return column_parts(name)
    except ValueError:
        return (name,)


def columns_of(name: str) -> list[str]:
    """The columns that a note of `columns` may be about: `a.b` is part of a column `a`, or one of this very name."""
    return list(accumulate(path_of(name), lambda outer, inner: f"{outer}.{inner}"))


def as_noted(path: Iterable[str]) -> str:
    """A column path as notes of `columns` find it: dotted, in lower case.

    A part and a column whose name has a dot may be equal so: a note is then about both.
    """
    return ".".join(path).lower()


def quoted(path: str) -> str:
    """A column path as Spark SQL reads it: parts that are not plain words in backticks."""
    return quoted_parts(column_parts(path))


def quoted_parts(parts: Iterable[str]) -> str:
    """The names of a column path as Spark SQL reads it, as in `quoted`."""
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in parts)


def expected_partitions(partition_by: Iterable[str]) -> float:
    """Table partitions that a first batch touches, as far as its transforms tell; infinite where they do not.

    Records come in the order of their time, more or less: they are of few days, or of all buckets. Of a long history's
    many days all buckets together are more than one can say.
    """
    buckets, timed = 1, False
    for call in map(_CALL.fullmatch, partition_by):
        transform = call[1] if call else "identity"
        if transform == "bucket" and call:
            buckets *= int(call[2].split(",")[0])
        elif transform in _DAY_OR_LONGER:
            timed = True
        else:
            return inf
    return inf if timed and buckets > 1 else buckets


def parse_partition_field(value: Any) -> PartitionField:
    """The partition field that `value` spells; the pydantic error carries a suggestion."""
    if isinstance(value, PartitionField):
        return value
    if not isinstance(value, str):
        raise _invalid("{value} is not a partition transform like day(ordered_at)", value)
    if "(" not in value:
        return _field("identity", value.strip(), None, value)
    call = _CALL.fullmatch(value)
    if not call:
        raise _invalid("{value} is not a partition transform like day(ordered_at)", value)
    name = _known_transform(call[1], value)
    arguments = [argument.strip() for argument in call[2].split(",")]
    if name not in _TAKES_NUMBER:
        if len(arguments) != 1:
            raise _invalid("{value}: takes one column", value, f"{name}({arguments[-1]})")
        return _field(name, arguments[0], None, value)
    if len(arguments) != 2 or not arguments[0].isdecimal():  # noqa: PLR2004
        raise _invalid("{value}: needs a whole number and a column", value, _meant_call(name, arguments))
    if not 1 <= int(arguments[0]) <= MAX_PARAMETER:
        meant = None if int(arguments[0]) else _meant_call(name, arguments)
        raise _invalid(f"{{value}}: the number must lie between 1 and {MAX_PARAMETER}", value, meant)
    return _field(name, arguments[1], int(arguments[0]), value)


def _rejoined(value: Any) -> Any:
    """A list as it was meant: in `[day(a), bucket(16, b)]` YAML splits at the comma within the parentheses, too.

    Exact, for an item that opens a parenthesis and does not close it is nothing by itself.
    """
    if not isinstance(value, list):
        return value
    found: list[Any] = []
    for each in value:
        if isinstance(each, str) and found and _is_open(found[-1]):
            found[-1] = f"{found[-1]}, {each}"
        else:
            found.append(each)
    return found


def _is_open(item: Any) -> bool:
    return isinstance(item, str) and "(" in item and ")" not in item


def _meant_call(name: Transform, arguments: list[str]) -> str:
    number = next((each for each in arguments if each.isdecimal() and int(each)), "16")
    column = next((each for each in reversed(arguments) if each and not each.isdecimal()), "column")
    return f"{name}({number}, {column})"


def _known_transform(name: str, value: str) -> Transform:
    known = next((transform for transform in TRANSFORMS if name in {transform, f"{transform}s"}), None)
    if name == known:
        return known
    meant = known or nearest(name, TRANSFORMS)
    raise _invalid(
        "{value}: no such transform (" + ", ".join(TRANSFORMS) + ")",
        value,
        value.replace(name, meant, 1) if meant else None,
    )


def _field(transform: Transform, column: str, parameter: int | None, value: str) -> PartitionField:
    fault = ""
    try:
        column_parts(column)
        if not _IN_CALL.fullmatch(column):
            fault = f"{column!r} is not a column name or a dotted path to one: `{column}` is"
    except ValueError as error:
        fault = str(error)
    if fault:
        raise _invalid("{value}: " + fault.replace("{", "{{").replace("}", "}}"), value)
    return PartitionField(transform, column, parameter)


def _invalid(message: str, value: Any, suggestion: str | None = None) -> PydanticCustomError:
    text = message.replace("{value}", repr(value))
    return PydanticCustomError("transform", "{text}", {"text": text, "suggestion": suggestion})


def _parse_column(value: Any) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("column", "must be a column name or a dotted path to one")
    try:
        column_parts(value)
    except ValueError as error:
        raise PydanticCustomError("column", "{text}", {"text": str(error)}) from None
    return value


PartitionSpec = Annotated[
    PartitionField,
    PlainValidator(parse_partition_field),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "description": "year month day hour bucket(n, c) truncate(w, c), or a column alone",
            "examples": ["day(ordered_at)", "bucket(16, customer_id)", "hour(_kafka.timestamp)"],
        }
    ),
]
PartitionSpecs = Annotated[tuple[PartitionSpec, ...], BeforeValidator(_rejoined)]
ColumnPath = Annotated[str, PlainValidator(_parse_column), WithJsonSchema({"type": "string", "minLength": 1})]
