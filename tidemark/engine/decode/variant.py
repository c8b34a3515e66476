"""JSON text into VARIANT columns, wherever in a column they are.

Belongs here: SQL that never raises. Spark's `parse_json` makes doubles of what 38 digits cannot hold; the text that
comes here was written so that it does not (`shipped.json_values.variant_text`).
"""

from tidemark.domain.columns.types import ColumnType, ListType, MapType, Struct, holds_variant
from tidemark.engine.access.nested import EACH, each_of, each_value_of, field_of, struct_of


def with_variants(value: str, kind: ColumnType) -> str:
    """`value`, in which variants are JSON text, in the type `kind`."""
    if not holds_variant(kind):
        return value
    match kind:
        case Struct(fields):
            return struct_of(value, {f.name: with_variants(field_of(value, f.name), f.type) for f in fields})
        case ListType(element):
            return each_of(value, with_variants(EACH, element))
        case MapType(_, inner):
            return each_value_of(value, with_variants(EACH, inner))
    return f"try_parse_json({value})"


def lost(value: str, kind: ColumnType) -> str:
    """True where a text of `value` would become no VARIANT, of which there is one in `kind`; never NULL."""
    match kind:
        case Struct(fields):
            found = (lost(field_of(value, f.name), f.type) for f in fields if holds_variant(f.type))
            return f"({' OR '.join(found)})"
        case ListType(element):
            return f"coalesce(exists({value}, {EACH} -> {lost(EACH, element)}), false)"
        case MapType(_, inner):
            return lost(f"map_values({value})", ListType(inner))
    return f"({value} IS NOT NULL AND try_parse_json({value}) IS NULL)"
