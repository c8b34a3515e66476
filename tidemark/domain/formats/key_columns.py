"""Which columns a Kafka key fills, and why it cannot: `key.fields` against the key and the table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.types import KAFKA_COLUMN, ColumnType, Field, Struct
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.debezium import CDC
from tidemark.domain.formats.json_nodes import EXTRA
from tidemark.domain.suggest import nearest

OURS = frozenset({KAFKA_COLUMN.name, CDC.name, EXTRA})
"""Columns that are no field of a record, so no key fills them."""


def key_targets(columns: Struct, fields: Sequence[str]) -> dict[str, ColumnType]:
    """The types of the columns that `key.fields` names.

    Raises SchemaUnsupported for a name that the table does not have.
    """
    found = {}
    for name in fields:
        field = columns.field(name)
        if field is None or name in OURS:
            near = nearest(name, [f.name for f in columns.fields if f.name not in OURS])
            meant = f" (did you mean {near}?)" if near else ""
            raise SchemaUnsupported("key.fields", f"there is no column {name}{meant}")
        found[name] = field.type
    return found


def named_parts(columns: Struct, fields: Sequence[str], key: Struct) -> dict[str, str]:
    """The field of a structured key for each column: by name; a key of one field stands for one column of any name.

    Without `fields` every field of the key that has the name of a column. Raises SchemaUnsupported where a column has
    no field, or one of a type that the column does not hold exactly.
    """
    key = Struct(tuple(f for f in key.fields if f.name not in OURS))
    if not fields:
        names = {f.name: f.name for f in key.fields if columns.field(f.name)}
    elif len(fields) == len(key.fields) == 1:
        names = {fields[0]: key.fields[0].name}
    else:
        names = {name: _part(name, key) for name in fields}
    check_types(columns, {name: field for name, part in names.items() if (field := key.field(part))})
    return names


def check_types(columns: Struct, found: Mapping[str, Field]) -> None:
    """Raises SchemaUnsupported where a column does not hold every value of its part of the key exactly.

    Nor one whose values mean something else: a time in another unit would be the key of another row.
    """
    targets = key_targets(columns, tuple(found))
    held = Struct(tuple(field for field in columns.fields if field.name in targets))
    for difference in covers(held, Struct(tuple(replace(field, name=name) for name, field in found.items()))):
        old, new = difference.ends
        raise SchemaUnsupported("key.fields", f"column {difference.dotted} is {old}, and the key holds {new}")


def _part(name: str, key: Struct) -> str:
    if key.field(name) is not None:
        return name
    names = [field.name for field in key.fields]
    near = nearest(name, names)
    meant = f" (did you mean {near}?)" if near else ""
    raise SchemaUnsupported("key.fields", f"the key has no field {name}{meant}; it has {', '.join(names)}")
