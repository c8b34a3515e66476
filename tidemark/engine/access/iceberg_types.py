"""PyIceberg's schema of a table as our column types, and ours as PyIceberg's.

Belongs here: types, and nothing else of a table's metadata. A type that no schema language of ours makes (time,
uuid, fixed) keeps its Iceberg name, so that it equals nothing we would write.
"""

from collections.abc import Iterator

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
)
from pyiceberg.types import ListType as IcebergList
from pyiceberg.types import MapType as IcebergMap

from tidemark.domain.columns.types import (
    VARIANT,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
)


def columns_of(schema: Schema) -> Struct:
    """All columns of the table, `_kafka` included, with comments and nullability."""
    return _struct(schema.columns)


def column_type(kind: IcebergType) -> ColumnType:
    """One type; list elements and map values count as optional."""
    match kind:
        case StructType():
            return _struct(kind.fields)
        case IcebergList():
            return ListType(column_type(kind.element_type))
        case IcebergMap():
            return MapType(column_type(kind.key_type), column_type(kind.value_type))
        case DecimalType():
            return decimal(kind.precision, kind.scale)
        case GeometryType() if kind.crs == VARIANT.name:
            return VARIANT
    return Primitive(str(kind))


def _struct(fields: tuple[NestedField, ...]) -> Struct:
    return Struct(tuple(Field(f.name, column_type(f.field_type), f.doc or "", f.required) for f in fields))


def iceberg_type(kind: ColumnType | None, ids: Iterator[int]) -> IcebergType:
    """Our type as PyIceberg's, whose field ids are taken from `ids`: placeholders, for the table gives its own.

    Raises:
        ValueError: there is none, as for None and for a variant.
    """
    match kind:
        case Struct(fields):
            return StructType(*iceberg_fields(fields, ids))
        case ListType(element):
            return IcebergList(next(ids), iceberg_type(element, ids), element_required=False)
        case MapType(key, value):
            return IcebergMap(
                next(ids), iceberg_type(key, ids), next(ids), iceberg_type(value, ids), value_required=False
            )
        case Primitive(name):
            return IcebergType.model_validate(name)
    raise ValueError(f"no column type: {kind}")


def iceberg_fields(fields: tuple[Field, ...], ids: Iterator[int]) -> list[NestedField]:
    """Iceberg's fields for columns, or for the fields of a struct, as in `iceberg_type`."""
    return [
        NestedField(next(ids), f.name, iceberg_type(f.type, ids), f.required, f.doc or None) for f in fields
    ]
