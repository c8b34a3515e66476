"""Pause and resume: the table says so itself, so every writer and every reader sees it."""

import json
from datetime import UTC, datetime

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import PAUSED, TableState
from tidemark.engine.table.create import set_properties
from tidemark.engine.table.operations import Operation, Signature, record


def pause(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    """Let nothing be ingested into the table until it is resumed.

    Raises:
        Refused: the table does not exist, or is paused already.
    """
    state = _existing(lake, contract)
    if state.paused:
        raise Refused(f"{contract.table} is paused already: {state.properties[PAUSED]}", table=contract.table)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    says = json.dumps({"by": signature.by, "reason": signature.reason, "at": at})
    return _change(lake, contract, state, "pause", says, signature)


def resume(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    """Undo `pause`; the next run continues where the ledger ends.

    Raises:
        Refused: the table does not exist, or is not paused.
    """
    state = _existing(lake, contract)
    if not state.paused:
        raise Refused(f"{contract.table} is not paused", table=contract.table)
    return _change(lake, contract, state, "resume", None, signature)


def _existing(lake: Lake, contract: Contract) -> TableState:
    state = lake.state(contract.table, ledger=False)
    if not state.exists:
        raise Refused(
            f"{contract.table} does not exist yet",
            next_step=f"tidemark run {contract.table}",
            table=contract.table,
        )
    return state


def _change(
    lake: Lake, contract: Contract, state: TableState, verb: str, says: str | None, signature: Signature
) -> Operation:
    operation = Operation(
        by=signature.by,
        verb=verb,
        table=contract.table,
        reason=signature.reason,
        run_id=signature.run_id,
        arguments={"dry_run": signature.dry_run},
        before_snapshot=state.head,
        after_snapshot=state.head,
    )
    if not signature.dry_run:
        set_properties(lake, contract.table, {PAUSED: says})
        record(lake, operation)
    return operation
