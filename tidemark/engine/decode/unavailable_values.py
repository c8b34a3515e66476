"""Values that Debezium did not know, in the form that it has for each type.

Postgres' connector does not get large values that an update left alone (unchanged TOAST). It sends its placeholder
instead: the words, their bytes or numbers, or a value made of them (io.debezium.connector.postgresql,
UnchangedToastedPlaceholder).
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import (
    BINARY,
    STRING,
    VARIANT,
    ColumnType,
    ListType,
    MapType,
    Primitive,
    Struct,
)
from tidemark.engine.decode.shipped.variant_documents import UNAVAILABLE

_BYTES = UNAVAILABLE.encode()
_HSTORE = f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'
"""An hstore where `hstore.handling.mode` is json, its default."""
_BASE64 = b64encode(_BYTES).decode()
WORDS = (UNAVAILABLE, _HSTORE, _BASE64)
"""The texts that stand for one, or for a document."""
_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""Java's UUID.nameUUIDFromBytes of the words, the one element of a uuid[]."""
_EPOCH = date(1970, 1, 1)
_ELEMENTS: dict[ColumnType, tuple[list[Any], ...]] = {
    STRING: ([UNAVAILABLE], [_UUID], [_BASE64]),
    BINARY: ([_BYTES],),
    Primitive("int"): (list(_BYTES),),
    Primitive("long"): (list(_BYTES),),
    Primitive("date"): ([_EPOCH + timedelta(days=each) for each in _BYTES],),
}
"""Arrays by the type of their elements; json[] and texts of any kind are arrays of text, date[] one of days."""
_TEXTS = MapType(STRING, STRING)
_SHAPES = tuple(
    bytes.fromhex(each)
    for each in (
        "0101000020E6100000000000FC83D797C1000000FC83D797C1",
        "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
        "0101000000000000FC83D797C1000000FC83D797C1",
    )
)
"""The places that stand for an unknown geometry, geography and point, as `wkb`."""


def may_be_unknown(kind: ColumnType) -> bool:
    """Whether there is a form for this type."""
    if isinstance(kind, ListType):
        return kind.element in _ELEMENTS
    return kind in (STRING, BINARY, VARIANT, _TEXTS) or _is_shape(kind)


def is_unknown(value: Column, kind: ColumnType) -> Column:
    """Whether it stands for a value that the connector did not know; never NULL."""
    if isinstance(kind, ListType):
        forms = (F.array(*(F.lit(each) for each in form)) for form in _ELEMENTS[kind.element])
        return _is_one_of(value, [form.cast(spark_ddl(kind)) for form in forms])
    if kind == _TEXTS:
        only = F.struct(F.lit(UNAVAILABLE).alias("key"), F.lit(UNAVAILABLE).alias("value"))
        return F.map_entries(value).eqNullSafe(F.array(only))
    if _is_shape(kind):
        return _is_one_of(value["wkb"], [F.lit(each) for each in _SHAPES])
    if kind == BINARY:
        return _is_one_of(value, [F.lit(_BYTES)])
    text = F.try_variant_get(value, "$", "string") if kind == VARIANT else value
    return _is_one_of(text, [F.lit(each) for each in WORDS])


def _is_shape(kind: ColumnType) -> bool:
    return isinstance(kind, Struct) and (wkb := kind.field("wkb")) is not None and wkb.type == BINARY


def _is_one_of(value: Column, forms: Sequence[Column]) -> Column:
    return F.coalesce(value.isin(*forms), F.lit(False))
