"""What `upsert` of a contract must hold before any table or registry is looked at."""

from collections.abc import Iterator

from tidemark.domain.columns.layout import leaf_paths, resolve
from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.types import BINARY, KAFKA_COLUMN, STRING, Field, Primitive, Struct
from tidemark.domain.config.contract import ContractKeys, Value
from tidemark.domain.config.layering import Finding
from tidemark.domain.config.naming import table_fault
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro_columns import WHOLE_VALUE
from tidemark.domain.formats.json_columns import columns, declared
from tidemark.domain.suggest import nearest

_WHOLE = {"string": STRING, "raw": BINARY}


def upsert_findings(said: ContractKeys) -> Iterator[Finding]:
    """What is wrong with the block itself."""
    if said.upsert is None:
        return
    if said.upsert.table and (fault := table_fault(said.upsert.table)):
        yield Finding(("upsert", "table"), fault)
    for key in ("keys", "order_by"):
        paths = getattr(said.upsert, key)
        for place, path in enumerate(paths):
            if path in paths[:place]:
                yield Finding(("upsert", key, place), f"{path} stands there twice")


def column_findings(said: ContractKeys) -> Iterator[Finding]:
    """Keys and order columns that cannot be there, as far as the contract says what the columns are."""
    if said.upsert is None:
        return
    known = _columns(said.value)
    every = Struct((*(known.fields if known else ()), KAFKA_COLUMN))
    for key in ("keys", "order_by"):
        for place, path in enumerate(getattr(said.upsert, key)):
            if known is None and column_parts(path)[0] != KAFKA_COLUMN.name:
                continue
            found = resolve(every, path)
            if found is None:
                near = nearest(path, leaf_paths(every))
                yield Finding(("upsert", key, place), f"there is no column {path}", near)
            elif not isinstance(found, Primitive):
                yield Finding(("upsert", key, place), f"{path} is {found}, which cannot be compared")


def _columns(value: Value) -> Struct | None:
    """The columns of the value, None when a registry or the documents say them."""
    if value.format in _WHOLE:
        return Struct((Field(WHOLE_VALUE, _WHOLE[value.format]),))
    if value.format != "json" or not value.fields or value.envelope != "none":
        return None
    try:
        return columns(declared(value.fields))
    except SchemaUnsupported:
        return None
