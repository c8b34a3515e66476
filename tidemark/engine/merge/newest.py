"""The newest event of each key told by its place alone, where offsets decide: what it supersedes is not read whole.

Places and keys are a small part of a row. Of the whole rows only the newest ones are then taken, by a join that moves
none of them, instead of sending each event to the others of its key.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.engine.merge.event import CAME, KEY, PLACE
from tidemark.engine.merge.rows import key_parts
from tidemark.engine.merge.upsert_columns import UpsertColumns

MANY = 100_000
"""Events from which a look at their places costs less than what it saves."""
MOST_KEYS = 2_000_000
"""Keys whose newest places every task holds: some 50 bytes each."""
_BITS = {"epoch": 9, "offset": 40, "partition": 14}
"""Bits of a place: one number, greater for what is newer."""


def decided_by_place(shape: UpsertColumns) -> bool:
    """Whether nothing but the place tells the newest event of a key, and none takes anything from older ones."""
    return shape.current.by_offset and not shape.blends


def reach() -> list[Column]:
    """What `told_by_place` asks of events beside their number `n`."""
    at = F.col(PLACE)
    return [
        *(F.max(at[name]).alias(f"last_{name}") for name in _BITS),
        F.approx_count_distinct(KEY).alias("keys"),
    ]


def told_by_place(shape: UpsertColumns, facts: Mapping[str, Any], *, alone: bool) -> bool:
    """Whether it pays to reduce places first.

    Not where rows are stored and few events are superseded: these are sent to the others of their key anyway.
    """
    if not decided_by_place(shape) or facts["n"] < MANY:
        return False
    if any(facts[f"last_{name}"] >> most for name, most in _BITS.items()):
        return False
    return bool(facts["keys"] <= (MOST_KEYS if alone else min(MOST_KEYS, facts["n"] // 2)))


def newest_only(fresh: DataFrame, shape: UpsertColumns) -> DataFrame:
    """The newest of new events of each key, with the number of all; several where one place is there several times."""
    at = F.col(PLACE)
    place = (
        F.shiftleft(at["epoch"].cast("bigint"), _BITS["offset"] + _BITS["partition"])
        + F.shiftleft(at["offset"], _BITS["partition"])
        + at["partition"]
    )
    placed = fresh.withColumn("place", place)
    newest = placed.groupBy(*key_parts(shape)).agg(F.max("place").alias("place"), F.sum(CAME).alias(CAME))
    return placed.drop(CAME).join(F.broadcast(newest.select("place", CAME)), "place").drop("place")
