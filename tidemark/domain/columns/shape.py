"""What a table is apart from its columns: partition spec, sort order, format, properties, what must not be NULL.

Transforms are spelled as a contract spells them (`day(ordered_at)`), foreign ones as Iceberg does, so that both sides
compare as text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidemark.domain.columns.names import Path
from tidemark.domain.columns.partitioning import PartitionField, quoted


@dataclass(frozen=True, slots=True)
class Shape:
    """`required` and `identifiers` are paths with Iceberg's `element`, `key` and `value` inside lists and maps.

    `partition_names` are those of the fields of every spec that the table has had: no column may be called so.
    """

    partition_by: tuple[str, ...] = ()
    partition_sources: tuple[Path, ...] = ()
    partition_names: frozenset[str] = frozenset()
    sort_by: tuple[str, ...] = ()
    format_version: int = 2
    properties: Mapping[str, str] = field(default_factory=dict)
    required: tuple[Path, ...] = ()
    identifiers: tuple[Path, ...] = ()


def spelled(fields: Iterable[PartitionField]) -> tuple[str, ...]:
    """Partition fields of a contract, each in the one spelling that is compared."""
    return tuple(str(PartitionField(f.transform, quoted(f.column), f.parameter)) for f in fields)


def spelled_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Column paths of a contract, each in the one spelling that is compared."""
    return tuple(quoted(column) for column in columns)
