"""PyIceberg's schema of a table as our column types.

Belongs here: reading types out of a table's metadata. A type that no schema language of ours makes (time,
uuid, fixed) keeps its Iceberg name, so that it equals nothing we would write.
"""

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
