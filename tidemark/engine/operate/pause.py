"""Pause and resume: the table says so itself, so every writer and every reader sees it."""

from collections.abc import Mapping

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import PAUSED, RESUMED, TableState
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.unlogged import log_missing_acts, log_noted

_PROPERTY: Mapping[str, str] = {"pause": PAUSED, "resume": RESUMED}


def pause(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    """Let nothing be ingested into the table until it is resumed.

    Raises:
        Refused: the table does not exist, or is paused already.
    """
    return _change(lake, contract, "pause", signature)


def resume(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    """Undo `pause`; the next run continues where the ledger ends.

    Raises:
        Refused: the table does not exist, or is not paused.
    """
    return _change(lake, contract, "resume", signature)


def _change(lake: Lake, contract: Contract, verb: str, signature: Signature) -> Operation:
    state = lake.state(contract.table, ledger=False)
    if not state.exists:
        raise unloaded(lake, contract.table)
    if not signature.dry_run:
        log_missing_acts(lake, contract.table)
    if state.paused == (verb == "pause"):
        # the same act of a run that died before it was logged; it is, now
        late = None if signature.dry_run else log_noted(lake, state, _PROPERTY[verb])
        if late is not None:
            return late
        raise _already(state)
    if not signature.dry_run:
        for noted in _PROPERTY.values():  # they go, and whose run died is told by nothing else
            log_noted(lake, state, noted)
        says = signature.as_note()
        set_properties(lake, contract.table, {p: says if v == verb else None for v, p in _PROPERTY.items()})
    return log_operation(lake, signature, verb, contract.table, {}, state.head, state.head)


def _already(state: TableState) -> Refused:
    why, step = f"{state.table} is not paused", f"nothing; tidemark status {state.table} says how it stands"
    if state.paused:
        why = f"{state.table} is paused already: {state.properties[PAUSED]}"
        step = f"tidemark resume {state.table} --reason …"
    return Refused(why, next_step=step, table=state.table)
