"""Columns as Dagster shows them: schema with descriptions and tags, and the columns that each is made of."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from assets.names import table_key, topic_key
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import currents
from tidemark.domain.lineage.column_lineage import Lineage, Origin, tags_of, topic_fields, upsert_fields

Columns = Sequence[Mapping[str, Any]]
"""Columns of the discovery file: [{"name", "type", "doc", "required", "from": [[table, column]]}]."""


def lineage_of(columns: Mapping[str, Columns], contracts: Sequence[Contract]) -> Lineage:
    """What the discovery file knows of tables that say where their columns come from, and upsert tables by contract."""
    merged = {
        table: upsert_fields(each.append.table, [column["name"] for column in columns.get(table, ())])
        for table, each in currents(contracts).items()
    }
    told = {
        table: {each["name"]: [(t, c) for t, c in each["from"]] for each in listed if "from" in each}
        for table, listed in columns.items()
    }
    return told | merged


def column_metadata(
    table: str, contracts: Sequence[Contract], columns: Mapping[str, Columns], described: Columns
) -> dict[str, Any]:
    """Schema and lineage of a table that was built from others; before the first build what is written about it."""
    seen, lineage = columns.get(table, ()), lineage_of(columns, contracts)
    docs = {each["name"]: each.get("doc", "") for each in described}
    listed = [
        dg.TableColumn(
            name=each["name"],
            type=each["type"],
            description=docs.get(each["name"]) or each.get("doc") or None,
            tags=dict.fromkeys(tags_of(lineage, contracts, table, each["name"]), ""),
        )
        for each in seen or described
    ]
    found: dict[str, Any] = {"dagster/column_schema": dg.TableSchema(columns=listed)} if listed else {}
    if lineage.get(table):
        found["dagster/column_lineage"] = as_dagster(lineage[table])
    return found


def as_dagster(lineage: Mapping[str, Collection[Origin]]) -> dg.TableColumnLineage:
    """Columns of one table and what they are made of."""
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(table_key(table), name) for table, name in sorted(made_of)]
            for column, made_of in lineage.items()
        }
    )


def from_append(contract: Contract, columns: Columns) -> dg.TableColumnLineage:
    """The columns of an upsert table; `contract` as `tidemark.domain.config.upsert` makes it."""
    return as_dagster(upsert_fields(contract.topic, [each["name"] for each in columns]))


def from_topic(contract: Contract, columns: Columns) -> dg.TableColumnLineage:
    """The columns of an append table and the fields of the record that they are."""
    key = topic_key(contract)
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(key, field)]
            for column, field in topic_fields(contract, [each["name"] for each in columns])
        }
    )
