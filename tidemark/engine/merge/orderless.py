"""Deletes that bring no order, where a column of the source decides: tombstones, and Debezium's unless it is of `_cdc`.

Such a delete takes the newest event of its key if that was there before it: by offset in its own Kafka partition, by
record time in others. Only the newest event and the places of deletes are asked for, both of which are remembered, so
the answer does not depend on how events are cut into batches.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.engine.merge.event import (
    AFTER,
    DELETE,
    GONE,
    KEY,
    KIND,
    NEW,
    ORDER,
    ORIGIN,
    PLACE,
    REMEMBERED,
    STORED,
)

SEAT, TAKES, ACTS, BURIED, OTHERS = "seat", "takes", "acts", "buried", "others"


def with_memory(found: DataFrame) -> DataFrame:
    """Marks (soft deletes) with the order and the place that they came after, as far as they are remembered."""
    at = F.col(PLACE)
    same = Window.partitionBy(KEY, at["epoch"], at["partition"], at["offset"])
    known = F.when(
        F.col(ORIGIN) == REMEMBERED, F.struct(F.col(ORDER).alias("o"), F.col(AFTER).alias("after"))
    )
    told = F.when((F.col(ORIGIN) == STORED) & (F.col(KIND) == DELETE), F.max(known).over(same))
    return (
        found.withColumn("told", told)
        .withColumn(ORDER, F.when(F.col("told").isNotNull(), F.col("told")["o"]).otherwise(F.col(ORDER)))
        .withColumn(AFTER, F.when(F.col("told").isNotNull(), F.col("told")["after"]).otherwise(F.col(AFTER)))
        .drop("told")
    )


def with_seats(found: DataFrame, *, folds: bool) -> DataFrame:
    """Events with what sorts them beside their order; an orderless delete gets the order of the event it deletes.

    Adds SEAT (the place to sort by), TAKES (this delete deletes the newest event, and sorts right after it), ACTS
    (ORIGIN, but NEW where a known delete deletes a new event), OTHERS (places of new orderless deletes that may still
    delete a late event), BURIED (a delete that misses the newest event comes after; with `folds` only). An orderless
    delete that deletes nothing sorts last.
    """
    everyone = Window.partitionBy(KEY)
    orderless = (F.col(KIND) == DELETE) & ~F.col(ORIGIN).isin(*GONE)
    orderless &= F.col(ORDER).isNull() | F.col(AFTER).isNotNull()
    at = F.coalesce(AFTER, PLACE)
    claim = F.struct(
        F.col(ORDER).alias("o"), _seat(at).alias("seat"), F.col(ORIGIN).alias("origin"), at.alias("at")
    )
    aside = found.select(
        "*",
        orderless.alias("orderless"),
        F.max(F.when(F.col(ORDER).isNotNull(), claim)).over(everyone).alias("newest"),
    )
    newest = F.col("newest")
    takes = F.col("orderless") & F.coalesce(_before(newest["at"], F.col(PLACE)), F.lit(False))
    aside = aside.withColumn(TAKES, takes)
    aside = _with_buried(aside) if folds else aside.withColumn(BURIED, F.lit(False))
    aside = aside.withColumn("reaches", _reaches_furthest() & (F.col(ORIGIN) == NEW))
    of_newest, takes = F.when(F.col(TAKES), newest["o"]), F.col(TAKES)
    return aside.select(
        *(name for name in found.columns if name not in (ORDER, AFTER)),
        F.when(F.col("orderless"), of_newest).otherwise(F.col(ORDER)).alias(ORDER),
        F.when(takes, newest["at"]).alias(AFTER),
        F.when(takes, newest["seat"]).otherwise(_seat(F.col(PLACE))).alias(SEAT),
        F.when(takes & (newest["origin"] == NEW), NEW).otherwise(F.col(ORIGIN)).alias(ACTS),
        F.collect_set(F.when(F.col("reaches"), F.col(PLACE))).over(everyone).alias(OTHERS),
        TAKES,
        BURIED,
    )


def _seat(at: Column) -> Column:
    return F.struct(*(at[name].alias(name) for name in ("epoch", "partition", "offset")))


def _before(one: Column, other: Column) -> Column:
    """Whether a place comes before another: by offset in its own Kafka partition, by record time in others."""
    earlier = F.coalesce(one["timestamp"] <= other["timestamp"], one["timestamp"].isNull())
    within = F.when(one["partition"] == other["partition"], one["offset"] < other["offset"]).otherwise(
        earlier
    )
    return (one["epoch"] < other["epoch"]) | ((one["epoch"] == other["epoch"]) & within)


def _reaches_furthest() -> Column:
    """Whether no other delete of its kind in its Kafka partition reaches as far, by offset or by time."""
    at = F.col(PLACE)
    mates = Window.partitionBy(KEY, at["epoch"], at["partition"])
    last, latest = (F.max(F.when(F.col("orderless"), at[n])).over(mates) for n in ("offset", "timestamp"))
    return F.col("orderless") & ((at["offset"] == last) | (at["timestamp"] == latest))


def _with_buried(aside: DataFrame) -> DataFrame:
    """Whether a delete that does not take the newest event comes after this one."""
    at, lesser = F.col(PLACE), F.col("orderless") & ~F.col(TAKES)
    everyone, mates = Window.partitionBy(KEY), Window.partitionBy(KEY, at["epoch"], at["partition"])
    clock = F.struct(*(at[name].alias(name) for name in ("epoch", "timestamp", "partition")))
    aside = aside.withColumn("first", F.max(F.when(lesser, clock)).over(everyone))
    first = F.col("first")
    other = lesser & (at["epoch"] == first["epoch"]) & (at["partition"] != first["partition"])
    aside = aside.withColumn("second", F.max(F.when(other, at["timestamp"])).over(everyone))
    elsewhere = F.when(at["partition"] != first["partition"], first["timestamp"]).otherwise(F.col("second"))
    buried = (
        (at["epoch"] < first["epoch"])
        | (at["offset"] < F.max(F.when(lesser, at["offset"])).over(mates))
        | ((at["epoch"] == first["epoch"]) & (at["timestamp"] <= elsewhere))
    )
    return aside.withColumn(BURIED, F.coalesce(buried, F.lit(False)))
