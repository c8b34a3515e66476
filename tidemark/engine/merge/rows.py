"""Events, stored rows and remembered deletes of some keys, reduced to one row per key: the newest event decides.

Newest by `order_by`, then epoch, partition, offset. What is stored takes part as one more event, so it makes no
difference how events are cut into batches, in which order they come, or whether they come twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.domain.columns.types import KAFKA_COLUMN, ColumnType, ListType, MapType, Struct
from tidemark.domain.config.upsert import CDC, SOFT_COLUMN, Current
from tidemark.engine.access.conditions import any_of
from tidemark.engine.merge.unknown import is_unknown, may_be_unknown

KEY, ORDER, PLACE, KIND, ORIGIN, ROW = "k", "o", "at", "kind", "origin", "r"
UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"
UNDONE, RETOLD, UNTOLD, ERASED, REMEMBERED, STORED, NEW = range(7)
"""Where an event comes from; among equals the later one wins. UNDONE: a stored row that no longer counts. RETOLD: one
of which only the values count that no event tells, for retention may have taken who did. UNTOLD: one that stays unless
anything is known of its key. ERASED: one that a truncation took, and that stays, marked (soft deletes)."""
_GONE = (UNDONE, RETOLD, UNTOLD, ERASED)
_PLACE = ("epoch", "partition", "offset", "timestamp")
_PLACE_TYPE = "struct<epoch: int, partition: int, offset: bigint, timestamp: timestamp>"
_AFTER, _CARRIED = "after", "carried"


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the upsert table and what must be known of them."""

    current: Current
    columns: Struct

    @property
    def fields(self) -> tuple[tuple[str, ColumnType], ...]:
        """The top-level columns, without the soft-delete mark."""
        return tuple((f.name, f.type) for f in self.columns.fields if f.name != SOFT_COLUMN.name)

    @property
    def has_cdc(self) -> bool:
        """The rows come out of a Debezium envelope."""
        return self.columns.field(CDC) is not None

    @property
    def holding(self) -> tuple[str, ...]:
        """Columns in which Debezium may say that it does not know the value."""
        if self.current.append.value.envelope == "none":
            return ()
        own = {path[0] for path in (*self.current.keys, *self.current.order)}
        return tuple(n for n, kind in self.fields if may_be_unknown(kind) and n not in own)

    def type_of(self, *path: str) -> ColumnType:
        """The type at a path through structs. Raises KeyError."""
        kind: ColumnType = self.columns
        for name in path:
            field = kind.field(name) if isinstance(kind, Struct) else None
            if field is None:
                raise KeyError(".".join(path))
            kind = field.type
        return kind

    def key_type(self) -> str:
        """The key as a Spark struct."""
        return _struct("k", [self.type_of(*path) for path in self.current.keys])

    def order_type(self) -> str:
        """The order columns as a Spark struct."""
        return _struct("o", [self.type_of(*path) for path in self.current.order])


def _struct(prefix: str, kinds: Sequence[ColumnType]) -> str:
    return f"struct<{', '.join(f'{prefix}{n}: {spark_ddl(kind)}' for n, kind in enumerate(kinds))}>"


def events(rows: DataFrame, shape: Shape, found: Struct, origin: Column, *, whole: bool = True) -> DataFrame:
    """Rows of the append or the upsert table, with the columns `found`, as events.

    Not `whole`: without the values of columns, which only a new row brings.
    """
    kafka, kept = F.col(KAFKA_COLUMN.name), {KAFKA_COLUMN.name, *shape.holding}
    kind = F.when(F.coalesce(kafka["tombstone"], F.lit(False)), DELETE)
    if shape.has_cdc and found.field(CDC):
        kind = kind.when(F.col(CDC)["op"] == "t", TRUNCATE).when(F.col(CDC)["op"] == "d", DELETE)
    if found.field(SOFT_COLUMN.name):
        kind = F.when(F.col(SOFT_COLUMN.name), DELETE)
    parts = []
    for name, wanted in shape.fields:
        here = found.field(name) if whole or name in kept else None
        value = conformed(_named(name), here.type, wanted) if here else F.lit(None).cast(spark_ddl(wanted))
        parts.append(value.alias(name))
    gone = origin.isin(*_GONE)
    return rows.select(
        key_columns(shape).alias(KEY),
        F.when(~gone, _order(shape)).alias(ORDER),
        F.when(~gone, F.struct(*(kafka[name].alias(name) for name in _PLACE))).alias(PLACE),
        F.when(gone, DELETE).otherwise(kind.otherwise(UPSERT)).alias(KIND),
        origin.alias(ORIGIN),
        F.struct(*parts).alias(ROW),
    )


def key_columns(shape: Shape) -> Column:
    """The key as one struct of k0, k1 …"""
    parts = [F.col(quoted_name(*path)).alias(f"k{n}") for n, path in enumerate(shape.current.keys)]
    return F.struct(*parts).cast(shape.key_type())


def null_key(current: Current) -> Column:
    """Whether a part of the key is missing in an event that needs one."""
    missing = any_of([F.col(KEY)[f"k{n}"].isNull() for n in range(len(current.keys))])
    return (F.col(KIND) != TRUNCATE) & missing


def present(rows: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the upsert table that are older than whatever came: that they are there is all that counts of them."""
    return rows.select(
        key_columns(shape).alias(KEY),
        F.lit(None).cast(shape.order_type()).alias(ORDER),
        F.lit(None).cast(_PLACE_TYPE).alias(PLACE),
        F.lit(UPSERT).alias(KIND),
        F.lit(STORED).alias(ORIGIN),
        _no_row(shape),
    )


def remembered(rows: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the memory of hard deletes as events."""
    return rows.select(
        F.from_json("key", shape.key_type(), _JSON).alias(KEY),
        F.from_json("position", shape.order_type(), _JSON).alias(ORDER),
        F.struct(*(F.col(name) for name in _PLACE)).alias(PLACE),
        F.lit(DELETE).alias(KIND),
        F.lit(REMEMBERED).alias(ORIGIN),
        _no_row(shape),
    )


def _no_row(shape: Shape) -> Column:
    row = ", ".join(f"{quoted_name(name)}: {spark_ddl(kind)}" for name, kind in shape.fields)
    return F.lit(None).cast(f"struct<{row}>").alias(ROW)


def to_remember(deletes: DataFrame) -> DataFrame:
    """What the memory must hold of events that are deletes."""
    return deletes.select(
        F.to_json(KEY, _JSON).alias("key"),
        F.to_json(ORDER, _JSON).alias("position"),
        *(F.col(PLACE)[name].alias(name) for name in _PLACE),
        F.current_timestamp().alias("at"),
    )


def reduced(found: DataFrame, shape: Shape) -> DataFrame:
    """The newest event of each key, and what it means for the table.

    Adds to an event's columns: stored (a row is there), marked (and it is marked as deleted), news (new events of
    this key), action (insert, update, delete; NULL: leave all as it is). ROW is what the table must hold then.
    """
    newest: list[Column] = [F.col(PLACE)[name] for name in ("epoch", "partition", "offset")]
    if shape.current.by_source:
        found = _with_carried_order(found)
        newest = [F.col(_AFTER), F.col(_CARRIED), *newest]
    newest_first = Window.partitionBy(KEY).orderBy(
        *(each.desc_nulls_last() for each in (F.col(ORDER), *newest)), F.col(ORIGIN).desc()
    )
    everyone = Window.partitionBy(KEY)
    in_order = newest_first.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    stored, delete = F.col(ORIGIN).isin(STORED, *_GONE), F.col(KIND) == DELETE
    ranked = found.select(
        "*",
        F.row_number().over(newest_first).alias("rank"),
        F.max(stored).over(everyone).alias("stored"),
        F.max(stored & delete & (F.col(ORIGIN) == STORED)).over(everyone).alias("marked"),
        F.sum((F.col(ORIGIN) == NEW).cast("bigint")).over(everyone).alias("news"),
        _before_or_here(delete & (F.col(ORIGIN) != RETOLD), newest_first).alias("cut"),
        _before_or_here(F.col(ORIGIN) == STORED, newest_first).alias("passed"),
    )
    since = _first(F.when(_is_row(), F.col("cut"))).over(in_order) if shape.current.soft else F.lit(0)
    ranked = ranked.select("*", since.alias("since"))
    folded = ranked.select("*", *(value.over(in_order).alias(name) for name, value in _folds(shape)))
    winners = folded.where(F.col("rank") == 1)
    return winners.select(
        KEY,
        ORDER,
        PLACE,
        KIND,
        ORIGIN,
        "stored",
        "marked",
        "news",
        _action(shape).alias("action"),
        _content(shape).alias(ROW),
    )


def _with_carried_order(found: DataFrame) -> DataFrame:
    """A delete that knows no order of its own comes right after what was there before it.

    Before: by offset in its Kafka partition, by record time in others. Adds the place that it then comes after.
    """
    at = F.col(PLACE)
    place = F.struct(at["epoch"], at["partition"], at["offset"])
    here = Window.partitionBy(KEY, at["epoch"], at["partition"]).orderBy(at["offset"])
    anywhere = Window.partitionBy(KEY).orderBy(at["epoch"], at["timestamp"], at["partition"], at["offset"])
    earlier = [
        F.max(F.struct(F.col(ORDER).alias("o"), place.alias("p"))).over(
            each.rowsBetween(Window.unboundedPreceding, -1)
        )
        for each in (here, anywhere)
    ]
    carries = (F.col(KIND) == DELETE) & F.col(ORDER).isNull() & ~F.col(ORIGIN).isin(*_GONE)
    aside = found.select("*", earlier[0].alias("here"), earlier[1].alias("anywhere"))
    last = F.greatest("here", "anywhere")
    return aside.select(
        *(each for each in found.columns if each != ORDER),
        F.when(carries, last["o"]).otherwise(F.col(ORDER)).alias(ORDER),
        F.when(carries, F.greatest(place, last["p"])).otherwise(place).alias(_AFTER),
        carries.alias(_CARRIED),
    )


def _folds(shape: Shape) -> Iterator[tuple[str, Column]]:
    """What a winner may take from older events, newest first.

    A value that it, or the row that it marks, did not know is the last one told since the delete before; a stored row
    has taken its share before.
    """
    if shape.current.soft:
        yield "last", _first(F.when(_is_row(), F.col(ROW)))
    for number, name in enumerate(shape.holding):
        value = F.col(ROW)[name]
        here = F.when(F.col(ORIGIN) == STORED, 1).otherwise(0)
        reaches = (F.col("cut") == F.col("since")) & (F.col("passed") <= here)
        told = _is_row() & reaches & ~is_unknown(value, shape.type_of(name))
        yield f"told{number}", _first(F.when(told, F.struct(value.alias("v"))))


def _is_row() -> Column:
    """Whether it holds a row, be it one that is marked."""
    return (F.col(KIND) == UPSERT) | F.col(ORIGIN).isin(STORED, ERASED, RETOLD)


def _before_or_here(condition: Column, newest_first: WindowSpec) -> Column:
    return F.sum(condition.cast("int")).over(newest_first.rowsBetween(Window.unboundedPreceding, 0))


def _first(value: Column) -> Column:
    return F.first(value, ignorenulls=True)


def _content(shape: Shape) -> Column:
    """The winner's row; values that it did not know are those known before, a mark keeps the row that it marks."""
    if not shape.holding and not shape.current.soft:
        return F.col(ROW)
    known = _known(F.col(ROW), shape)
    content = F.struct(*(part.alias(name) for name, part in known.items()))
    return F.when(F.col(KIND) == DELETE, _mark(shape)).otherwise(content) if shape.current.soft else content


def _known(row: Column, shape: Shape) -> dict[str, Column]:
    """Its values, with those told before in place of those that it did not know."""
    parts = {name: row[name] for name, _ in shape.fields}
    for number, name in enumerate(shape.holding):
        told = F.col(f"told{number}")
        parts[name] = F.coalesce(told["v"], F.when(told.isNull(), row[name]))
    return parts


def _mark(shape: Shape) -> Column:
    """The last row, with place and order of the delete: what is older than the delete stays out."""
    row, last = F.col(ROW), F.col("last")
    parts = {
        name: row[name]
        if name in {KAFKA_COLUMN.name, CDC}
        else F.when(last.isNotNull(), value).otherwise(row[name])
        for name, value in _known(last, shape).items()
    }
    for n, (top, *rest) in enumerate(shape.current.order):
        if top != KAFKA_COLUMN.name:
            parts[top] = _with_part(parts[top], shape.type_of(top), rest, F.col(ORDER)[f"o{n}"])
    return F.struct(*(part.alias(name) for name, part in parts.items()))


def _with_part(value: Column, kind: ColumnType, path: Sequence[str], part: Column) -> Column:
    """`value` with `part` at a path through structs, which are made where they are missing."""
    if not path or not isinstance(kind, Struct):
        return part
    return F.struct(
        *(
            (_with_part(value[f.name], f.type, path[1:], part) if f.name == path[0] else value[f.name]).alias(
                f.name
            )
            for f in kind.fields
        )
    )


def _action(shape: Shape) -> Column:
    origin, stored = F.col(ORIGIN), F.col("stored")
    written = F.when(stored, "update").otherwise("insert")
    erased = F.when(stored, "delete")
    new = written if shape.current.soft else F.when(F.col(KIND) == DELETE, erased).otherwise(written)
    return F.when(origin == NEW, new).when(~origin.isin(STORED, UNTOLD, ERASED), erased)


def _order(shape: Shape) -> Column:
    parts = [F.col(quoted_name(*path)) for path in shape.current.order]
    order = F.struct(*(part.alias(f"o{n}") for n, part in enumerate(parts))).cast(shape.order_type())
    told = [
        part for part, path in zip(parts, shape.current.order, strict=True) if path[0] != KAFKA_COLUMN.name
    ]
    return F.when(any_of([part.isNotNull() for part in told or parts]), order)


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


def _named(name: str) -> Column:
    return F.col(quoted_name(name))


_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_JSON = {"timestampFormat": f"{_MOMENT}XXX", "timestampNTZFormat": _MOMENT, "ignoreNullFields": "false"}
