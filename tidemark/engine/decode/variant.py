"""JSON text into VARIANT columns, wherever in a column they are.

Belongs here: expressions that never raise. Spark's `parse_json` makes doubles of what 38 digits cannot hold; the text
that comes here was written so that it does not (`shipped.json_values.variant_text`).
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.types import ColumnType, ListType, MapType, Struct, holds_variant
from tidemark.engine.access.conditions import any_of


def with_variants(value: Column, kind: ColumnType) -> Column:
    """`value`, in which variants are JSON text, in the type `kind`."""
    if not holds_variant(kind):
        return value
    match kind:
        case Struct(fields):
            parts = (with_variants(value[f.name], f.type).alias(f.name) for f in fields)
            return F.when(value.isNotNull(), F.struct(*parts))
        case ListType(element):
            return F.transform(value, lambda item: with_variants(item, element))
        case MapType(_, inner):
            return F.transform_values(value, lambda _, item: with_variants(item, inner))
    return F.try_parse_json(value)


def lost(value: Column, kind: ColumnType) -> Column | None:
    """True where a text of `value` would become no VARIANT; None where there is none to lose."""
    if not holds_variant(kind):
        return None
    match kind:
        case Struct(fields):
            found = [each for f in fields if (each := lost(value[f.name], f.type)) is not None]
            return any_of([F.coalesce(each, F.lit(False)) for each in found])
        case ListType(element):
            return F.exists(value, lambda item: _lost(item, element))
        case MapType(_, inner):
            return F.exists(F.map_values(value), lambda item: _lost(item, inner))
    return value.isNotNull() & F.try_parse_json(value).isNull()


def _lost(value: Column, kind: ColumnType) -> Column:
    found = lost(value, kind)
    return F.lit(False) if found is None else F.coalesce(found, F.lit(False))
