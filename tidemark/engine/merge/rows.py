"""Events, stored rows and remembered deletes of some keys, reduced to one row per key: the newest event decides.

Newest by `order_by`, then epoch, partition, offset. What is stored takes part as one more event, so it makes no
difference how events are cut into batches, in which order they come, or whether they come twice.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.names import CDC
from tidemark.domain.columns.spark_types import quoted_name, quoted_text, spark_ddl
from tidemark.domain.columns.types import KAFKA_COLUMN, ColumnType, ListType, MapType, Primitive, Struct
from tidemark.domain.config.upsert import SOFT_COLUMN, UpsertTable
from tidemark.engine.access.conditions import any_of
from tidemark.engine.access.nested import EACH, each_of, each_value_of, field_of, struct_of
from tidemark.engine.decode.unavailable_values import WORDS, is_unknown
from tidemark.engine.merge.event import (
    AFTER,
    CAME,
    DELETE,
    ERASED,
    GONE,
    KEY,
    KIND,
    NEW,
    ORDER,
    ORIGIN,
    PLACE,
    REMEMBERED,
    RETOLD,
    ROW,
    STORED,
    TRUNCATE,
    UNTOLD,
    UPSERT,
)
from tidemark.engine.merge.orderless import ACTS, BURIED, OTHERS, SEAT, TAKES, with_memory, with_seats
from tidemark.engine.merge.upsert_columns import UpsertColumns

_PLACE_FIELDS = ("epoch", "partition", "offset", "timestamp")
_PLACE_TYPE = "struct<epoch: int, partition: int, offset: bigint, timestamp: timestamp>"


def events(
    rows: DataFrame, shape: UpsertColumns, found: Struct, origin: Column, *, whole: bool = True
) -> DataFrame:
    """Rows of the append or the upsert table, with the columns `found`, as events.

    Not `whole`: without the values of columns, which only a new row brings.
    """
    kafka, kept = F.col(KAFKA_COLUMN.name), {KAFKA_COLUMN.name, *shape.holding}
    kind, lent = F.when(F.coalesce(kafka["tombstone"], F.lit(False)), DELETE), F.lit(False)
    if shape.has_cdc and found.field(CDC):
        if shape.current.by_row:
            lent = (origin == NEW) & F.col(CDC)["op"].eqNullSafe("d")
        kind = kind.when(F.col(CDC)["op"] == "t", TRUNCATE).when(F.col(CDC)["op"] == "d", DELETE)
    if shape.current.soft and found.field(SOFT_COLUMN.name):
        kind = F.when(F.col(SOFT_COLUMN.name), DELETE)
    parts = []
    for name, wanted in shape.fields:
        here = found.field(name) if whole or name in kept else None
        value = (
            conformed(quoted_name(name), here.type, wanted) if here else f"CAST(NULL AS {spark_ddl(wanted)})"
        )
        parts.append(F.expr(value).alias(name))
    gone = origin.isin(*GONE)
    return rows.select(
        key_columns(shape).alias(KEY),
        F.when(~gone, _order(shape, kind.isNotNull(), lent)).alias(ORDER),
        F.when(~gone, F.struct(*(kafka[name].alias(name) for name in _PLACE_FIELDS))).alias(PLACE),
        F.when(gone, DELETE).otherwise(kind.otherwise(UPSERT)).alias(KIND),
        origin.alias(ORIGIN),
        (origin == NEW).cast("bigint").alias(CAME),
        F.struct(*parts).alias(ROW),
        *_after(shape),
    )


def _after(shape: UpsertColumns, place: Column | None = None) -> list[Column]:
    """The place of the event that a delete without an order took; where no column of the source decides, none does."""
    known = F.lit(None) if place is None else place
    return [known.cast(_PLACE_TYPE).alias(AFTER)] if shape.current.by_source else []


def key_columns(shape: UpsertColumns) -> Column:
    """The key as one struct of k0, k1 …"""
    parts = [F.col(quoted_name(*path)).alias(f"k{n}") for n, path in enumerate(shape.current.keys)]
    return F.struct(*parts).cast(shape.key_type())


def key_parts(shape: UpsertColumns) -> list[Column]:
    """The parts of an event's key as columns."""
    return [F.col(KEY)[f"k{n}"].alias(f"k{n}") for n in range(len(shape.current.keys))]


def null_key(current: UpsertTable) -> Column:
    """Whether a part of the key is missing in an event that needs one."""
    missing = any_of([F.col(KEY)[f"k{n}"].isNull() for n in range(len(current.keys))])
    return (F.col(KIND) != TRUNCATE) & missing


def present(rows: DataFrame, shape: UpsertColumns) -> DataFrame:
    """Rows of the upsert table that are older than whatever came: that they are there is all that counts of them."""
    return rows.select(
        key_columns(shape).alias(KEY),
        F.lit(None).cast(shape.order_type()).alias(ORDER),
        F.lit(None).cast(_PLACE_TYPE).alias(PLACE),
        F.lit(UPSERT).alias(KIND),
        F.lit(STORED).alias(ORIGIN),
        F.lit(0).cast("bigint").alias(CAME),
        _no_row(shape),
    )


def remembered(rows: DataFrame, shape: UpsertColumns) -> DataFrame:
    """Rows of the memory of hard deletes as events."""
    position = F.from_json("position", f"{shape.order_type()[:-1]}, after: {_PLACE_TYPE}>", _JSON)
    order = F.struct(*(position[name].alias(name) for name in shape.order_names))
    return rows.select(
        F.from_json("key", shape.key_type(), _JSON).alias(KEY),
        F.when(position.isNotNull(), order).alias(ORDER),
        F.struct(*(F.col(name) for name in _PLACE_FIELDS)).alias(PLACE),
        F.lit(DELETE).alias(KIND),
        F.lit(REMEMBERED).alias(ORIGIN),
        F.lit(0).cast("bigint").alias(CAME),
        _no_row(shape),
        *_after(shape, position["after"]),
    )


def _no_row(shape: UpsertColumns) -> Column:
    row = ", ".join(f"{quoted_name(name)}: {spark_ddl(kind)}" for name, kind in shape.fields)
    return F.lit(None).cast(f"struct<{row}>").alias(ROW)


def to_remember(winners: DataFrame, shape: UpsertColumns) -> DataFrame:
    """What the memory must hold of winners: new deletes, and the places of others that may yet take what comes late.

    A float is written with the digits of its double: the column may be one by the time that it is read.
    """
    deletes = winners.where((F.col(KIND) == DELETE) & (F.col(ORIGIN) == NEW))
    others = winners.select(KEY, F.explode(OTHERS).alias(PLACE))
    key, told = F.col(KEY).cast(_doubles(shape.key_type())), F.col(ORDER).cast(_doubles(shape.order_type()))
    order = [told[name].alias(name) for name in shape.order_names]
    position = F.when(F.col(ORDER).isNotNull(), F.struct(*order, AFTER))
    parts = (deletes.select(KEY, position.alias("position"), PLACE), others)
    found = parts[0].unionByName(parts[1], allowMissingColumns=True)
    return found.select(
        F.to_json(key, _JSON).alias("key"),
        F.to_json("position", _JSON).alias("position"),
        *(F.col(PLACE)[name].alias(name) for name in _PLACE_FIELDS),
        F.current_timestamp().alias("at"),
    )


def _doubles(struct: str) -> str:
    return struct.replace(": float", ": double")


def reduced(found: DataFrame, shape: UpsertColumns) -> DataFrame:
    """The newest event of each key, and what it means for the table.

    Adds to an event's columns: stored (a row is there), marked (and it is marked as deleted), news (new events of
    this key), action (insert, update, delete; NULL: leave all as it is). ROW is what the table must hold then, ORIGIN
    that of the event that acts (ACTS). AFTER and OTHERS are there only where a column of the source decides.
    """
    newest: list[Column] = [F.col(PLACE)[name] for name in ("epoch", "partition", "offset")]
    if shape.current.by_source:
        found = with_memory(found) if shape.current.soft else found
        found = with_seats(found, folds=bool(shape.holding))
        newest = [F.col(SEAT), F.col(TAKES), *newest]
    folded = _folded(found, shape, newest)
    return folded.where(F.col("rank") == 1).select(
        KEY,
        ORDER,
        PLACE,
        KIND,
        _acts(shape).alias(ORIGIN),
        "stored",
        "marked",
        "news",
        _action(shape).alias("action"),
        _content(shape).alias(ROW),
        *_others(shape),
    )


def _folded(found: DataFrame, shape: UpsertColumns, newest: Sequence[Column]) -> DataFrame:
    """Events with their rank in their key (1: the newest) and, equal for all of a key, what they are together.

    That is stored, marked and news (see `reduced`) and the values of `_folds`. deletes_newer, stored_newer and
    upserts_newer count from the newest event down to this one, itself among them; deletes_above_row does down to the
    newest row.
    """
    # By a number first: of that Spark compares the bytes, of a struct each time the whole.
    by_key = F.xxhash64(KEY), KEY
    newest_first = Window.partitionBy(*by_key).orderBy(
        *(each.desc_nulls_last() for each in (F.col(ORDER), *newest)), F.col(ORIGIN).desc()
    )
    in_order = newest_first.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    stored, delete = F.col(ORIGIN).isin(STORED, *GONE), F.col(KIND) == DELETE
    ranked = found.select(
        "*",
        F.row_number().over(newest_first).alias("rank"),
        F.max(stored).over(in_order).alias("stored"),
        F.max(stored & delete & (F.col(ORIGIN) == STORED)).over(in_order).alias("marked"),
        F.sum(CAME).over(in_order).alias("news"),
        _before_or_here(delete & (F.col(ORIGIN) != RETOLD), newest_first).alias("deletes_newer"),
        _before_or_here(F.col(ORIGIN) == STORED, newest_first).alias("stored_newer"),
        _before_or_here(F.col(KIND) == UPSERT, newest_first).alias("upserts_newer"),
    )
    above_row = _first(F.when(_is_row(), F.col("deletes_newer"))).over(in_order)
    ranked = ranked.select("*", (above_row if shape.current.soft else F.lit(0)).alias("deletes_above_row"))
    return ranked.select("*", *(value.over(in_order).alias(name) for name, value in _folds(shape)))


def taken_alone(found: DataFrame) -> DataFrame:
    """What `reduced` gives of new events, one of each key, where nothing is stored and no event needs another."""
    return found.select(
        KEY,
        ORDER,
        PLACE,
        KIND,
        ORIGIN,
        F.lit(False).alias("stored"),
        F.lit(False).alias("marked"),
        F.col(CAME).alias("news"),
        F.when(F.col(KIND) != DELETE, "insert").alias("action"),
        ROW,
    )


def _acts(shape: UpsertColumns) -> Column:
    return F.col(ACTS if shape.current.by_source else ORIGIN)


def _others(shape: UpsertColumns) -> list[Column]:
    """Where a column of the source decides, what must be remembered beside the winner."""
    if not shape.current.by_source:
        return []
    mine = (F.col(KIND) == DELETE) & (F.col(ACTS) == NEW)
    others = F.filter(OTHERS, lambda each: ~(mine & (each == F.col(PLACE))))
    return [F.col(AFTER), others.alias(OTHERS)]


def _folds(shape: UpsertColumns) -> Iterator[tuple[str, Column]]:
    """What a winner may take from older events, newest first.

    An unknown value becomes the newest known one since the last delete. Events behind a stored row are skipped: it
    holds theirs.
    """
    if shape.current.soft:
        yield "last", _first(F.when(_is_row(), F.col(ROW)))
    if shape.current.soft and shape.has_cdc:
        said = (F.col(KIND) == DELETE) & ~F.col(ORIGIN).isin(*GONE) & (F.col("upserts_newer") == 0)
        yield "said", _first(F.when(said, F.col(ROW)[CDC]))
    for number, name in enumerate(shape.holding):
        value = F.col(ROW)[name]
        here = F.when(F.col(ORIGIN) == STORED, 1).otherwise(0)
        reaches = (F.col("deletes_newer") == F.col("deletes_above_row")) & (F.col("stored_newer") <= here)
        reaches &= ~F.col(BURIED) if shape.current.by_source else F.lit(True)
        told = _is_row() & reaches & ~is_unknown(value, shape.type_of(name))
        yield f"told{number}", _first(F.when(told, F.struct(value.alias("v"))))


def _is_row() -> Column:
    """Whether it holds a row, be it one that is marked."""
    return (F.col(KIND) == UPSERT) | F.col(ORIGIN).isin(STORED, ERASED, RETOLD)


def _before_or_here(condition: Column, newest_first: WindowSpec) -> Column:
    return F.sum(condition.cast("int")).over(newest_first.rowsBetween(Window.unboundedPreceding, 0))


def _first(value: Column) -> Column:
    return F.first(value, ignorenulls=True)


def _content(shape: UpsertColumns) -> Column:
    """The winner's row; values that it did not know are those known before, a mark keeps the row that it marks."""
    if not shape.holding and not shape.current.soft:
        return F.col(ROW)
    known = _known(F.col(ROW), shape)
    content = F.struct(*(part.alias(name) for name, part in known.items()))
    return F.when(F.col(KIND) == DELETE, _mark(shape)).otherwise(content) if shape.current.soft else content


def _known(row: Column, shape: UpsertColumns) -> dict[str, Column]:
    """Its values, with those told before in place of those that it did not know."""
    parts = {name: row[name] for name, _ in shape.fields}
    for number, name in enumerate(shape.holding):
        told = F.col(f"told{number}")
        parts[name] = F.coalesce(told["v"], F.when(told.isNull(), row[name]))
    return parts


def _mark(shape: UpsertColumns) -> Column:
    """The last row, with place and order of the delete: what is older than the delete stays out."""
    row, last = F.col(ROW), F.col("last")
    parts = {
        name: row[name]
        if name in {KAFKA_COLUMN.name, CDC}
        else F.when(last.isNotNull(), value).otherwise(row[name])
        for name, value in _known(last, shape).items()
    }
    if shape.has_cdc:  # a tombstone says nothing of the delete that it follows
        parts[CDC] = F.coalesce(row[CDC], F.col("said"))
    if shape.current.by_source:  # a remembered delete brings its place alone
        place: dict[tuple[str, ...], Column] = {(name,): F.col(PLACE)[name] for name in _PLACE_FIELDS}
        kafka = _with_parts(last[KAFKA_COLUMN.name], KAFKA_COLUMN.type, place)
        parts[KAFKA_COLUMN.name] = F.when(row.isNull(), kafka).otherwise(parts[KAFKA_COLUMN.name])
    order = list(zip(shape.current.order, shape.order_names, strict=True))
    for top in {path[0] for path in shape.current.order} - {KAFKA_COLUMN.name}:
        told = {path[1:]: F.col(ORDER)[name] for path, name in order if path[0] == top}
        parts[top] = _with_parts(parts[top], shape.type_of(top), told)
    return F.struct(*(part.alias(name) for name, part in parts.items()))


def _with_parts(value: Column, kind: ColumnType, parts: Mapping[tuple[str, ...], Column]) -> Column:
    """`value` with `parts` at paths through structs, which are made where they are missing.

    All in one pass: each pass writes `value` down once for every field that it has.
    """
    if () in parts or not isinstance(kind, Struct):
        return next(iter(parts.values()))
    fields = []
    for field in kind.fields:
        inside = {path[1:]: part for path, part in parts.items() if path[0] == field.name}
        here = value[field.name]
        fields.append((_with_parts(here, field.type, inside) if inside else here).alias(field.name))
    return F.struct(*fields)


def _action(shape: UpsertColumns) -> Column:
    origin, stored = _acts(shape), F.col("stored")
    written = F.when(stored, "update").otherwise("insert")
    erased = F.when(stored, "delete")
    if shape.current.soft:
        new = written
        if shape.current.by_source:  # what is only remembered has no row of its own to mark
            new = F.when((F.col(ORIGIN) == REMEMBERED) & F.col("last").isNull(), erased).otherwise(written)
    else:
        new = F.when(F.col(KIND) == DELETE, erased).otherwise(written)
    return F.when(origin == NEW, new).when(~origin.isin(STORED, UNTOLD, ERASED), erased)


def _order(shape: UpsertColumns, deletes: Column, lent: Column) -> Column:
    """The order of a row, with NULL where a column is; a delete has one only if it tells a column of the source.

    One whose columns are `lent` by the row before it tells none of its own.
    """
    paths = shape.current.order
    parts = [F.col(quoted_name(*path)).alias(f"o{n}") for n, path in enumerate(paths)]
    order = F.struct(*parts).cast(shape.order_type())
    told = [F.col(quoted_name(*path)).isNotNull() for path in paths if path[0] != KAFKA_COLUMN.name]
    return F.when(~deletes | (any_of(told) & ~lent), order) if told else order


def conformed(value: str, found: ColumnType, wanted: ColumnType) -> str:
    """`value` (SQL) in a type that covers its own: more fields, wider numbers, the JSON text of a variant.

    Debezium's placeholder for a text that it did not know is no JSON there.
    """
    match found, wanted:
        case _ if found == wanted:
            return value
        case Struct(), Struct(fields):
            parts = {}
            for field in fields:
                here = found.field(field.name)
                part = conformed(field_of(value, field.name), here.type, field.type) if here else "NULL"
                parts[field.name] = f"CAST({part} AS {spark_ddl(field.type)})"
            return struct_of(value, parts)
        case ListType(old), ListType(new):
            return each_of(value, conformed(EACH, old, new))
        case MapType(_, old), MapType(_, new):
            return each_value_of(value, conformed(EACH, old, new))
        case Primitive("variant"), Primitive("string"):
            words = f"try_variant_get({value}, {quoted_text('$')}, 'string')"
            unknown = ", ".join(map(quoted_text, WORDS))
            return f"CASE WHEN {words} IN ({unknown}) THEN {words} ELSE to_json({value}) END"
    return f"CAST({value} AS {spark_ddl(wanted)})"


_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_JSON = {"timestampFormat": f"{_MOMENT}XXX", "timestampNTZFormat": _MOMENT, "ignoreNullFields": "false"}
