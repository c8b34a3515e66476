"""Spark expressions that are put together here, for Spark Connect has a price or a limit for the usual way."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import quoted_name


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds; of none: false.

    `a | b | c …` nests as deep as there are, and Spark Connect takes no expression of more than a hundred levels.
    """
    middle = len(conditions) // 2
    if not middle:
        return conditions[0] if conditions else F.lit(False)
    return any_of(conditions[:middle]) | any_of(conditions[middle:])


def all_but(*names: str) -> Column:
    """All columns but these, for `select`.

    At `drop` and `withColumn` the server analyses all that is below, once more at each: `select` is only put down.
    """
    return F.expr(f"* EXCEPT ({', '.join(map(quoted_name, names))})")
