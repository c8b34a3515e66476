"""The columns of an upsert table, and what a merge must know of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.domain.columns.names import CDC
from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import KAFKA_COLUMN, ColumnType, Struct
from tidemark.domain.config.upsert import SOFT_COLUMN, UpsertTable
from tidemark.domain.ledger import merge_filters
from tidemark.domain.ledger.merge_ledger import Truncation
from tidemark.engine.decode.unavailable_values import may_be_unknown


@dataclass(frozen=True, slots=True)
class UpsertColumns:
    """The columns of the upsert table and what must be known of them."""

    current: UpsertTable
    columns: Struct

    @property
    def fields(self) -> tuple[tuple[str, ColumnType], ...]:
        """The top-level columns, without the soft-delete mark."""
        mark = SOFT_COLUMN.name if self.current.soft else None
        return tuple((f.name, f.type) for f in self.columns.fields if f.name != mark)

    @property
    def has_cdc(self) -> bool:
        """The rows come out of a Debezium envelope."""
        return self.columns.field(CDC) is not None

    @property
    def holding(self) -> tuple[str, ...]:
        """Columns in which Debezium may say that it does not know the value."""
        if self.current.append.value.envelope == "none":
            return ()
        own = {path[0] for path in (*self.current.keys, *self.current.order)}
        return tuple(n for n, kind in self.fields if may_be_unknown(kind) and n not in own)

    @property
    def blends(self) -> bool:
        """Whether offsets decide, and a row may yet hold values of older events than its newest."""
        return self.current.by_offset and (self.current.soft or bool(self.holding))

    def before(self, truncated: Mapping[int, Truncation], at: str = KAFKA_COLUMN.name, row: str = "") -> str:
        """Whether an event came before a truncation, as SQL; `at` is its place, `row` prefixes the columns it holds.

        A tombstone has no place in the database's log: the mark that it left has that of what it took.
        """
        pos = f"IF({row}{KAFKA_COLUMN.name}.tombstone, NULL, {row}{CDC}.pos)" if self.has_cdc else None
        return merge_filters.before(truncated, at, pos, by_pos=self.current.by_pos)

    def type_of(self, *path: str) -> ColumnType:
        """The type at a path through structs. Raises KeyError."""
        kind: ColumnType = self.columns
        for name in path:
            field = kind.field(name) if isinstance(kind, Struct) else None
            if field is None:
                raise KeyError(".".join(path))
            kind = field.type
        return kind

    def key_type(self) -> str:
        """The key as a Spark struct."""
        return _struct("k", [self.type_of(*path) for path in self.current.keys])

    @property
    def order_names(self) -> tuple[str, ...]:
        """The fields of `order_type`."""
        return tuple(f"o{n}" for n in range(len(self.current.order)))

    def order_type(self) -> str:
        """The order columns as a Spark struct."""
        return _struct("o", [self.type_of(*path) for path in self.current.order])


def _struct(prefix: str, kinds: Sequence[ColumnType]) -> str:
    return f"struct<{', '.join(f'{prefix}{n}: {spark_ddl(kind)}' for n, kind in enumerate(kinds))}>"
