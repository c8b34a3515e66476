"""The rows of a table's head, in the columns that the table has now.

A snapshot is read with the columns that the table had when it was made. Those that came since, or have become wider,
are given to its rows here: a reader of the plan's columns finds them all.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.domain.columns.types import ColumnType, ListType, MapType, Struct
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState


def head_rows(lake: Lake, state: TableState) -> DataFrame:
    """The table as the state saw it; it must have a head.

    By VERSION AS OF, for within one query Spark does not tell reads of a table apart that differ in options only.
    """
    rows = lake.spark().sql(f"SELECT * FROM {lake.identifier(state.table)} VERSION AS OF {state.head}")
    found, wanted = state.head_columns, state.columns
    if found is None or wanted is None or found == wanted:
        return rows
    parts = []
    for field in wanted.fields:
        here = found.field(field.name)
        value = conformed(F.col(quoted_name(field.name)), here.type, field.type) if here else F.lit(None)
        parts.append(value.cast(spark_ddl(field.type)).alias(field.name))
    return rows.select(*parts)


def conformed(value: Column, found: ColumnType, wanted: ColumnType) -> Column:
    """`value` in a type that covers its own: more fields, wider numbers."""
    match found, wanted:
        case _ if found == wanted:
            return value
        case Struct(), Struct(fields):
            parts = []
            for field in fields:
                here = found.field(field.name)
                part = conformed(value[field.name], here.type, field.type) if here else F.lit(None)
                parts.append(part.cast(spark_ddl(field.type)).alias(field.name))
            return F.when(value.isNotNull(), F.struct(*parts))
        case ListType(old), ListType(new):
            return F.transform(value, lambda each: conformed(each, old, new))
        case MapType(_, old), MapType(_, new):
            return F.transform_values(value, lambda _, each: conformed(each, old, new))
    return value.cast(spark_ddl(wanted))
