"""Columns as Dagster shows them: schema with descriptions and tags, and the columns that each is made of."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from assets.names import table_key, table_of, topic_key
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import first_few
from tidemark.domain.lineage.column_lineage import (
    Lineage,
    Origin,
    lineage_of,
    tags_of,
    topic_fields,
    upsert_fields,
    way_up,
    with_topics,
)

Columns = Sequence[Mapping[str, Any]]
"""Columns of the discovery file: [{"name", "type", "doc", "required", "from": [[table, column]]}]."""
NAMED = 3
"""Columns of one step that are named; of what is made of more, the number of the others."""


def column_metadata(
    table: str, contracts: Sequence[Contract], columns: Mapping[str, Columns], described: Columns
) -> dict[str, Any]:
    """Schema and lineage of a table that was built from others; without lineage its columns carry no tags."""
    seen, lineage = columns.get(table, ()), lineage_of(columns, contracts)
    docs = {each["name"]: each.get("doc", "") for each in described}
    made_of = _as_dagster(lineage.get(table, {}))
    listed = [
        dg.TableColumn(
            name=each["name"],
            type=each["type"],
            description=docs.get(each["name"]) or each.get("doc") or None,
            constraints=came_from(made_of, each["name"]),
            tags=dict.fromkeys(tags_of(lineage, contracts, table, each["name"]), ""),
        )
        for each in seen or described
    ]
    found: dict[str, Any] = {"dagster/column_schema": dg.TableSchema(columns=listed)} if listed else {}
    if lineage.get(table):
        found["dagster/column_lineage"] = made_of
        names = {each: [column["name"] for column in listed] for each, listed in columns.items()}
        found["where_columns_come_from"] = dg.MetadataValue.md(
            _ways(with_topics(lineage, contracts, names), table)
        )
    return found


def came_from(
    lineage: dg.TableColumnLineage, column: str, *, nullable: bool = True
) -> dg.TableColumnConstraints:
    """What a column is made of, one step up, where Dagster's table of columns shows it: its UI has no other place."""
    deps = [
        (
            f"topic {each.asset_key.path[-1]}"
            if each.asset_key.path[0] == "kafka"
            else table_of(each.asset_key)
        )
        + f".{each.column_name}"
        for each in lineage.deps_by_column.get(column, ())
    ]
    return dg.TableColumnConstraints(
        nullable=nullable, other=[f"from {first_few(deps, NAMED)}"] if deps else None
    )


def _ways(lineage: Lineage, table: str) -> str:
    """A line for each column: what it is made of, step by step up to the topic."""
    lines = []
    for column in lineage[table]:
        steps = [first_few([f"`{t}.{c}`" for t, c in step], NAMED) for step in way_up(lineage, table, column)]
        lines.append(f"- **{column}** ← {' ← '.join(steps)}" if steps else f"- **{column}**: computed")
    return "\n".join(lines)


def _as_dagster(lineage: Mapping[str, Collection[Origin]]) -> dg.TableColumnLineage:
    """Columns of one table and what they are made of."""
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(table_key(table), name) for table, name in sorted(made_of)]
            for column, made_of in lineage.items()
        }
    )


def from_append(contract: Contract, columns: Columns) -> dg.TableColumnLineage:
    """The columns of an upsert table; `contract` as `tidemark.domain.config.upsert` makes it."""
    return _as_dagster(upsert_fields(contract.topic, [each["name"] for each in columns]))


def from_topic(contract: Contract, columns: Columns) -> dg.TableColumnLineage:
    """The columns of an append table and the fields of the record that they are."""
    key = topic_key(contract)
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(key, field)]
            for column, field in topic_fields(contract, [each["name"] for each in columns])
        }
    )
