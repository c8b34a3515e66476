"""Making a new table: one commit by PyIceberg, or statements of Spark where it does not write the format."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count

from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergPartition
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, parse_transform

from tidemark.domain.columns.names import all_names
from tidemark.domain.columns.partitioning import PartitionField, column_parts
from tidemark.domain.columns.spark_types import columns_ddl, property_list, quoted_name, quoted_text
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.plan.table_properties import COMMENT
from tidemark.engine.access.iceberg_types import iceberg_fields
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.namespace import make_namespace
from tidemark.engine.faults import pause_point
from tidemark.engine.table.branch import LAST_WRITABLE_FORMAT
from tidemark.engine.table.folder import folder_fault

_SUFFIXES = {"identity": "", "truncate": "_trunc"}
"""Of partition fields, after the column's name, as Spark names them; `_` and the transform for all others."""


def create(
    lake: Lake,
    contract: Contract,
    columns: Struct,
    properties: Mapping[str, str | None],
    identifiers: Sequence[str] = (),
) -> None:
    """Create the contract's table with `columns` as they are, partitioned and sorted as it says, unless it is there.

    `properties` that are None are left out; `identifiers` are required columns that tell rows apart.

    Raises:
        Outage: `spark_down`: nothing is begun that could not go on.
        Stopped: `misconfigured`: another table's files lie in the folder of this name.
    """
    if fault := folder_fault(lake, contract.table):
        raise fault
    lake.require_spark()
    make_namespace(lake.catalog, contract.namespace)
    said = {key: value for key, value in properties.items() if value is not None}
    if contract.format_version <= LAST_WRITABLE_FORMAT:
        _by_pyiceberg(lake, contract, columns, said, identifiers)
    else:
        for statement in _statements(lake, contract, columns, said, identifiers):
            lake.spark().sql(statement)
            pause_point("creating")


def set_identifiers(lake: Lake, table: str, identifiers: Sequence[str]) -> None:
    """Give a table its identifier fields, which a `create` that ended between its statements has not."""
    lake.spark().sql(_identifier_fields(lake.identifier(table), identifiers))


def _by_pyiceberg(
    lake: Lake,
    contract: Contract,
    columns: Struct,
    properties: Mapping[str, str],
    identifiers: Sequence[str],
) -> None:
    listed = iceberg_fields(columns.fields, count(1))
    keys = [each.field_id for each in listed if each.name in identifiers]
    schema = Schema(*listed, identifier_field_ids=keys)
    with suppress(TableAlreadyExistsError):
        lake.catalog.create_table(
            contract.table,
            schema,
            partition_spec=_spec(schema, contract.partitioning, all_names(columns)),
            sort_order=_order(schema, contract.sort_by),
            properties={**({COMMENT: contract.description} if contract.description else {}), **properties},
        )


def _spec(schema: Schema, wanted: Sequence[PartitionField], columns: Collection[str]) -> PartitionSpec:
    return PartitionSpec(
        *(
            IcebergPartition(
                source_id=_field_id(schema, each.column),
                field_id=PARTITION_FIELD_ID_START + at,
                transform=parse_transform(each.iceberg),
                name=each.free_name(_name(each), columns),
            )
            for at, each in enumerate(wanted)
        )
    )


def _name(field: PartitionField) -> str:
    return _dotted(field.column) + _SUFFIXES.get(field.transform, f"_{field.transform}")


def _order(schema: Schema, columns: Sequence[str]) -> SortOrder:
    return SortOrder(
        *(
            SortField(
                source_id=_field_id(schema, each),
                transform=IdentityTransform(),
                direction=SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST,
            )
            for each in columns
        )
    )


def _field_id(schema: Schema, column: str) -> int:
    return schema.find_field(_dotted(column)).field_id


def _dotted(column: str) -> str:
    return ".".join(column_parts(column))


def _statements(
    lake: Lake,
    contract: Contract,
    columns: Struct,
    properties: Mapping[str, str],
    identifiers: Sequence[str],
) -> Iterator[str]:
    """The same in Spark SQL."""
    identifier = lake.identifier(contract.table)
    names = all_names(columns)
    renamed = [each for each in contract.partitioning if each.free_name(_name(each), names) != _name(each)]
    partitions = ", ".join(each.spark_sql() for each in contract.partitioning if each not in renamed)
    yield (
        f"CREATE TABLE IF NOT EXISTS {identifier} ({columns_ddl(columns)}) "
        f"USING iceberg {f'PARTITIONED BY ({partitions})' if partitions else ''} "
        f"{f'COMMENT {quoted_text(contract.description)}' if contract.description else ''} "
        f"TBLPROPERTIES ({property_list(properties)})"
    )
    for each in renamed:  # CREATE TABLE has no words for a name
        name = quoted_name(each.free_name(_name(each), names))
        yield f"ALTER TABLE {identifier} ADD PARTITION FIELD {each.spark_sql()} AS {name}"
    if contract.sort_by:
        order = ", ".join(quoted_name(*column_parts(column)) for column in contract.sort_by)
        yield f"ALTER TABLE {identifier} WRITE LOCALLY ORDERED BY {order}"
    if identifiers:
        yield _identifier_fields(identifier, identifiers)


def _identifier_fields(identifier: str, names: Sequence[str]) -> str:
    return f"ALTER TABLE {identifier} SET IDENTIFIER FIELDS {', '.join(quoted_name(name) for name in names)}"
