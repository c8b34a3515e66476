"""A table that is not there was never loaded, or is gone since: what a verb that has to do with it says."""

from tidemark.domain.errors import Refused, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load


def unloaded(lake: Lake, table: str) -> Refused | Stopped:
    """The error of a verb that has no loaded table to act on: `table_missing` where runs have loaded it."""
    return gone(lake, table) or Refused(
        f"{table} has never been loaded", next_step=f"tidemark run {table}", table=table
    )


def gone(lake: Lake, table: str) -> Stopped | None:
    """`table_missing` of a table that is not there though runs have loaded it, as far as the shell's records know."""
    if not lake.loaded(table) or load(lake.catalog, table) is not None:
        return None
    return Stopped("table_missing", table, "Earlier runs have loaded it.")
