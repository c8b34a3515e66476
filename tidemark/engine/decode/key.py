"""Kafka keys as columns: what keeps one from being the key that a row needs.

Belongs here: expressions over a decoded key. Which columns it fills is planned in `keys`.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

KEY_PAYLOAD = "_tidemark_key"
"""The working column that holds the keys of the records which need one."""
_SHOWN = 40
_WHY = {
    "null_key": "is NULL, or a part of it",
    "type_mismatch": "is not of the type of its columns",
}


def key_cause(
    cause: Column, filled: Mapping[str, Column], given: Mapping[str, Column], *, certain: bool
) -> Column:
    """The cause that a decoded key gives to a record that needs it.

    `filled` are the columns from the key, `given` those of the value. A `certain` key must fill all of them; another
    may be NULL where the value has a column itself.
    """
    framing = F.when(cause.isin("no_magic_byte", "unknown_schema_id"), "undecodable")
    found = F.when(cause.isNotNull(), F.coalesce(framing, cause))
    if certain:
        for each in (F.col("key"), *filled.values()):
            found = found.when(each.isNull(), "null_key")
        return found
    for each in (F.col("key"), *(given[name] for name in filled)):
        found = found.when(each.isNotNull(), None)
    return found.otherwise("null_key")


def key_detail(cause: Column) -> Column:
    """Words for it, with the key's first bytes."""
    why = reduce(
        lambda words, each: words.when(cause == each[0], each[1]), _WHY.items(), F.when(F.lit(False), "")
    ).otherwise("does not decode")
    shown = F.concat(F.lit("0x"), F.hex(F.substring(F.col("key"), 1, _SHOWN)))
    text = F.concat_ws(" ", F.lit("the Kafka key"), shown, why)
    return F.when(cause.isNotNull(), text)
