"""Exact columns for types of Debezium's that Avro does not know: ZonedTimestamp, VariableScaleDecimal, Json.

Belongs here: expressions that are NULL for what is not exact; `avro_checks` makes that a cause.
"""

from typing import Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from pyspark.sql.types import StringType

from tidemark.domain.formats.connect import MAX_SCALE, ZONED_TIME
from tidemark.engine.decode.digits import digits_of
from tidemark.engine.decode.shipped.variant_documents import kept_texts
from tidemark.engine.decode.shipping import shippable

_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"


def whole(text: Column, pattern: str) -> Column:
    r"""Whether all of the text is as the pattern says; Java's `$` would let a line end follow."""
    return F.rlike(text, F.lit(rf"\A(?:{pattern})\z"))


def zoned_timestamp(text: Column) -> Column:
    """ISO 8601 with its zone, years 1 to 9999 in UTC, no finer than microseconds: Spark itself would cut digits off."""
    at = text.try_cast("timestamp")
    inside = at.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp"))
    return F.when(whole(text, ZONED_TIME) & inside, at)


def variable_decimal(value: Column) -> Column:
    """Plain digits of struct<scale, value>, a number of any length."""
    return F.when(has_digits(value), digits_of(value["value"], value["scale"]))


def has_digits(value: Column) -> Column:
    """Whether struct<scale, value> is a number that anyone would write out."""
    return value["scale"].between(-MAX_SCALE, MAX_SCALE) & (F.length(value["value"]) > 0)


def document(text: Column) -> Column:
    """JSON text as a VARIANT of which every digit is kept; NULL where it is none or cannot be.

    The executors' Python reads it: Spark's own parser takes what follows a document, and makes doubles of long numbers.
    """
    shippable()
    column: Column = cast("Any", F).arrow_udf(kept_texts, StringType())(text)
    return F.try_parse_json(column)
