"""The rows of a table's head, in the columns that the table has now.

A snapshot is read with the columns that the table had when it was made. Those that came since, or have become wider,
are given to its rows here, as Iceberg itself does for every later snapshot: by the ids of the fields.
"""

from pyiceberg.types import IcebergType, NestedField, StructType
from pyiceberg.types import ListType as IcebergList
from pyiceberg.types import MapType as IcebergMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.engine.access.iceberg_types import column_type
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.nested import EACH, each_of, each_value_of, field_of, struct_of
from tidemark.engine.access.table_state import TableState


def head_rows(lake: Lake, state: TableState) -> DataFrame:
    """The table as the state saw it; it must have a head.

    By VERSION AS OF, for within one query Spark does not tell reads of a table apart that differ in options only.
    Where Spark cannot be pinned to it, the newest: whoever commits by them has made the head readable first.
    """
    table = lake.identifier(state.table)
    if not state.head_readable:
        return lake.spark().sql(f"SELECT * FROM {table}")
    rows = lake.spark().sql(f"SELECT * FROM {table} VERSION AS OF {state.head}")
    found, wanted = state.head_schema, state.schemas[-1] if state.schemas else None
    if found is None or wanted is None or found.fields == wanted.fields:
        return rows
    there = {field.field_id: field for field in found.fields}
    return rows.select(
        *(
            F.expr(
                _part(quoted_name(there[f.field_id].name) if f.field_id in there else None, there, f)
            ).alias(f.name)
            for f in wanted.fields
        )
    )


def _part(value: str | None, there: dict[int, NestedField], wanted: NestedField) -> str:
    """The field `wanted` (SQL), out of the one with its id among those that are `there`; NULL when none has it."""
    if value is None:
        return f"CAST(NULL AS {spark_ddl(column_type(wanted.field_type))})"
    return _value(value, there[wanted.field_id].field_type, wanted.field_type)


def _value(value: str, found: IcebergType, wanted: IcebergType) -> str:
    match found, wanted:
        case _ if found == wanted:
            return value
        case StructType(), StructType():
            there = {field.field_id: field for field in found.fields}
            parts = {
                f.name: _part(
                    field_of(value, there[f.field_id].name) if f.field_id in there else None, there, f
                )
                for f in wanted.fields
            }
            return struct_of(value, parts)
        case IcebergList(), IcebergList():
            return each_of(value, _value(EACH, found.element_type, wanted.element_type))
        case IcebergMap(), IcebergMap():
            return each_value_of(value, _value(EACH, found.value_type, wanted.value_type))
    return f"CAST({value} AS {spark_ddl(column_type(wanted))})"
