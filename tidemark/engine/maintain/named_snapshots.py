"""Snapshots of a table that others still name: the ledgers of its upsert table, and notes on the table itself.

Everyone else (a dbt model, a review, an audit) notes or tags what must stay; tags are always kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.merge import pair as merge_state

NAMED = "tidemark.named."
"""A property `tidemark.named.<who>` = snapshot id keeps that snapshot for a reader of the table."""


@dataclass(frozen=True, slots=True)
class Named:
    """Ids that are named; everything on main since `read_on_from` is still to be read by the upsert table."""

    ids: frozenset[int] = frozenset()
    read_on_from: frozenset[int] = frozenset()


def named_snapshots(lake: Lake, contract: Contract, table: str) -> Named:
    """What must stay of `table`, one of the tables of `contract`."""
    loaded = load(lake.catalog, table)
    merged: frozenset[int] = frozenset()
    remembered: frozenset[int] = frozenset()
    if table == contract.table:
        merged = merge_state.named_snapshots(lake, contract)
    elif (current := upsert_table_of(contract)) and table == current.memory:
        remembered = merge_state.remembered_snapshots(lake, current)
    return Named(merged | remembered | noted(loaded.metadata.properties if loaded else {}), merged)


def noted(properties: Mapping[str, str]) -> frozenset[int]:
    """What readers have noted on a table."""
    return frozenset(
        int(value)
        for key, value in properties.items()
        if key.startswith(NAMED) and value.lstrip("-").isdecimal()
    )
