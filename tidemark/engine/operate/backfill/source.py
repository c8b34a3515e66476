"""Where a backfill reads rows that are rows already: an Iceberg table at one snapshot, or Parquet files."""

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructType
from pyspark.sql.types import MapType as SparkMap

from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.domain.columns.types import (
    KAFKA_COLUMN,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
)
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import Backfill, Source
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_shape import head_readable
from tidemark.engine.access.table_state import TableState, load
from tidemark.engine.operate.backfill.files import digest_now, open_files
from tidemark.engine.operate.backfill.shadow import fit, misfit
from tidemark.engine.schema.evolve import value_columns

_NAMES = {
    "integer": "int",
    "byte": "int",
    "short": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """Rows as they are, their columns without `_kafka`, and what pins them."""

    rows: DataFrame
    columns: Struct
    snapshot: int | None = None
    files: int = 0
    digest: str = ""
    """Of names, sizes and times of the files."""


def open_source(lake: Lake, source: Source, snapshot: int | None = None) -> Opened:
    """The source's rows, of an Iceberg table at `snapshot` or its newest.

    Raises:
        Refused: there is no such table, or it is empty; as `open_files`.
    """
    spark = lake.spark()
    if source.kind == "table":
        loaded = load(lake.catalog, source.name)
        head = snapshot or (loaded.metadata.current_snapshot_id if loaded else None)
        if loaded is None or head is None:
            raise Refused(
                f"there is nothing to load in table {source.name}",
                next_step="mend --source table:namespace.name",
                table=source.name,
            )
        if loaded.metadata.snapshot_by_id(head) is None:
            raise Refused(
                f"snapshot {head} of table {source.name}, which this backfill reads, was expired",
                next_step="tidemark backfill TABLE --abort, and begin anew",
                table=source.name,
            )
        if head == loaded.metadata.current_snapshot_id and not head_readable(loaded.metadata):
            place = f"{lake.catalog.name}.{source.name}"
            raise Refused(
                f"Spark cannot read snapshot {head} of table {source.name}: a column by whose values its files lie "
                "became wider since",
                next_step=f"a commit without rows is enough: INSERT INTO {place} SELECT * FROM {place} WHERE false; "
                "then repeat the command",
                table=source.name,
            )
        rows = spark.sql(f"SELECT * FROM {lake.identifier(source.name)} VERSION AS OF {head}")
        return Opened(rows, _columns(rows.schema), head)
    files = open_files(spark, source.name)
    return Opened(files.rows, _columns(files.rows.schema), files=files.count, digest=files.digest)


def state_now(lake: Lake, source: Source) -> str | None:
    """What the source's rows are as of now, like `Backfill.source_state`; None where it has gone."""
    if source.records:
        return ""
    if source.kind == "parquet":
        return digest_now(lake.spark(), source.name)
    loaded = load(lake.catalog, source.name)
    return None if loaded is None else str(loaded.metadata.current_snapshot_id or "empty")


def check_columns(opened: Opened, target: TableState) -> None:
    """Raises Refused when a column of the source does not fit exactly, before anything is made for it."""
    if why := misfit(opened.columns, value_columns(target), target.table):
        raise Refused(
            why,
            next_step="load from a copy without such columns, or with the types that the table has; a column that it "
            "lacks can come by its topic's schema first",
            table=target.table,
        )


def window_rows(opened: Opened, target: TableState, source: Source, plan: Backfill, number: int) -> DataFrame:
    """The rows of one window as rows of the table; `_kafka` says where they come from."""
    return _rows(opened, target, source, plan, plan.window(number), F.lit(number))


def all_rows(opened: Opened, target: TableState, source: Source, plan: Backfill) -> DataFrame:
    """The rows of all windows as rows of the table."""
    return _rows(opened, target, source, plan, (plan.since, plan.until), window_number(plan))


def _rows(
    opened: Opened,
    target: TableState,
    source: Source,
    plan: Backfill,
    between: tuple[datetime, datetime],
    number: Column,
) -> DataFrame:
    time, wanted = time_of(plan.time_column), value_columns(target)
    rows = opened.rows.where((time >= F.lit(between[0])) & (time < F.lit(between[1])))
    marked = rows.withColumn(KAFKA_COLUMN.name, _provenance(opened, source, plan, number))
    fitted = fit(marked, opened.columns, wanted, target.table)
    return fitted.select(*(quoted_name(f.name) for f in wanted.fields), KAFKA_COLUMN.name)


def window_number(plan: Backfill) -> Column:
    """The number of the window that a row lies in."""
    passed = F.unix_micros(time_of(plan.time_column).cast("timestamp")) - F.unix_micros(F.lit(plan.since))
    return F.call_function("div", passed, F.lit(plan.window_seconds * 1_000_000))


def time_of(path: str) -> Column:
    """The column by which windows are cut; of any time type."""
    first, *rest = column_parts(path)
    return reduce(lambda column, part: column[part], rest, F.col(quoted_name(first)))


def _provenance(opened: Opened, source: Source, plan: Backfill, number: Column) -> Column:
    had = next((f for f in opened.rows.schema.fields if f.name == KAFKA_COLUMN.name), None)
    keyed = had is not None and isinstance(had.dataType, StructType) and "key" in had.dataType.fieldNames()
    parts: dict[str, Any] = {
        "topic": F.lit(str(source)),
        "partition": F.lit(0),
        "offset": number,
        "timestamp": time_of(plan.time_column).cast("timestamp"),
        "timestamp_type": F.lit(-1),
        "key": F.col(f"{KAFKA_COLUMN.name}.key") if keyed else F.lit(None),
        "tombstone": F.lit(False),
        "epoch": F.lit(plan.epoch),
    }
    assert isinstance(KAFKA_COLUMN.type, Struct)  # noqa: S101 - it is declared so
    return F.struct(
        *(
            parts.get(field.name, F.lit(None)).cast(spark_ddl(field.type)).alias(field.name)
            for field in KAFKA_COLUMN.type.fields
        )
    )


@dataclass(frozen=True, slots=True)
class InRange:
    """What a source has in a range of time: rows, in windows [`first`, `upto`); those without a time are in none."""

    rows: int
    without_time: int
    first: int
    upto: int


def in_range(opened: Opened, plan: Backfill) -> InRange:
    """The rows of the source in the plan's range of time.

    Raises:
        Refused: there is no such column of a time type.
    """
    kind: ColumnType | None = opened.columns
    for part in column_parts(plan.time_column):
        field = kind.field(part) if isinstance(kind, Struct) else None
        kind = field.type if field else None
    if kind not in {Primitive("timestamp"), Primitive("timestamptz"), Primitive("date")}:
        raise Refused(
            f"{plan.time_column} is no column of a time in the source", next_step="--time-column NAME"
        )
    time = time_of(plan.time_column)
    inside = (time >= F.lit(plan.since)) & (time < F.lit(plan.until))
    number = F.when(inside, window_number(plan))
    figures = (F.count_if(inside), F.count_if(time.isNull()), F.min(number), F.max(number))
    [(rows, without, first, last)] = opened.rows.agg(*figures).collect()
    return InRange(rows, without, first or 0, last + 1 if rows else 0)


def _columns(schema: StructType) -> Struct:
    return Struct(tuple(f for f in _struct(schema).fields if f.name != KAFKA_COLUMN.name))


def _struct(schema: StructType) -> Struct:
    return Struct(tuple(Field(f.name, _type(f.dataType), meaning=None) for f in schema.fields))


def _type(kind: DataType) -> ColumnType:
    match kind:
        case StructType():
            return _struct(kind)
        case ArrayType():
            return ListType(_type(kind.elementType))
        case SparkMap():
            return MapType(_type(kind.keyType), _type(kind.valueType))
        case DecimalType():
            return decimal(kind.precision, kind.scale)
    return Primitive(_NAMES.get(kind.typeName(), kind.typeName()))
