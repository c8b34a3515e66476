"""How Spark spells column types: in DDL, and in the JSON of its schemas.

Belongs here: spelling and quoting. An Iceberg `timestamp` is Spark's timestamp_ntz, a `timestamptz` its
timestamp. What stands in columns that others have added too: a `uuid` is its string, a `fixed[n]` its binary.
"""

from collections.abc import Mapping
from typing import Any

from tidemark.domain.columns.types import ColumnType, Field, ListType, MapType, Primitive, Struct

_SPARK_NAMES = {
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
    "unknown": "void",
}
_DDL_NAMES = {**_SPARK_NAMES, "long": "bigint"}
_JSON_NAMES = {**_SPARK_NAMES, "int": "integer"}
_UNREAD = frozenset({"time", "timestamp_ns", "timestamptz_ns"})


def spark_ddl(kind: ColumnType) -> str:
    """The type in Spark SQL, for example "struct<`a`: bigint COMMENT 'of the order'>"."""
    match kind:
        case Primitive(name):
            return "binary" if name.startswith("fixed[") else _DDL_NAMES.get(name, name)
        case ListType(element):
            return f"array<{spark_ddl(element)}>"
        case MapType(key, value):
            return f"map<{spark_ddl(key)}, {spark_ddl(value)}>"
        case Struct(fields):
            return f"struct<{', '.join(_field_ddl(field, ': ') for field in fields)}>"


def is_read(kind: ColumnType) -> bool:
    """False for a type that Spark has no name for: it reads no table with such a column."""
    match kind:
        case Primitive(name):
            return name not in _UNREAD
        case ListType(element):
            return is_read(element)
        case MapType(key, value):
            return is_read(key) and is_read(value)
        case Struct(fields):
            return all(is_read(field.type) for field in fields)


def columns_ddl(struct: Struct) -> str:
    """The columns between the brackets of CREATE TABLE, comments and NOT NULL included."""
    return ", ".join(_field_ddl(field, " ") for field in struct.fields)


def _field_ddl(field: Field, separator: str) -> str:
    null = " NOT NULL" if field.required else ""
    comment = f" COMMENT {quoted_text(field.doc)}" if field.doc else ""
    return f"{quoted_name(field.name)}{separator}{spark_ddl(field.type)}{null}{comment}"


def quoted_name(*parts: str) -> str:
    """A name, or a dotted path of names, in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def quoted_text(text: str) -> str:
    r"""A Spark SQL string literal.

    `$` is escaped because Spark replaces ${…} before it parses, inside literals too; NUL is left out.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024").replace("\0", "")
    return f"'{escaped}'"


def property_list(properties: Mapping[str, str]) -> str:
    """What stands between the brackets of TBLPROPERTIES."""
    return ", ".join(f"{quoted_text(key)} = {quoted_text(value)}" for key, value in properties.items())


def spark_json(kind: ColumnType) -> Any:
    """The type as `pyspark.sql.types.StructType.fromJson` takes it."""
    match kind:
        case Primitive(name):
            return "binary" if name.startswith("fixed[") else _JSON_NAMES.get(name, name)
        case ListType(element):
            return {"type": "array", "elementType": spark_json(element), "containsNull": True}
        case MapType(key, value):
            parts = {"keyType": spark_json(key), "valueType": spark_json(value)}
            return {"type": "map", **parts, "valueContainsNull": True}
        case Struct(fields):
            return {"type": "struct", "fields": [_field_json(field) for field in fields]}


def _field_json(field: Field) -> dict[str, Any]:
    metadata = {"comment": field.doc} if field.doc else {}
    return {
        "name": field.name,
        "type": spark_json(field.type),
        "nullable": not field.required,
        "metadata": metadata,
    }
