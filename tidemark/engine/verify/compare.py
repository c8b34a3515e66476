"""Two tables side by side: rows, keys and checksums per day, freshness, and samples of what differs.

For the parallel run of a migration: the other table may be anyone's, with or without `_kafka`. Each is read at one
snapshot; checksums do not depend on the order of rows and compare values of one type only (`fingerprint`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.quality_results import PII, hidden_columns, may_show
from tidemark.domain.lineage.column_lineage import lineage_of, tags_of
from tidemark.domain.suggest import nearest
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.snapshots import made_at
from tidemark.engine.access.table_shape import head_readable
from tidemark.engine.access.table_state import load
from tidemark.engine.config.discovery import Discovery
from tidemark.engine.verify.comparison import Columns, Comparison, Figures, Side, Wanted
from tidemark.engine.verify.differences import KEY, ROW, Differences, look_closer
from tidemark.engine.verify.fingerprint import fingerprint, located, shown, summed

GROUP = "_tidemark_group"
_TIMES = (TimestampType, TimestampNTZType, DateType)
_COMPOSED = (ArrayType, MapType, StructType, VariantType)
"""No columns to group by: Spark orders no map and no VARIANT, alone or within others."""


def compare(lake: Lake, table: str, other: str, wanted: Wanted, seen: Discovery | None = None) -> Comparison:
    """Compare two tables of the catalog, each at its newest snapshot.

    `seen` tells what columns of tables that no contract makes are made of: personal data is not shown there either.

    Raises:
        Refused: one of them does not exist, a named column is not in both, or no column is.
        Outage: the catalog, the store or Spark does not answer.
    """
    one, another = _opened(lake, table), _opened(lake, other)
    with translated(table):
        found = _compared(lake, one, another, wanted, seen)
    loose = [each for each in (one, another) if not each.pinned]
    if any(_opened(lake, each.table).snapshot_id != each.snapshot_id for each in loose):
        return compare(lake, table, other, wanted, seen)  # to the head that has come Spark can be pinned
    return found


def _compared(
    lake: Lake, one: "_Opened", another: "_Opened", wanted: Wanted, seen: Discovery | None
) -> Comparison:
    table, other = one.table, another.table
    hidden = _hidden(lake.configuration, {table, other}, seen or Discovery())
    wanted = _completed(lake.configuration, one, another, wanted, hidden)
    _require_meaning(one, another, wanted)
    columns = _columns(one.rows.schema, another.rows.schema, wanted.ignore)
    if not columns.compared:
        raise Refused(
            f"{table} and {other} have no column in common: there is nothing to compare",
            next_step="name the table that holds the same rows",
            table=table,
        )
    marked = [_marked(each.rows, columns.compared, wanted) for each in (one, another)]
    sides = [_side(each, rows, wanted) for each, rows in zip((one, another), marked, strict=True)]
    found = Comparison(sides[0], sides[1], tuple(wanted.keys), wanted.by, columns, Differences(0, 0, 0, ()))
    apart = [g for g, mine, theirs in found.groups if mine != theirs]
    if not apart:
        return found
    inside = F.col(GROUP).isin([g for g in apart if g is not None])
    inside = (inside | F.col(GROUP).isNull()) if None in apart else inside
    one_part, other_part = marked[0].where(inside), marked[1].where(inside)
    closer = look_closer(one_part, other_part, columns.compared, wanted.keys, wanted.sample)
    return replace(found, closer=closer.without(hidden))


def _hidden(configuration: Configuration, tables: Collection[str], seen: Discovery) -> frozenset[str]:
    """The columns that a contract of one of the tables tags as personal data, or that are made of such."""
    merged = upsert_tables(configuration.contracts)
    contracts = [each for each in configuration.contracts if each.table in tables]
    contracts += [merged[table].append for table in tables if table in merged]
    own = frozenset(path for contract in contracts for path in hidden_columns(contract))
    lineage = lineage_of(seen.described(), configuration.contracts)
    made_of_it = {
        column.lower()
        for table in tables
        for column in lineage.get(table, {})
        if PII in map(str.lower, tags_of(lineage, configuration.contracts, table, column))
    }
    return own | made_of_it


@dataclass(frozen=True, slots=True)
class _Opened:
    table: str
    snapshot_id: int | None
    committed_at: datetime | None
    rows: DataFrame
    pinned: bool = True


def _opened(lake: Lake, table: str) -> _Opened:
    if not all(table.partition(".")):
        raise Refused(f"{table} is no table", next_step="name it as namespace.name", table=table)
    with translated(table):
        loaded = load(lake.catalog, table)
        if loaded is None:
            raise Refused(
                f"there is no table {table} in catalog {lake.platform.catalog.name}",
                next_step="tidemark status lists the tables of the contracts",
                table=table,
            )
        head, pinned = loaded.metadata.current_snapshot(), head_readable(loaded.metadata)
        which = "WHERE false" if head is None else f"VERSION AS OF {head.snapshot_id}" if pinned else ""
        rows = lake.spark().sql(f"SELECT * FROM {lake.identifier(table)} {which}")
        at = made_at(head) if head else None
        return _Opened(table, head.snapshot_id if head else None, at, rows, pinned)


def _completed(
    configuration: Configuration, one: _Opened, other: _Opened, wanted: Wanted, hidden: frozenset[str]
) -> Wanted:
    """With keys and `by` from the contract of either table, as far as both tables have such columns.

    Raises:
        Refused: a column that was asked for is not one of both tables, or the values of `by` may not be shown.
    """
    for name in (*wanted.keys, *([wanted.by] if wanted.by else [])):
        if not _shared(one, other, name):
            raise Refused(
                f"{name} is not a column of one type in both tables",
                next_step="--key and --by name columns that both tables have, of the same type",
                table=one.table,
                other=other.table,
            )
    if wanted.by and not may_show(wanted.by, hidden):
        raise Refused(
            f"figures by {wanted.by} would show its values, which are personal data",
            next_step="--by another column, or none",
            table=one.table,
            other=other.table,
        )
    keys, times = [tuple(wanted.keys)], [wanted.by]
    for table in (one.table, other.table):
        upsert = upsert_tables(configuration.contracts).get(table)
        contract = next((c for c in configuration.contracts if c.table == table), None)
        keys.append(tuple(".".join(path) for path in upsert.keys) if upsert else ())
        keys.append(tuple(contract.key.fields) if contract else ())
        times.append(contract.event_time or "" if contract else "")
    times.append(f"{KAFKA_COLUMN.name}.timestamp")
    return replace(
        wanted,
        keys=next((each for each in keys if each and all(_shared(one, other, k) for k in each)), ()),
        by=next(
            (each for each in times if each and may_show(each, hidden) and _shared(one, other, each)), ""
        ),
    )


def _require_meaning(one: _Opened, other: _Opened, wanted: Wanted) -> None:
    """Nothing that was asked for is passed over, or left to Spark to choke on.

    Raises:
        Refused: an ignored column is in neither table; `by` holds no single values; `since` or `until` without a time
            to hold them against, or with none between them.
    """
    names = {*one.rows.schema.names, *other.rows.schema.names}
    unknown = sorted(wanted.ignore - names)
    if unknown:
        meant = nearest(unknown[0], names)
        raise Refused(
            f"neither table has a column {unknown[0]}" + (f"; did you mean {meant}?" if meant else ""),
            next_step="--ignore names columns of one of the tables",
            table=one.table,
            other=other.table,
        )
    found = located(one.rows.schema, wanted.by) if wanted.by else None
    if found is not None and isinstance(found[1], _COMPOSED):
        raise Refused(
            f"{wanted.by} is no column of single values",
            next_step="--by names one: a number, a text, a time, bytes",
            table=one.table,
            other=other.table,
        )
    if wanted.since is None and wanted.until is None:
        return
    if found is None or not isinstance(found[1], _TIMES):
        why = f"{wanted.by} is none" if wanted.by else "no such column of both tables is known"
        raise Refused(
            f"--from and --to need a time, and {why}",
            next_step="--by names a column of times",
            table=one.table,
            other=other.table,
        )
    if wanted.since and wanted.until and wanted.since >= wanted.until:
        raise Refused(
            f"--from {wanted.since.isoformat()} --to {wanted.until.isoformat()} is nothing",
            next_step="--from and --to name two times, the first before the second",
            table=one.table,
            other=other.table,
        )


def _shared(one: _Opened, other: _Opened, name: str) -> bool:
    here, there = (located(each.rows.schema, name) for each in (one, other))
    return here is not None and there is not None and here[1].simpleString() == there[1].simpleString()


def _columns(one: StructType, other: StructType, ignore: frozenset[str]) -> Columns:
    left = {f.name: f.dataType.simpleString() for f in one.fields if f.name not in ignore}
    right = {f.name: f.dataType.simpleString() for f in other.fields if f.name not in ignore}
    for names in (left, right):
        names.pop(KAFKA_COLUMN.name, None)
    both = [name for name in left if name in right]
    return Columns(
        compared=tuple(name for name in both if left[name] == right[name]),
        only_in_table=tuple(name for name in left if name not in right),
        only_in_other=tuple(name for name in right if name not in left),
        types_differ={name: (left[name], right[name]) for name in both if left[name] != right[name]},
    )


def _marked(rows: DataFrame, compared: Sequence[str], wanted: Wanted) -> DataFrame:
    """The rows that are meant, each with its group and the fingerprints of its key and of its values."""
    time = _column(rows, wanted.by) if wanted.by else None
    if time is not None and wanted.since is not None:
        rows = rows.where(time >= F.lit(wanted.since))
    if time is not None and wanted.until is not None:
        rows = rows.where(time < F.lit(wanted.until))
    return rows.withColumns(
        {
            GROUP: _group(rows.schema, wanted.by),
            KEY: prints_of(rows, wanted.keys or compared),
            ROW: prints_of(rows, compared),
        }
    )


def prints_of(rows: DataFrame, names: Sequence[str]) -> Column:
    """One fingerprint for several columns of `rows`, by dotted names in the order of the names."""
    found = (located(rows.schema, name) for name in sorted(names))
    each = [fingerprint(*here) for here in found if here is not None]
    return F.xxhash64(*each) if each else F.lit(0).cast("bigint")


def _column(rows: DataFrame, name: str) -> Column:
    found = located(rows.schema, name)
    if found is None:
        raise Refused(f"there is no column {name}")
    return found[0]


def _newest(schema: StructType, by: str) -> Column:
    """The greatest value of this column as text; a time as ISO 8601, with its zone where the column has one."""
    found = located(schema, by) if by else None
    if found is None:
        return F.lit(None).cast("string")
    column, kind = F.max(found[0]), found[1]
    if isinstance(kind, TimestampType | TimestampNTZType):
        zone = "xxx" if isinstance(kind, TimestampType) else ""
        return F.date_format(column, f"yyyy-MM-dd'T'HH:mm:ss.SSSSSS{zone}")
    return _text(column, kind)


def _group(schema: StructType, by: str) -> Column:
    found = located(schema, by) if by else None
    if found is None:
        return F.lit("all")
    column, kind = found
    return column.cast("date").cast("string") if isinstance(kind, _TIMES) else _text(column, kind)


def _text(column: Column, kind: DataType) -> Column:
    return F.hex(column) if isinstance(kind, BinaryType) else column.cast("string")


def figures() -> list[Column]:
    """What `Figures` are made of, as aggregates over rows with KEY and ROW."""
    return [
        F.count("*").alias("rows"),
        F.count_distinct(KEY).alias("keys"),
        summed(F.col(ROW)).alias("checksum"),
    ]


def figures_of(row: Any) -> Figures:
    """The aggregates of `figures`."""
    return Figures(row["rows"], row["keys"], shown(row["checksum"]))


def _side(opened: _Opened, rows: DataFrame, wanted: Wanted) -> Side:
    with translated(opened.table):
        grouped = rows.groupBy(GROUP).agg(*figures()).collect()
        whole = rows.agg(*figures(), _newest(rows.schema, wanted.by).alias("newest")).collect()[0]
    return Side(
        table=opened.table,
        snapshot_id=opened.snapshot_id,
        committed_at=opened.committed_at,
        newest=whole["newest"],
        whole=figures_of(whole),
        groups={row[GROUP]: figures_of(row) for row in grouped},
    )
