"""What `key` of a contract must hold before any table or registry is looked at."""

from collections.abc import Iterator

from tidemark.domain.columns.ddl import parse_ddl
from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.types import BINARY, STRING, Field, Struct
from tidemark.domain.config.contract import ContractKeys
from tidemark.domain.config.layering import Finding
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.key_columns import key_targets

_ONE_VALUE = frozenset({"raw", "string"})


def key_findings(said: ContractKeys) -> Iterator[Finding]:
    """Everything that is wrong with `key`, as far as the contract alone can tell."""
    fields, kind = said.key.fields, said.key.format
    path = ("key", "fields")
    for place, name in enumerate(fields):
        if len(column_parts(name)) > 1:
            yield Finding((*path, place), f"{name} is a part of a column: keys fill whole columns")
        elif name in fields[:place]:
            yield Finding((*path, place), f"{name} is named twice")
    if kind in _ONE_VALUE and len(fields) > 1:
        yield Finding(path, f"a key of format {kind} stands for one column, not for {len(fields)}")
    if said.value.format == "json" and said.value.fields:
        yield from _declared(said, dict(said.value.fields))


def _declared(said: ContractKeys, declared: dict[str, str]) -> Iterator[Finding]:
    try:
        columns = Struct(tuple(Field(name, parse_ddl(ddl)) for name, ddl in declared.items()))
    except ValueError:
        return
    for place, path in enumerate(said.key.fields):
        name = column_parts(path)[0]
        try:
            (target,) = key_targets(columns, [name]).values()
        except SchemaUnsupported as error:
            yield Finding(("key", "fields", place), error.message)
            continue
        if said.key.format == "raw" and target not in {STRING, BINARY}:
            message = f"raw bytes do not say how they hold a {target}: format string reads its digits"
            yield Finding(("key", "format"), message, "string")
