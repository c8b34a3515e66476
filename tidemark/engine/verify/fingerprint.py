"""A number that stands for a value: equal for equal values of one type, whatever the order of rows and map entries.

64 bits of xxHash. NULL, an empty list and a list of NULLs are told apart, and so are 0.0 and -0.0; the order of a
list's elements counts, that of a map's entries does not.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    VariantType,
)

from tidemark.domain.columns.spark_types import quoted_name

WHOLE = 2**64


def fingerprint(value: Column, kind: DataType) -> Column:
    """A bigint for the value; never NULL."""
    absent = value.isNull()
    match kind:
        case StructType():
            fields = (fingerprint(value.getField(f.name), f.dataType) for f in kind.fields)
            return F.xxhash64(absent, *fields)
        case ArrayType():
            element = kind.elementType
            return F.xxhash64(absent, F.size(value), F.transform(value, lambda e: fingerprint(e, element)))
        case MapType():
            return F.xxhash64(absent, F.size(value), F.array_sort(_entries(value, kind)))
        case VariantType():
            return F.xxhash64(absent, F.schema_of_variant(value), F.to_json(value))
        case DoubleType() | FloatType():
            return F.xxhash64(absent, value.cast("string"))  # Spark's hash takes -0.0 for 0.0
    return F.xxhash64(absent, value)


def _entries(value: Column, kind: MapType) -> Column:
    def entry(each: Column) -> Column:
        return F.xxhash64(
            fingerprint(each.getField("key"), kind.keyType),
            fingerprint(each.getField("value"), kind.valueType),
        )

    return F.transform(F.map_entries(value), entry)


def located(schema: StructType, name: str) -> tuple[Column, DataType] | None:
    """The column of this name, else what is at this dotted path through structs; None where there is none."""
    whole = next((f for f in schema.fields if f.name == name), None)
    if whole is not None:
        return F.col(quoted_name(name)), whole.dataType
    first, *rest = name.split(".")
    found = located(schema, first) if rest else None
    for part in rest:
        kind = found[1] if found else None
        inner = (
            next((f for f in kind.fields if f.name == part), None) if isinstance(kind, StructType) else None
        )
        found = (found[0].getField(part), inner.dataType) if found and inner else None
    return found


def summed(fingerprints: Column) -> Column:
    """The sum of many, exact: the order of rows makes no difference, a row twice does."""
    return F.coalesce(F.sum(fingerprints.cast("decimal(20,0)")), F.lit(0))


def shown(total: object) -> str:
    """A sum as 16 hexadecimal digits."""
    return f"{int(str(total)) % WHOLE:016x}"
