"""The decimal digits of a big integer in two's complement, in Spark SQL alone.

Belongs here: decimals of more than 38 digits, which Spark cannot hold as numbers and which become text
(docs/types.md). Rare, and slow by the standards of this package (lambdas over limbs), but exact at any length.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

_BASE = 1_000_000_000
_DIGITS = 9
_CHUNK = 6
"""Hexadecimal digits taken at a time: limb times radix stays within a bigint."""
_RADIX = 1 << (4 * _CHUNK)


def digits_of(value: Column, scale: int | Column) -> Column:
    """The number in the bytes `value`, with `scale` digits after the point, as text; NULL stays NULL.

    It may be negative: that many zeros follow the digits.
    """
    negative = F.substring(F.hex(value), 1, 1) >= "8"
    magnitude = F.when(negative, F.translate(F.hex(value), "0123456789ABCDEF", "FEDCBA9876543210"))
    digits = _decimal_digits(F.coalesce(magnitude, F.hex(value)), F.when(negative, 1).otherwise(0))
    text = _with_point(digits, scale)
    return F.when(value.isNotNull(), F.concat(F.when(negative, "-").otherwise(""), text))


def _decimal_digits(digits: Column, plus: Column) -> Column:
    """Hexadecimal to decimal digits, plus 0 or 1, without leading zeros but for one."""
    width = F.ceil(F.length(digits) / _CHUNK) * _CHUNK
    padded = F.lpad(digits, width.cast("int"), "0")
    positions = F.sequence(F.lit(0), (width / _CHUNK - 1).cast("int"))
    chunks = F.transform(positions, lambda i: F.conv(F.substr(padded, i * _CHUNK + 1, F.lit(_CHUNK)), 16, 10))
    zero = F.array(F.lit(0).cast("bigint"))
    limbs = F.aggregate(chunks, zero, lambda found, chunk: _carried(found, _RADIX, chunk.cast("bigint")))
    limbs = _carried(limbs, 1, plus.cast("bigint"))
    parts = F.transform(F.reverse(limbs), lambda limb: F.lpad(limb.cast("string"), _DIGITS, "0"))
    return F.regexp_replace(F.array_join(parts, ""), "^0+(?=.)", "")


def _carried(limbs: Column, factor: int, addend: Column) -> Column:
    """Limbs, lowest first, times `factor` plus `addend`."""
    start = F.struct(F.array().cast("array<bigint>").alias("done"), addend.alias("carry"))
    folded = F.aggregate(limbs, start, lambda state, limb: _step(state, limb, factor))
    return F.concat(folded["done"], F.array(folded["carry"]))


def _step(state: Column, limb: Column, factor: int) -> Column:
    total = limb * factor + state["carry"]
    return F.struct(
        F.concat(state["done"], F.array(F.pmod(total, F.lit(_BASE)))).alias("done"),
        F.call_function("div", total, F.lit(_BASE)).alias("carry"),
    )


def _with_point(digits: Column, scale: int | Column) -> Column:
    if isinstance(scale, int) and scale >= 0:
        return _pointed(digits, F.lit(scale)) if scale else digits
    after = F.lit(scale)
    zeros = F.when(digits == "0", digits).otherwise(F.concat(digits, F.repeat(F.lit("0"), -after)))
    return F.when(after <= 0, zeros).otherwise(_pointed(digits, after))


def _pointed(digits: Column, scale: Column) -> Column:
    padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
    whole = F.left(padded, F.length(padded) - scale)
    return F.concat(whole, F.lit("."), F.right(padded, scale))
