"""Dropping what a backfill has loaded. The table says who does it until that is logged: it may die on any line."""

import json
from typing import Any

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import Backfill, Source
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.faults import pause_point
from tidemark.engine.operate.backfill.cutover import cutover_id, published
from tidemark.engine.operate.backfill.hold import let_go
from tidemark.engine.operate.backfill.plan import Asked, require_same, source_of
from tidemark.engine.operate.backfill.shadow import drop_shadow
from tidemark.engine.table.operations import Operation, Signature, log_unfinished_act
from tidemark.engine.table.properties import set_properties

ABORTING = "tidemark.backfill-aborting"
"""Property of the table while a backfill is dropped: who does it, until that is logged."""


def abort_logged_late(
    lake: Lake, contract: Contract, target: TableState, signature: Signature
) -> Operation | None:
    """The abort of a run that died when all was dropped and nothing logged; it is logged, now.

    Unless what it had begun to drop was published by somebody else: nothing of that was dropped.
    """
    text = target.properties.get(ABORTING)
    if signature.dry_run or not text:
        return None
    says = json.loads(text)
    done = None
    if published(lake, contract, cutover_id(contract, says.get("shadow"))) is None:
        done = log_unfinished_act(lake, says, "backfill", contract.table, **says["told"])
    forget_abort(lake, contract)
    return done


def forget_abort(lake: Lake, contract: Contract) -> None:
    """What the table says of an abort that is logged, or came to nothing, goes."""
    if ABORTING in lake.state(contract.table, ledger=False).properties:
        set_properties(lake, contract.table, {ABORTING: None})


def abort(
    lake: Lake,
    contract: Contract,
    source: Source,
    found: tuple[TableState, Backfill] | None,
    asked: Asked,
    signature: Signature,
) -> dict[str, Any]:
    """Drop what is under way, the tag on its source too; gives what the operations log says of it.

    Raises:
        Refused: nothing is under way, or another backfill than `asked` names, or it is published.
    """
    if found is None:
        raise Refused(
            f"no backfill of {contract.table} is under way",
            next_step=f"tidemark status {contract.table} names one that is",
            table=contract.table,
        )
    state, plan = found
    require_same(contract, source_of(contract, plan), plan, source, asked)
    rows = sum(w.written for w in state.ledger.totals.values()) if state.ledger else 0
    told = {"step": "abort", "source": plan.source, "rows_dropped": rows}
    if not signature.dry_run:
        _require_unpublished(lake, contract, state)
        note = signature.as_note(told=told, shadow=state.uuid)
        set_properties(lake, contract.table, {ABORTING: note})
        let_go(lake, contract, source_of(contract, plan))
        pause_point("dropping")
        drop_shadow(lake, contract)
        _require_unpublished(lake, contract, state)  # somebody's cutover may have been faster
    return told


def _require_unpublished(lake: Lake, contract: Contract, shadow: TableState) -> None:
    """Raises Refused where it is published; no abort of it is to be logged then."""
    if published(lake, contract, cutover_id(contract, shadow.uuid)) is not None:
        forget_abort(lake, contract)
        raise Refused(
            f"the backfill of {contract.table} is published already",
            next_step="tidemark rollback undoes it; repeat the backfill with --cutover to clear up behind it",
            table=contract.table,
        )
