"""Pause and resume: the table says so itself, so every writer and every reader sees it."""

from collections.abc import Mapping

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import PAUSED, RESUMED, TableState
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.operations import Operation, Signature, logged
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.unlogged import log_missing_acts, log_noted

_PROPERTY: Mapping[str, str] = {"pause": PAUSED, "resume": RESUMED}


def pause(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    """Let nothing be ingested into the table until it is resumed.

    Raises:
        Refused: the table does not exist, or is paused already.
    """
    state = _existing(lake, contract)
    if not signature.dry_run:
        log_missing_acts(lake, contract.table)
    if state.paused:
        late = _logged_late(lake, state, "pause", signature)
        if late is not None:
            return late
        raise Refused(
            f"{contract.table} is paused already: {state.properties[PAUSED]}",
            next_step=f"tidemark resume {contract.table} --reason …",
            table=contract.table,
        )
    return _change(lake, contract, state, "pause", signature)


def resume(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    """Undo `pause`; the next run continues where the ledger ends.

    Raises:
        Refused: the table does not exist, or is not paused.
    """
    state = _existing(lake, contract)
    if not signature.dry_run:
        log_missing_acts(lake, contract.table)
    if not state.paused:
        late = _logged_late(lake, state, "resume", signature)
        if late is not None:
            return late
        raise Refused(
            f"{contract.table} is not paused",
            next_step=f"nothing; tidemark status {contract.table} says how it stands",
            table=contract.table,
        )
    return _change(lake, contract, state, "resume", signature)


def _existing(lake: Lake, contract: Contract) -> TableState:
    state = lake.state(contract.table, ledger=False)
    if not state.exists:
        raise unloaded(lake, contract.table)
    return state


def _logged_late(lake: Lake, state: TableState, verb: str, signature: Signature) -> Operation | None:
    """The same act of a run that died before it was logged; it is, now."""
    return None if signature.dry_run else log_noted(lake, state, _PROPERTY[verb])


def _change(lake: Lake, contract: Contract, state: TableState, verb: str, signature: Signature) -> Operation:
    if not signature.dry_run:
        for noted in _PROPERTY.values():  # they go, and whose run died is told by nothing else
            log_noted(lake, state, noted)
        says = signature.as_note()
        set_properties(lake, contract.table, {p: says if v == verb else None for v, p in _PROPERTY.items()})
    return logged(lake, signature, verb, contract.table, {}, state.head, state.head)
