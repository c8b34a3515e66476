"""A table that is not there was never loaded, or is gone or replaced since: what a verb that has to do with it says."""

from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState, load
from tidemark.engine.table.first_load import not_append
from tidemark.engine.table.takeover import why_not_anew

_LOADED = "Earlier runs have loaded it."


def unloaded(lake: Lake, table: str) -> Refused | Stopped:
    """The error of a verb that has no loaded table to act on: `table_missing` where runs have loaded it."""
    return gone(lake, table) or Refused(
        f"{table} has never been loaded", next_step=f"tidemark run {table}", table=table
    )


def gone(lake: Lake, table: str) -> Stopped | None:
    """Why a table is not there though runs have loaded it, as far as the shell's records know (`lost`)."""
    if not lake.loaded(table) or load(lake.catalog, table) is not None:
        return None
    contract = next((each for each in lake.configuration.contracts if each.table == table), None)
    return lost(lake, contract) if contract else Stopped("table_missing", table, _LOADED)


def replaced(contract: Contract, state: TableState) -> Stopped:
    """Of a table that has no ledger, though runs have loaded one of its name, or merged into it."""
    if merged := not_append(contract, state):
        return merged
    table, why = contract.table, "Earlier runs have loaded it; this one was made in its place."
    ours = state.columns is not None and state.columns.field(KAFKA_COLUMN.name) is not None
    anew = f"drop or rename it, for it has no {KAFKA_COLUMN.name}; then tidemark accept {table} --first-load --reason …"
    return Stopped("ledger_missing", table, why, topic=contract.topic, next_step="" if ours else anew)


def not_new(lake: Lake, contract: Contract) -> Stopped | None:
    """Why a table is not there that no run may simply make: it is `gone`, or was only renamed (`why_not_anew`)."""
    return gone(lake, contract.table) or why_not_anew(lake, contract)


def seen_table(lake: Lake, contract: Contract) -> TableState:
    """The table as whoever only looks finds it; one that was never loaded is let pass.

    Raises:
        Stopped: it was loaded, and is not there (`not_new`) or has no ledger any more (`replaced`).
    """
    state = lake.state(contract.table, ledger=False)
    if not state.exists and (why := not_new(lake, contract)):
        raise why
    if state.owned and state.ledger_lost:
        state = lake.state(contract.table)  # says where the ledger was looked for
    if state.exists and state.ledger is None and lake.loaded(contract.table):
        raise replaced(contract, state)
    return state


def lost(lake: Lake, contract: Contract) -> Stopped:
    """Of a table that runs have loaded: what keeps it from being made anew, else `table_missing`."""
    missing = Stopped("table_missing", contract.table, _LOADED, topic=contract.topic)
    return why_not_anew(lake, contract) or missing
