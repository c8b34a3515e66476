"""Where the rows of a table come from: parts of their `_kafka` struct, at one snapshot, a batch at a time.

PyIceberg reads them, so that nobody needs Spark to look; but it opens no data file with a VARIANT in it, and none of
Avro, so for such tables Spark does.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression, EqualTo, Reference
from pyiceberg.table import Table

from tidemark.domain.columns.types import KAFKA_COLUMN, holds_variant
from tidemark.engine.access.iceberg_types import columns_of
from tidemark.engine.access.lake import Lake

FORMAT = "write.format.default"


def kafka_rows(
    lake: Lake, name: str, loaded: Table, where: str | BooleanExpression, parts: Sequence[str], snapshot: int
) -> Iterator["pa.StructArray"]:
    """The `parts` of `_kafka` of the rows that `where` holds for: a text of SQL, or an equality.

    Raises:
        Outage: `spark_down`, for a table with VARIANT columns or of another file format than Parquet.
    """
    if needs_spark(loaded):
        yield from _by_spark(lake, name, where, parts, snapshot)
        return
    fields = tuple(f"{KAFKA_COLUMN.name}.{part}" for part in parts)
    scan = loaded.scan(row_filter=where, selected_fields=fields, snapshot_id=snapshot)
    for batch in scan.to_arrow_batch_reader():
        yield cast("pa.StructArray", batch.column(KAFKA_COLUMN.name))


def needs_spark(loaded: Table) -> bool:
    """Whether PyIceberg cannot read the rows; what Spark finds comes to the client all at once."""
    return holds_variant(columns_of(loaded.schema())) or loaded.properties.get(FORMAT, "parquet") != "parquet"


def listed(rows: "pa.StructArray | pa.Table") -> list[dict[str, Any]]:
    """Rows as Python has them; `timestamp` as microseconds since 1970, for no datetime holds every time of a record."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_struct_array(rows)
    at = table.schema.get_field_index("timestamp")
    micros = table.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return table.set_column(at, "timestamp", micros).to_pylist()


def _by_spark(
    lake: Lake, name: str, where: str | BooleanExpression, parts: Sequence[str], snapshot: int
) -> Iterator["pa.StructArray"]:
    listed = ", ".join(f"{KAFKA_COLUMN.name}.{part}" for part in parts)
    found = lake.spark().sql(
        f"SELECT {listed} FROM {lake.identifier(name)} VERSION AS OF {snapshot} WHERE {_sql(where)}"
    )
    table = found.toArrow()
    for batch in table.to_batches():
        yield pa.StructArray.from_arrays(batch.columns, names=list(parts))


def _sql(where: str | BooleanExpression) -> str:
    if isinstance(where, str):
        return where
    if isinstance(where, EqualTo) and isinstance(where.literal.value, bytes):
        return f"{cast('Reference', where.term).name} = X'{where.literal.value.hex()}'"
    raise ValueError(f"no SQL for {where}")
