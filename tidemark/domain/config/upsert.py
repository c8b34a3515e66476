"""The upsert table of a contract: a contract of its own for everything that asks for one, and what its keys are."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.domain.columns.layout import leaf_paths, resolve
from tidemark.domain.columns.names import CDC
from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.types import KAFKA_COLUMN, Field, Primitive, Struct, has_order
from tidemark.domain.config.contract import FRESH_FAIL, FRESH_WARN, Contract, Freshness, Upsert
from tidemark.domain.config.naming import DELETED
from tidemark.domain.suggest import nearest

SOFT_COLUMN = Field("_is_deleted", Primitive("boolean"), "true: the newest event of this key is a delete")
"""Not `_deleted`: Iceberg keeps that name for a metadata column, and Spark reads no table with its own (ADR 0009)."""
DELETED_FOR_DAYS = 7
"""How long a hard delete is remembered: an older event that comes later than this would bring the row back."""
_OFFSET_ORDER = ((KAFKA_COLUMN.name, "epoch"), (KAFKA_COLUMN.name, "offset"))
_FLOATING = frozenset({"float", "double"})
MERGE_PROPERTIES = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}


@dataclass(frozen=True, slots=True)
class UpsertTable:
    """An upsert table: its block of the contract, and its append table.

    Variables call it `current`: it holds the current state by key, the append table the history.
    """

    append: Contract
    upsert: Upsert

    @property
    def contract(self) -> Contract:
        """The upsert table as if a contract of its own made it; its topic is the append table."""
        said = self.upsert
        made = self.append.model_copy(
            update={
                "table": said.table,
                "topic": self.append.table,
                "partition_by": self.append.partitioning if said.partition_by is None else said.partition_by,
                "sort_by": self.append.sort_by if said.sort_by is None else said.sort_by,
                "format_version": said.format_version or self.append.format_version,
                "target_lag": said.target_lag or self.append.target_lag,
                "freshness": self._freshness,
                "event_time": None,
                "description": f"Current state of `{self.append.table}` by {', '.join(said.keys)}",
            }
        )
        made.__dict__.pop("digest", None)  # the append table's, where that was asked for before
        return made

    @property
    def _freshness(self) -> Freshness:
        """The append table's limits; `warn` leaves room above its own target lag, `fail` where that is above `warn`."""
        lag, limits = self.upsert.target_lag, self.append.freshness
        if lag is None or limits.warn is None or limits.fail is None:
            return limits
        fail = limits.fail if lag <= limits.warn else max(limits.fail, FRESH_FAIL * lag)
        return limits.model_copy(update={"warn": min(max(limits.warn, FRESH_WARN * lag), fail), "fail": fail})

    @property
    def memory(self) -> str:
        """The table that remembers hard deletes."""
        return self.contract.table + DELETED

    @property
    def soft(self) -> bool:
        """Deleted rows stay, marked."""
        return self.upsert.deletes == "soft"

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The key columns as paths."""
        return tuple(column_parts(key) for key in self.upsert.keys)

    @property
    def order(self) -> tuple[tuple[str, ...], ...]:
        """The columns that decide which event is newer; an offset counts within its epoch."""
        paths: list[tuple[str, ...]] = []
        for path in (column_parts(each) for each in self.upsert.order_by):
            if path == (KAFKA_COLUMN.name, "offset"):
                paths.append((KAFKA_COLUMN.name, "epoch"))
            paths.append(path)
        return tuple(paths)

    @property
    def by_source(self) -> bool:
        """A column of the source says which event is newer, so an older one may come later."""
        return any(path not in _OFFSET_ORDER for path in self.order)

    @property
    def by_row(self) -> bool:
        """Columns of the row itself decide: in a delete of Debezium those are the row's before it, or made up."""
        return any(path[0] not in (KAFKA_COLUMN.name, CDC) for path in self.order)

    @property
    def by_offset(self) -> bool:
        """The default order: an event with a greater offset is newer, whatever its partition."""
        return self.order == _OFFSET_ORDER

    @property
    def by_pos(self) -> bool:
        """The order is that of the database's log, in which truncate events have their place too."""
        return self.order[:1] == ((CDC, "pos"),)

    @property
    def remembers(self) -> bool:
        """Deletes are remembered beside the table: an older event may come after one, and no row would say so."""
        return self.by_source


def upsert_table_of(contract: Contract) -> UpsertTable | None:
    """The upsert table of a contract, None when it has none."""
    return UpsertTable(contract, contract.upsert) if contract.upsert else None


def is_upsert_table(contract: Contract) -> bool:
    """Whether this is `UpsertTable.contract` of an upsert table, whose topic is the append table."""
    return contract.upsert is not None and contract.upsert.table == contract.table


def upsert_tables(contracts: Iterable[Contract]) -> dict[str, UpsertTable]:
    """Upsert table -> what it is, for all contracts that have one."""
    found = [each for each in map(upsert_table_of, contracts) if each]
    return {each.contract.table: each for each in found}


def upsert_columns(current: UpsertTable, append: Struct) -> Struct:
    """The columns of the upsert table for the append table's: required where a key can be an identifier field.

    One in the place of the mark of deletes is none: `upsert_faults` has told of it.
    """
    identifiers, taken = set(identifier_fields(current, append)), _marks(current, append)
    fields = tuple(
        Field(f.name, f.type, f.doc, required=True) if f.name in identifiers else f
        for f in append.fields
        if f not in taken
    )
    return Struct((*fields, SOFT_COLUMN) if current.soft else fields)


def _marks(current: UpsertTable, append: Struct) -> tuple[Field, ...]:
    """Columns of the append table in whose place the mark of deletes would be."""
    return tuple(f for f in append.fields if current.soft and f.name.lower() == SOFT_COLUMN.name)


def identifier_fields(current: UpsertTable, columns: Struct) -> tuple[str, ...]:
    """The keys that can be required: top-level, and no floating point numbers (docs/types.md)."""
    names = []
    for path in current.keys:
        field = columns.field(path[0])
        floating = field and isinstance(field.type, Primitive) and field.type.name in _FLOATING
        if len(path) == 1 and field and isinstance(field.type, Primitive) and not floating:
            names.append(path[0])
    return tuple(names)


def upsert_faults(current: UpsertTable, columns: Struct) -> list[str]:
    """Keys and order columns that are not there or cannot be compared; one sentence each."""
    faults = []
    for what, paths in (("keys", current.upsert.keys), ("order_by", current.upsert.order_by)):
        for path in paths:
            found = resolve(columns, path)
            if found is None:
                near = nearest(path, leaf_paths(columns))
                faults.append(
                    f"upsert.{what}: there is no column {path}" + (f" (did you mean {near}?)" if near else "")
                )
            elif not has_order(found):
                faults.append(f"upsert.{what}: {path} is {found}, which cannot be compared")
    faults += [
        f"upsert.deletes: soft marks deletes in a column {SOFT_COLUMN.name}, and {current.append.table} has "
        f"{each.name} from its topic. Say `deletes: hard`, and another `upsert.table` if this one was made: it is "
        "made anew from the append rows"
        for each in _marks(current, columns)
    ]
    return faults
