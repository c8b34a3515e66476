"""Changing a table's schema, layout and properties: one commit by PyIceberg, or Spark SQL where it cannot write.

Nothing here decides; what is done was planned. In Spark each statement is a commit of its own: what is about to be done
is noted before the first, and the plan made after a crash between two of them holds what is left.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder
from pyiceberg.table.update import AssertCurrentSchemaId
from pyiceberg.transforms import IdentityTransform

from tidemark.domain.columns.names import all_names
from tidemark.domain.columns.partitioning import PartitionField, column_parts
from tidemark.domain.columns.shape import Shape, spelled
from tidemark.domain.columns.spark_types import quoted_name, quoted_text, spark_ddl
from tidemark.domain.columns.types import holds_variant
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.schema_plan import Change
from tidemark.domain.plan.table_properties import COMMENT
from tidemark.engine.access.iceberg_types import columns_of, iceberg_type
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_shape import partition_names, shape_of
from tidemark.engine.access.table_state import TableState, load
from tidemark.engine.faults import pause_point
from tidemark.engine.schema.history import BEGUN
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import can_compare_and_set

Properties = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Notes:
    """The properties that go with a change (None removes one).

    `before` are made of those that the table has, and set only where the change takes several commits.
    """

    before: Callable[[Mapping[str, str]], Properties]
    after: Callable[[TableMetadata], Properties]


def alter(lake: Lake, contract: Contract, state: TableState, done: Sequence[Change], notes: Notes) -> None:
    """Make the changes that were planned for `state`, and set the properties that go with them.

    Raises:
        Overtaken: the table is not what was planned for, or someone else changes it in the same moment.
    """
    loaded = load(lake.catalog, contract.table)
    if loaded is None or not _as_planned(loaded.metadata, state):
        raise Overtaken(contract.table)
    try:
        _alter(lake, contract, loaded, state, done, notes)
    except Exception as error:
        now = load(lake.catalog, contract.table)
        if now is None or not _as_planned(now.metadata, state):
            raise Overtaken(contract.table) from error  # or the answer was lost: the next plan tells
        raise


def _as_planned(metadata: TableMetadata, state: TableState) -> bool:
    """Whether nothing has changed that a plan looks at; what was written into the table does not count."""
    return (
        str(metadata.table_uuid) == state.uuid
        and columns_of(metadata.schema()) == state.columns
        and _unnoted(shape_of(metadata)) == _unnoted(state.shape)
    )


def _unnoted(shape: Shape) -> Shape:
    """Without the note that something has begun, which is no change yet."""
    return replace(shape, properties={k: v for k, v in shape.properties.items() if k != BEGUN})


class _Planned(AssertCurrentSchemaId):
    """The table is still as planned. A REST catalog is asked for the schema alone: its specification knows no more."""

    _state: TableState = PrivateAttr()

    @classmethod
    def for_(cls, table: Table, state: TableState) -> "_Planned":
        made = cls(**{"current-schema-id": table.metadata.current_schema_id})
        made._state = state
        return made

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Asked by the catalogs that compare in the client, of the metadata that they then replace."""
        super().validate(base_metadata)
        if base_metadata is None or not _as_planned(base_metadata, self._state):
            raise CommitFailedException("Requirement failed: the table is no longer as it was planned for")


def _alter(
    lake: Lake,
    contract: Contract,
    loaded: Table,
    state: TableState,
    done: Sequence[Change],
    notes: Notes,
) -> None:
    upgraded = any(c.kind == "format_version" for c in done)
    variants = holds_variant(columns_of(loaded.schema())) or any(
        c.column is not None and holds_variant(c.column) for c in done
    )
    if not upgraded and not variants and can_compare_and_set(lake, loaded.metadata):
        _commit(loaded, contract, state, done, notes.after(loaded.metadata))
        return
    set_properties(lake, contract.table, notes.before(loaded.metadata.properties))
    for statement in _statements(lake.identifier(contract.table), contract, loaded.metadata, done):
        lake.spark().sql(statement)
        pause_point("altering")
    pause_point("altered")
    set_properties(lake, contract.table, notes.after(lake.catalog.load_table(contract.table).metadata))


def _commit(
    table: Table, contract: Contract, state: TableState, done: Sequence[Change], properties: Properties
) -> None:
    kinds = {c.kind for c in done}
    with table.transaction() as transaction:
        transaction._apply((), (_Planned.for_(table, state),))  # noqa: SLF001 - no public way to add one
        _columns(transaction, [c for c in done if c.path and c.kind in _COLUMN_KINDS])
        if "partition_spec" in kinds:
            _partition(transaction, contract.partitioning, _names(table.metadata, done))
        if "sort_order" in kinds:
            with transaction.update_sort_order() as order:
                for column in contract.sort_by:
                    order.asc(".".join(column_parts(column)), IdentityTransform(), NullOrder.NULLS_FIRST)
        gone = [k for k, v in properties.items() if v is None and k in table.metadata.properties]
        if gone:
            transaction.remove_properties(*gone)
        transaction.set_properties(
            {**_description(done), **{k: v for k, v in properties.items() if v is not None}}
        )


def _description(done: Sequence[Change]) -> dict[str, str]:
    """The comment of the table itself, which Iceberg keeps as a property."""
    texts = [str(c.new) for c in done if c.kind == "comment" and not c.path]
    return {COMMENT: texts[-1]} if texts else {}


_COLUMN_KINDS = frozenset({"add_column", "widen_type", "make_optional", "comment"})


def _columns(transaction: Transaction, changes: Sequence[Change]) -> None:
    if not changes:
        return
    with transaction.update_schema() as update:
        for change in changes:
            match change.kind:
                case "add_column":
                    update.add_column(
                        change.path, iceberg_type(change.column, count(1)), doc=change.doc or None
                    )
                case "widen_type":
                    update.update_column(change.path, field_type=iceberg_type(change.column, count(1)))
                case "make_optional":
                    update.make_column_optional(change.path)
                case _:
                    update.update_column(change.path, doc=str(change.new))


def _partition(transaction: Transaction, wanted: Sequence[PartitionField], columns: Collection[str]) -> None:
    there = partition_names(transaction.table_metadata)
    gone, added = _difference(there, wanted)
    with transaction.update_spec() as update:
        for name in gone:
            update.remove_field(name)
        for field in added:
            update.add_field(".".join(column_parts(field.column)), field.iceberg, _name(field, columns))


def _difference(
    there: Mapping[str, str], wanted: Sequence[PartitionField]
) -> tuple[list[str], list[PartitionField]]:
    """Names of the partition fields that go, and the fields that come."""
    named = dict(zip(spelled(wanted), wanted, strict=True))
    gone = [name for text, name in there.items() if text not in named]
    return gone, [field for text, field in named.items() if text not in there]


def _names(metadata: TableMetadata, done: Sequence[Change]) -> frozenset[str]:
    """Of all columns once `done` is."""
    return all_names(applied(columns_of(metadata.schema()), done))


def _name(field: PartitionField, columns: Collection[str]) -> str:
    """A name that no other transform of the column has ever had: readers put all specs of a table side by side."""
    column = ".".join(column_parts(field.column))
    if field.transform == "identity":
        return column
    parameter = "" if field.parameter is None else f"_{field.parameter}"
    return field.free_name(f"{column}_{field.transform}{parameter}", columns)


def _statements(
    identifier: str, contract: Contract, metadata: TableMetadata, done: Sequence[Change]
) -> Iterator[str]:
    """The same in Spark SQL."""
    alter_table = f"ALTER TABLE {identifier}"
    for change in done:
        match change.kind:
            case "format_version":
                yield f"{alter_table} SET TBLPROPERTIES ('format-version' = {quoted_text(str(change.new))})"
            case "comment" if not change.path:
                yield f"COMMENT ON TABLE {identifier} IS {quoted_text(str(change.new))}"
            case "sort_order":
                order = ", ".join(quoted_name(*column_parts(each)) for each in contract.sort_by)
                yield f"{alter_table} WRITE {f'LOCALLY ORDERED BY {order}' if order else 'UNORDERED'}"
            case "partition_spec":
                gone, added = _difference(partition_names(metadata), contract.partitioning)
                columns = _names(metadata, done)
                yield from (f"{alter_table} DROP PARTITION FIELD {quoted_name(name)}" for name in gone)
                yield from (
                    f"{alter_table} ADD PARTITION FIELD {each.spark_sql()} AS {quoted_name(_name(each, columns))}"
                    for each in added
                )
            case kind if kind in _COLUMN_KINDS:
                yield f"{alter_table} {_column_clause(change)}"


def _column_clause(change: Change) -> str:
    column = quoted_name(*change.path)
    match change.kind, change.column:
        case "add_column", kind if kind is not None:
            comment = f" COMMENT {quoted_text(change.doc)}" if change.doc else ""
            return f"ADD COLUMNS ({column} {spark_ddl(kind)}{comment})"
        case "widen_type", kind if kind is not None:
            return f"ALTER COLUMN {column} TYPE {spark_ddl(kind)}"
        case "make_optional", _:
            return f"ALTER COLUMN {column} DROP NOT NULL"
    return f"ALTER COLUMN {column} COMMENT {quoted_text(str(change.new))}"
