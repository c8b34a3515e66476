"""Snapshots of an append table that others still name: the ledger of its upsert table, and notes on the table itself.

Everyone else tags what must stay; tags are always kept.
"""

from dataclasses import dataclass

from tidemark.domain.config.contract import Contract
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.merge import state as merge_state

NAMED = "tidemark.named."
"""A property `tidemark.named.<who>` = snapshot id keeps that snapshot for a reader of the table."""


@dataclass(frozen=True, slots=True)
class Named:
    """Ids that are named; everything on main since `read_on_from` is still to be read by the upsert table."""

    ids: frozenset[int] = frozenset()
    read_on_from: frozenset[int] = frozenset()


def named_snapshots(lake: Lake, contract: Contract) -> Named:
    """What must stay of the append table of `contract`."""
    append = load(lake.catalog, contract.table)
    properties = append.metadata.properties if append else {}
    noted = {int(v) for k, v in properties.items() if k.startswith(NAMED) and v.lstrip("-").isdecimal()}
    merged = merge_state.named_snapshots(lake, contract)
    return Named(merged | noted, merged)
