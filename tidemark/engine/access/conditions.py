"""Conditions for Spark put together, on its columns or as SQL, however many there are.

A column that holds the next, as in `a | b | c …`, nests as deep as there are; Spark Connect takes no expression of more
than a hundred levels.
"""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.ledger.offsets import Ranges
from tidemark.domain.maintenance.retention import FIRST


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds, nested as little as can be; of none: false."""
    middle = len(conditions) // 2
    if not middle:
        return conditions[0] if conditions else F.lit(False)
    return any_of(conditions[:middle]) | any_of(conditions[middle:])


def kept_apart(condition: Column) -> Column:
    """The same condition, to be evaluated once and by itself.

    What is added about the partition is always true, and Spark does not know it: an expression that may answer
    differently is neither pushed below a filter nor merged into its user, either of which would evaluate it twice.
    """
    return condition & (F.spark_partition_id() >= 0)


def within(ranges: Ranges, partition: Column, offset: Column) -> Column:
    """Whether a place lies inside `ranges`."""
    return any_of([(partition == p) & (offset >= r.start) & (offset < r.end) for p, r in ranges.items()])


def expired(at: Column, cut: datetime) -> Column:
    """Whether retention may have deleted the row of a record of this time."""
    return (at >= F.lit(FIRST)) & (at < F.lit(cut))


def rows_within(epoch: int, ranges: Ranges) -> str:
    """The rows of a table inside `ranges` of an epoch, as SQL."""
    return f"_kafka.epoch = {epoch} AND ({sql_within(ranges, '_kafka.')})"


def sql_within(ranges: Ranges, prefix: str = "") -> str:
    """Whether a place, `prefix`partition and `prefix`offset, lies inside `ranges`, as SQL that PyIceberg reads too."""
    parts = (
        f"({prefix}partition = {p} AND {prefix}offset >= {r.start} AND {prefix}offset < {r.end})"
        for p, r in sorted(ranges.items())
    )
    return " OR ".join(parts) or "false"
