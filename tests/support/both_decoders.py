"""The decoders of `tidemark/jvm` beside the Python ones: the same values through both, in one query."""

from collections import Counter
from collections.abc import Iterable, Mapping
from unittest.mock import patch

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tidemark.domain.columns.types import Struct
from tidemark.engine.decode.on_executors import ShippedSchema, decoded
from tidemark.engine.decode.on_server import NAME, name_of

NAMED_BY = "tidemark.engine.decode.on_executors.name_of"


def on_server(writers: Mapping[int, ShippedSchema], columns: Struct, header: int = 0) -> Column:
    """As batches are decoded."""
    return decoded(F.col("value"), F.col("id"), writers, columns, header)


def in_python(writers: Mapping[int, ShippedSchema], columns: Struct, header: int = 0) -> Column:
    """The same function under a name of another form, which the server does not know."""
    with patch(NAMED_BY, lambda *said: name_of(*said).replace(NAME, "tidemark_decode_0", 1)):
        return on_server(writers, columns, header)


def ordered(value: Column, kind: DataType) -> Column:
    """Maps as their entries in the order of keys: theirs is protobuf's own."""
    match kind:
        case StructType():
            fields = [ordered(value[field.name], field.dataType).alias(field.name) for field in kind]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(value, lambda each: ordered(each, kind.elementType))
        case MapType():
            pairs = F.transform(
                F.map_entries(value),
                lambda pair: F.struct(pair["key"], ordered(pair["value"], kind.valueType)),
            )
            return F.array_sort(pairs)
    return value


def compared(
    spark: SparkSession,
    writers: Mapping[int, ShippedSchema],
    columns: Struct,
    values: Iterable[tuple[int, bytes | None]],
    header: int = 0,
) -> tuple[list[tuple[str, str, str]], Counter[str | None]]:
    """(value in hex, what the server makes of it, what Python does) where these differ, and how many of each cause.

    Texts tell NaN and -0.0 apart, hashes what types hide.
    """
    rows = [Row(id=writer, value=value) for writer, value in values]
    both = {"ours": on_server(writers, columns, header), "theirs": in_python(writers, columns, header)}
    read = spark.createDataFrame(rows, "id int, value binary").select(
        "value", *(column.alias(name) for name, column in both.items())
    )
    kind = read.schema["ours"].dataType
    read = read.select("value", *(ordered(F.col(name), kind).alias(name) for name in both))
    alike = F.lit(True)
    for same in (lambda one: one.cast("string"), F.xxhash64):
        alike &= same(F.col("ours")).eqNullSafe(same(F.col("theirs")))
    texts = (F.when(~alike, F.col(name).cast("string")).alias(name) for name in both)
    cause = F.col("theirs.cause").alias("cause")
    found = read.select(F.hex("value"), *texts, alike.alias("alike"), cause).collect()
    return [tuple(row)[:3] for row in found if not row["alike"]], Counter(row["cause"] for row in found)
