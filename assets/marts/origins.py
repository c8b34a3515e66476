"""What the columns of a mart are made of: what the builds since it was made anew told, as far as it can be believed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.column_lineage import Columns
from assets.marts.sql import doubts
from assets.names import table_of
from tidemark.domain.lineage.marts import Mart
from tidemark.engine.config import discovery

Origins = Mapping[str, list[list[str]] | None]
"""Column, in lower case -> the [table, column] pairs that it is made of; None where nobody can tell."""


@dataclass(frozen=True, slots=True)
class Built:
    """How a mart was built: the compiled `sql`, whether no row is older (`anew`), and whether dbt ran `hooks` too."""

    sql: str
    anew: bool = True
    hooks: bool = False


def remember(home: Path, mart: Mart, event: dg.AssetMaterialization, built: Built) -> discovery.Discovery:
    """The columns go into the discovery file, each `from` those that it is made of, unless that is not known.

    Of none it is where dagster-dbt could not fetch the mart's columns: those of before may be others now.
    """
    schema = event.metadata.get("dagster/column_schema")
    if isinstance(schema, dg.TableSchemaMetadataValue):
        listed = [
            {"name": each.name, "type": each.type, "doc": each.description or "", "required": False}
            for each in schema.value.columns
        ]

        def described(seen: discovery.Discovery) -> discovery.Discovery:
            names = [str(each["name"]).lower() for each in listed]
            made_of = _made_of(mart, event, built, names, seen.columns(mart.table))
            known = [{} if made_of[name] is None else {"from": made_of[name]} for name in names]
            columns = [{**each, **origins} for each, origins in zip(listed, known, strict=True)]
            return seen.with_described(mart.table, columns)

        discovery.update(home, described)
    elif discovery.read(home).columns(mart.table):
        discovery.update(
            home, lambda seen: seen.with_described(mart.table, _untold(seen.columns(mart.table)))
        )
    return discovery.read(home)


def _untold(columns: Columns) -> Columns:
    return [{name: said for name, said in each.items() if name != "from"} for each in columns]


def _made_of(
    mart: Mart, event: dg.AssetMaterialization, built: Built, names: Sequence[str], seen: Columns
) -> Origins:
    """Of this build and of rows that were there before it; a seed is made of no table."""
    if mart.unique_id.startswith("seed.") and not built.hooks:
        return {name: [] for name in names}
    before: Origins = {str(each["name"]).lower(): each.get("from") for each in seen}
    told = _told(mart, event, built, before)
    return {
        name: _with_before(mart.table, name, told.get(name), before, older=not built.anew) for name in names
    }


def _told(mart: Mart, event: dg.AssetMaterialization, built: Built, before: Origins) -> Origins:
    """What dagster-dbt says of this build and can be believed; a column that the SQL has no more is as it was."""
    if built.hooks:
        return {}
    lineage = event.metadata.get("dagster/column_lineage")
    told = lineage.value.deps_by_column if isinstance(lineage, dg.TableColumnLineageMetadataValue) else {}
    made_of = {name.lower(): _pairs(deps) for name, deps in told.items()}
    doubt = doubts(built.sql, {mart.table, *mart.upstream})
    left = {name for name in before if not built.anew and doubt.lacks(name)}
    return {
        name: pairs if name in left or doubt.believe(name, pairs) else None for name, pairs in made_of.items()
    }


def _with_before(
    itself: str, name: str, told: list[list[str]] | None, before: Origins, *, older: bool
) -> list[list[str]] | None:
    """`told`, with what the columns of the mart itself that are read, or kept where rows are `older`, were made of."""
    if told is None:
        return None
    kept = [column for table, column in told if table == itself] + [name] * (older and name in before)
    found = [before.get(column.lower()) for column in kept]
    others = [pair for pair in told if pair[0] != itself]
    known = [pairs for pairs in found if pairs is not None]
    if len(known) < len(found):
        return None
    return [list(pair) for pair in sorted({tuple(pair) for pairs in (others, *known) for pair in pairs})]


def _pairs(deps: Sequence[dg.TableColumnDep]) -> list[list[str]]:
    return sorted([table_of(each.asset_key), each.column_name] for each in deps)
