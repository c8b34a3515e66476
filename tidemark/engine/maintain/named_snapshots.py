"""Snapshots of a table that others still name: the ledgers of its upsert table, and notes on the table itself.

Of an upsert table that cannot be made anew also what it would go back to.

Everyone else (a dbt model, a review, an audit) notes or tags what must stay; tags are always kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_table_of
from tidemark.domain.maintenance.retention import expired_before
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.table_state import load
from tidemark.engine.merge.pair import own_receipts

NAMED = "tidemark.named."
"""A property `tidemark.named.<who>` = snapshot id keeps that snapshot for a reader of the table."""


@dataclass(frozen=True, slots=True)
class Named:
    """Ids that are named; everything on main since `read_on_from` is still to be read, or gone back to."""

    ids: frozenset[int] = frozenset()
    read_on_from: frozenset[int] = frozenset()


def named_snapshots(lake: Lake, contract: Contract, table: str) -> Named:
    """What must stay of `table`, one of the tables of `contract`."""
    loaded, current = load(lake.catalog, table), upsert_table_of(contract)
    merged: frozenset[int] = frozenset()
    remembered: frozenset[int] = frozenset()
    if current and table == contract.table:
        merged = _merged(lake, current)
    elif current and table == current.contract.table:
        merged = _gone_back_to(lake, current)
    elif current and table == current.memory:
        remembered = _remembered(lake, current)
    return Named(merged | remembered | noted(loaded.metadata.properties if loaded else {}), merged)


def _merged(lake: Lake, current: UpsertTable) -> frozenset[int]:
    """Snapshots of the append table that its upsert table names: they tell whether history was undone."""
    merged = lake.state(current.contract.table, ledger=False).merged
    return frozenset({merged.append_snapshot}) if merged else frozenset()


def _gone_back_to(lake: Lake, current: UpsertTable) -> frozenset[int]:
    """The oldest receipt of the upsert table that names a snapshot which the append table still has on main.

    To it and to later ones the table goes back where the append table is rolled back; only where retention has deleted
    append rows, else it is made anew.
    """
    append = load(lake.catalog, current.append.table)
    if append is None or expired_before(append.properties) is None:
        return frozenset()
    main = {each.snapshot_id for each in ancestors(append.metadata, append.metadata.current_snapshot_id)}
    own = own_receipts(lake, current.contract.table)
    return frozenset([snapshot for snapshot, ledger in own if ledger.append_snapshot in main][-1:])


def _remembered(lake: Lake, current: UpsertTable) -> frozenset[int]:
    """Snapshots of the memory of hard deletes that any receipt of the upsert table goes with: a rollback reads them."""
    named = (ledger.memory for _, ledger in own_receipts(lake, current.contract.table))
    return frozenset(each for each in named if each)


def noted(properties: Mapping[str, str]) -> frozenset[int]:
    """What readers have noted on a table."""
    return frozenset(
        int(value)
        for key, value in properties.items()
        if key.startswith(NAMED) and value.lstrip("-").isdecimal()
    )
