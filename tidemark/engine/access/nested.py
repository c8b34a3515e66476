"""What lies inside of values, as Spark SQL.

A column that takes structs apart and puts them together again nests by eight levels a struct; Spark Connect takes no
expression of more than a hundred. SQL is one level, however deep.
"""

from collections.abc import Mapping

from tidemark.domain.columns.spark_types import quoted_name, quoted_text

EACH = "each"
"""An element of a list, or a map's value, where `each_of` and `each_value_of` say what becomes of it."""


def field_of(value: str, name: str) -> str:
    """A field of a struct, whatever else has such a name."""
    return f"{value}[{quoted_text(name)}]"


def struct_of(value: str, parts: Mapping[str, str]) -> str:
    """A struct of `parts`, NULL where `value` is."""
    listed = ", ".join(f"{part} AS {quoted_name(name)}" for name, part in parts.items())
    return f"CASE WHEN {value} IS NOT NULL THEN struct({listed}) END"


def each_of(value: str, element: str) -> str:
    """A list with `element` of each in its place."""
    return f"transform({value}, {EACH} -> {element})"


def each_value_of(value: str, element: str) -> str:
    """A map with `element` of each value in its place."""
    return f"transform_values({value}, (key, {EACH}) -> {element})"
