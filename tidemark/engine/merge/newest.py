"""The newest event of each key told by its place alone, where offsets decide: what it supersedes is not read whole.

Places and keys are a small part of a row. Of the whole rows only the newest ones are then taken, by a join that moves
none of them, instead of sending each event to the others of its key.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.engine.merge.orderless import PLACE
from tidemark.engine.merge.rows import CAME, key_parts
from tidemark.engine.merge.shape import Shape

MANY = 100_000
"""Events from which a look at their places costs less than what it saves."""
HELD = 2_000_000
"""Keys whose newest places every task holds: some 50 bytes each."""
_OFFSETS, _PARTITIONS, _EPOCHS = 40, 14, 9
"""Bits of a place: one number, greater for what is newer."""


def told_by_place(shape: Shape, facts: Mapping[str, Any], *, alone: bool) -> bool:
    """Whether nothing but the place tells the newest event of a key, and none takes anything from older ones.

    Not worth it where rows are stored and few events are superseded: these are sent to the others of their key anyway.
    """
    current = shape.current
    if not current.by_offset or current.soft or shape.holding or facts["n"] < MANY:
        return False
    bits = {"offset": _OFFSETS, "partition": _PARTITIONS, "epoch": _EPOCHS}
    if any(facts[f"last_{name}"] >> most for name, most in bits.items()):
        return False
    return bool(facts["keys"] <= (HELD if alone else min(HELD, facts["n"] // 2)))


def newest_only(fresh: DataFrame, shape: Shape) -> DataFrame:
    """The newest of new events of each key, with the number of all; several where one place is there several times."""
    at = F.col(PLACE)
    place = (
        F.shiftleft(at["epoch"].cast("bigint"), _OFFSETS + _PARTITIONS)
        + F.shiftleft(at["offset"], _PARTITIONS)
        + at["partition"]
    )
    placed = fresh.withColumn("place", place)
    newest = placed.groupBy(*key_parts(shape)).agg(F.max("place").alias("place"), F.sum(CAME).alias(CAME))
    return placed.drop(CAME).join(F.broadcast(newest.select("place", CAME)), "place").drop("place")
