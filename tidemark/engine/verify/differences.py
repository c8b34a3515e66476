"""Which keys differ between two sets of rows, counted by kind, and some of them with their values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import DataType

from tidemark.domain.ledger.quality_results import PII, may_show
from tidemark.engine.verify.exact_json import read_exactly
from tidemark.engine.verify.fingerprint import fingerprint, located, summed

KEY, ROW = "_tidemark_key", "_tidemark_row"
"""Columns with the fingerprints of a row's key and of its values."""
NOT_SHOWN = f"not shown: {PII}"
_MICROSECONDS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One key. `columns`: name -> (value in the table, value in the other), where each has the key once."""

    key: Mapping[str, Any]
    table_rows: int
    other_rows: int
    columns: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def without(self, hidden: Collection[str]) -> "Difference":
        """This one without the values of columns that may not be shown; that they differ is told."""
        key = {name: value if may_show(name, hidden) else NOT_SHOWN for name, value in self.key.items()}
        columns = {
            name: both if may_show(name, hidden) else (NOT_SHOWN, NOT_SHOWN)
            for name, both in self.columns.items()
        }
        return replace(self, key=key, columns=columns)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        columns = {name: list(values) for name, values in self.columns.items()}
        rows = {"table_rows": self.table_rows, "other_rows": self.other_rows}
        return {"key": dict(self.key), **rows, "columns": columns}


@dataclass(frozen=True, slots=True)
class Differences:
    """Keys that only one side has, keys whose rows differ, and a sample of all of them."""

    only_in_table: int
    only_in_other: int
    changed: int
    sample: tuple[Difference, ...]

    def without(self, hidden: Collection[str]) -> "Differences":
        """These without the values of columns that may not be shown."""
        return replace(self, sample=tuple(each.without(hidden) for each in self.sample))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "only_in_table": self.only_in_table,
            "only_in_other": self.only_in_other,
            "changed": self.changed,
            "sample": [each.as_json() for each in self.sample],
        }


def look_closer(
    one: DataFrame, other: DataFrame, columns: Sequence[str], keys: Sequence[str], most: int
) -> Differences:
    """Compare rows with the fingerprints KEY and ROW; `most` of the differing keys are shown with their `columns`."""
    left, right = _by_key(one, "a"), _by_key(other, "b")
    mine, theirs = F.coalesce("a_n", F.lit(0)), F.coalesce("b_n", F.lit(0))
    same = F.col("a_n").eqNullSafe(F.col("b_n")) & F.col("a_sum").eqNullSafe(F.col("b_sum"))
    apart = left.join(right, KEY, "full_outer").where(~same)
    counts = apart.agg(
        F.count_if(theirs == 0).alias("left"),
        F.count_if(mine == 0).alias("right"),
        F.count_if((mine > 0) & (theirs > 0)).alias("both"),
    ).collect()[0]
    few = apart.orderBy(KEY).limit(most).select(KEY, mine.alias("a"), theirs.alias("b")).collect()
    numbers = {row[KEY]: (row["a"], row["b"]) for row in few}
    shown = [_values(rows, numbers, columns, keys) for rows in (one, other)]
    return Differences(
        counts["left"],
        counts["right"],
        counts["both"],
        tuple(_difference(n, shown[0].get(k), shown[1].get(k)) for k, n in numbers.items()),
    )


def _by_key(rows: DataFrame, prefix: str) -> DataFrame:
    count, total = F.count("*").alias(f"{prefix}_n"), summed(F.col(ROW)).alias(f"{prefix}_sum")
    return rows.groupBy(KEY).agg(count, total)


Values = tuple[Mapping[str, Any], Mapping[str, tuple[int, Any]]]
"""The key's columns, and of each column (fingerprint, value)."""


def _values(
    rows: DataFrame, numbers: Mapping[int, Any], columns: Sequence[str], keys: Sequence[str]
) -> dict[int, Values]:
    if not numbers:
        return {}
    parts: list[Column] = [F.col(KEY).alias("key")]
    for n, name in enumerate(keys):
        parts.append(_text(_there(rows, name)[0]).alias(f"k{n}"))
    for n, name in enumerate(columns):
        column, kind = _there(rows, name)
        parts += [fingerprint(column, kind).alias(f"p{n}"), _text(column).alias(f"v{n}")]
    found: dict[int, Values] = {}
    one_each = rows.where(F.col(KEY).isin(list(numbers))).dropDuplicates([KEY])
    for row in one_each.select(*parts).collect():
        key = {name: read_exactly(row[f"k{n}"])["v"] for n, name in enumerate(keys)}
        values = {name: (row[f"p{n}"], read_exactly(row[f"v{n}"])["v"]) for n, name in enumerate(columns)}
        found.setdefault(row["key"], (key, values))
    return found


def _there(rows: DataFrame, name: str) -> tuple[Column, DataType]:
    found = located(rows.schema, name)
    if found is None:
        raise KeyError(name)
    return found


def _text(column: Column) -> Column:
    return F.to_json(F.struct(column.alias("v")), _MICROSECONDS)


def _difference(numbers: tuple[int, int], one: Values | None, other: Values | None) -> Difference:
    key, values = one or other or ({}, {})
    if not key:
        key = {name: value for name, (_, value) in values.items()}
    if numbers != (1, 1) or one is None or other is None:
        return Difference(key, *numbers)
    changed = {
        name: (mine[1], other[1][name][1]) for name, mine in one[1].items() if mine[0] != other[1][name][0]
    }
    return Difference(key, *numbers, changed)
