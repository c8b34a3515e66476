"""Whether a contract's layout fits the columns: partition sources, transforms and sort columns. Pure."""

from collections.abc import Iterable

from tidemark.domain.columns.partitioning import PartitionField, column_parts, quoted_parts
from tidemark.domain.columns.types import ColumnType, Primitive, Struct, has_order
from tidemark.domain.suggest import nearest

_TIMES = frozenset({"timestamp", "timestamptz"})
TIMES = frozenset({"date"}) | _TIMES
"""Types that an event time can have."""
_HASHED = frozenset({"int", "long", "string", "binary", "uuid"}) | TIMES
_CUT = frozenset({"int", "long", "string", "binary"})


def layout_faults(
    columns: Struct,
    partition_by: Iterable[PartitionField],
    sort_by: Iterable[str],
    event_time: str | None = None,
) -> list[str]:
    """What does not fit, one sentence each, with the nearest column; empty when all fits.

    Source: the Iceberg spec, Partition Transforms.
    """
    faults = []
    for each in partition_by:
        found = resolve(columns, each.column)
        if found is None:
            faults.append(f"partition_by: {each}: {_unknown(columns, each.column)}")
        elif not _applies(each, found):
            faults.append(f"partition_by: {each}: {each.transform} does not apply to {found}")
    for column in sort_by:
        found = resolve(columns, column)
        if found is None:
            faults.append(f"sort_by: {_unknown(columns, column)}")
        elif not has_order(found):
            faults.append(f"sort_by: {column} is {found}, which has no order")
    if event_time:
        found = resolve(columns, event_time)
        if found is None:
            faults.append(f"event_time: {_unknown(columns, event_time)}")
        elif not isinstance(found, Primitive) or found.name not in TIMES:
            faults.append(f"event_time: {event_time} is {found}, which is no date or timestamp")
    return faults


def resolve(columns: Struct, path: str) -> ColumnType | None:
    """The type at a dotted path through structs; None when there is no such column."""
    here: ColumnType = columns
    for part in column_parts(path):
        field = here.field(part) if isinstance(here, Struct) else None
        if field is None:
            return None
        here = field.type
    return here


def leaf_paths(columns: Struct, prefix: str = "") -> list[str]:
    """The dotted paths of everything that can be named; a name with a dot in it in backticks."""
    paths = []
    for field in columns.fields:
        path = prefix + (quoted_parts([field.name]) if "." in field.name else field.name)
        paths.append(path)
        if isinstance(field.type, Struct):
            paths += leaf_paths(field.type, f"{path}.")
    return paths


def _applies(field: PartitionField, kind: ColumnType) -> bool:
    if not isinstance(kind, Primitive):
        return False
    match field.transform:
        case "identity":
            return has_order(kind)
        case "hour":
            return kind.name in _TIMES
        case "bucket":
            return kind.name in _HASHED or kind.decimal is not None
        case "truncate":
            return kind.name in _CUT or kind.decimal is not None
        case _:
            return kind.name in TIMES


def _unknown(columns: Struct, path: str) -> str:
    near = nearest(path, leaf_paths(columns))
    return f"there is no column {path}" + (f" (did you mean {near}?)" if near else "")
