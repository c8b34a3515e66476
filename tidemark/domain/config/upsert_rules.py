"""What `upsert` of a contract must hold before any table or registry is looked at."""

from collections.abc import Iterator

from tidemark.domain.columns.layout import leaf_paths, resolve
from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct, has_order
from tidemark.domain.config.contract import ContractKeys, Upsert
from tidemark.domain.config.layering import Finding
from tidemark.domain.config.layout_rules import known_columns, table_findings
from tidemark.domain.config.naming import DELETED, table_fault
from tidemark.domain.config.upsert import SOFT_COLUMN
from tidemark.domain.suggest import nearest


def upsert_findings(said: ContractKeys) -> Iterator[Finding]:
    """What is wrong with the block itself."""
    if said.upsert is None:
        return
    table = said.upsert.table
    if table is not None and (fault := table_fault(table, DELETED)):
        yield Finding(("upsert", "table"), fault)
    for key in ("keys", "order_by"):
        paths = getattr(said.upsert, key)
        for place, path in enumerate(paths):
            if path in paths[:place]:
                yield Finding(("upsert", key, place), f"{path} stands there twice")


def column_findings(said: ContractKeys) -> Iterator[Finding]:
    """What the columns cannot give of keys, order, layout and mark, as far as the contract says what they are."""
    if said.upsert is None:
        return
    known = known_columns(said.value)
    every = Struct((*(known.fields if known else ()), KAFKA_COLUMN))
    for key in ("keys", "order_by"):
        for place, path in enumerate(getattr(said.upsert, key)):
            if known is None and column_parts(path)[0] != KAFKA_COLUMN.name:
                continue
            found = resolve(every, path)
            if found is None:
                near = nearest(path, leaf_paths(every))
                yield Finding(("upsert", key, place), f"there is no column {path}", near)
            elif not has_order(found):
                yield Finding(("upsert", key, place), f"{path} is {found}, which cannot be compared")
    if known is not None:
        yield from _made_findings(said.upsert, known)


def _made_findings(upsert: Upsert, known: Struct) -> Iterator[Finding]:
    """A mark that is a column of the topic, and a layout that the table's columns cannot give."""
    ours = (KAFKA_COLUMN, SOFT_COLUMN) if upsert.deletes == "soft" else (KAFKA_COLUMN,)
    for field in known.fields:
        if SOFT_COLUMN in ours and field.name.lower() == SOFT_COLUMN.name:
            message = (
                f"soft marks deletes in a column {SOFT_COLUMN.name}, and {field.name} is one of the topic"
            )
            yield Finding(("upsert", "deletes"), message, "hard")
    columns = Struct((*known.fields, *ours))
    yield from table_findings(columns, upsert.partition_by, upsert.sort_by, ("upsert",))
