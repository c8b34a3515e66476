"""PyIceberg's metadata of a table as the domain's `Shape`, the paths of its fields, its schema at a snapshot."""

from collections.abc import Iterator

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IcebergType, NestedField, StructType
from pyiceberg.types import ListType as IcebergList
from pyiceberg.types import MapType as IcebergMap

from tidemark.domain.columns.names import Path
from tidemark.domain.columns.partitioning import quoted_parts
from tidemark.domain.columns.shape import Shape


def schema_at(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    """The schema as of a snapshot: what Spark reads when it is pinned to it."""
    schema_id = snapshot.schema_id if snapshot else None
    found = next((each for each in metadata.schemas if each.schema_id == schema_id), None)
    return found or metadata.schema()


def shape_of(metadata: TableMetadata) -> Shape:
    """Everything about a table apart from its columns."""
    paths = {field.field_id: path for path, field in fields(metadata)}
    keys = _of_keys(metadata)
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    return Shape(
        partition_by=tuple(partition_names(metadata)),
        partition_sources=tuple(
            paths[f.source_id]
            for f in metadata.spec().fields
            if f.source_id in paths and str(f.transform) != "void"
        ),
        partition_names=frozenset(f.name for spec in metadata.partition_specs for f in spec.fields),
        sort_by=tuple(
            _call(str(f.transform), paths.get(f.source_id, (str(f.source_id),)))
            for f in (order.fields if order else ())
        ),
        format_version=metadata.format_version,
        properties=dict(metadata.properties),
        required=tuple(
            path for path, field in fields(metadata) if field.required and field.field_id not in keys
        ),
        identifiers=tuple(paths[i] for i in metadata.schema().identifier_field_ids if i in paths),
    )


def _of_keys(metadata: TableMetadata) -> frozenset[int]:
    """The keys of maps, which are always required, and what is in them: Iceberg lets no key be altered."""
    maps = (each.field_type for _, each in fields(metadata) if isinstance(each.field_type, IcebergMap))
    return frozenset(field.field_id for kind in maps for _, field in _fields(kind.key_field, ()))


def partition_names(metadata: TableMetadata) -> dict[str, str]:
    """The fields of the current partition spec, as a contract spells them, with their names; void ones left out."""
    paths = {field.field_id: path for path, field in fields(metadata)}
    return {
        _call(str(f.transform), paths.get(f.source_id, (str(f.source_id),))): f.name
        for f in metadata.spec().fields
        if str(f.transform) != "void"
    }


def head_readable(metadata: TableMetadata) -> bool:
    """Whether Spark can be pinned to main's head: no column by whose values files are partitioned became wider since.

    Iceberg reads main's head with the columns of its time, and fills in values of partitions in their present type; an
    older snapshot it reads well.
    """
    then = schema_at(metadata, metadata.current_snapshot())
    if then.schema_id == metadata.current_schema_id:
        return True
    specs = metadata.partition_specs
    values = {f.source_id for spec in specs for f in spec.fields if str(f.transform) == "identity"}
    was = {field.field_id: field.field_type for _, field in schema_fields(then)}
    now = {field.field_id: field.field_type for _, field in fields(metadata)}
    return all(was[each] == now[each] for each in values & was.keys() & now.keys())


def fields(metadata: TableMetadata) -> Iterator[tuple[Path, NestedField]]:
    """Every field of the current schema with its path; elements, keys and values of lists and maps are fields too."""
    yield from schema_fields(metadata.schema())


def schema_fields(schema: Schema) -> Iterator[tuple[Path, NestedField]]:
    """Every field of a schema with its path, as in `fields`."""
    for field in schema.fields:
        yield from _fields(field, (field.name,))


def _fields(field: NestedField, path: Path) -> Iterator[tuple[Path, NestedField]]:
    yield path, field
    for inner in _inner(field.field_type):
        yield from _fields(inner, (*path, inner.name))


def _inner(kind: IcebergType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return kind.fields
        case IcebergList():
            return (kind.element_field,)
        case IcebergMap():
            return (kind.key_field, kind.value_field)
    return ()


def _call(transform: str, path: Path) -> str:
    """`bucket[16]` of a column as a contract says it."""
    column = quoted_parts(path)
    if transform == "identity":
        return column
    name, _, parameter = transform.rstrip("]").partition("[")
    return f"{name}({parameter}, {column})" if parameter else f"{name}({column})"
