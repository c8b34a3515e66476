"""Kafka keys as columns: what keeps one from being the key that a row needs.

Belongs here: expressions over a decoded key. Which columns it fills is planned in `keys`.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.types import KAFKA_COLUMN

KEY_PAYLOAD = "_tidemark_key"
"""The working column that holds the keys of the records which need one."""
_SHOWN = 40
_WHY = {
    "null_key": "is NULL, or a part of it",
    "type_mismatch": "is not of the type of its columns",
}


def key_cause(cause: Column, certain: Sequence[Column]) -> Column:
    """The cause that a decoded key gives to a record that needs it; `certain` are columns that it must fill."""
    null = reduce(lambda one, other: one | other.isNull(), certain, F.col("key").isNull())
    framing = F.when(cause == "no_magic_byte", "undecodable").when(
        cause == "unknown_schema_id", "undecodable"
    )
    found = F.coalesce(framing, cause)
    return F.when(F.col("key").isNull(), "null_key").when(cause.isNotNull(), found).when(null, "null_key")


def key_detail(cause: Column) -> Column:
    """Words for it, with the key's first bytes."""
    why = reduce(
        lambda words, each: words.when(cause == each[0], each[1]), _WHY.items(), F.when(F.lit(False), "")
    ).otherwise("does not decode")
    shown = F.concat(F.lit("0x"), F.hex(F.substring(F.col("key"), 1, _SHOWN)))
    text = F.concat(F.lit("the Kafka key "), F.coalesce(shown, F.lit("")), F.lit(" "), why)
    return F.when(cause.isNotNull(), text)


def part_of(columns: Mapping[str, Column], path: tuple[str, ...]) -> Column:
    """The column at a path, `_kafka.key` included."""
    if path == (KAFKA_COLUMN.name, "key"):
        return F.col("key")
    return reduce(lambda column, name: column[name], path[1:], columns[path[0]])
