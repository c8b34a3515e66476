"""Conditions on Spark columns put together, however many there are.

One that holds the next, as in `a | b | c …`, nests as deep as there are; Spark Connect takes no expression of more than
a hundred levels.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds, nested as little as can be; of none: false."""
    middle = len(conditions) // 2
    if not middle:
        return conditions[0] if conditions else F.lit(False)
    return any_of(conditions[:middle]) | any_of(conditions[middle:])
