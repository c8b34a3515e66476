"""An empty receipt over a head that Spark cannot be pinned to: a column that partitions by identity became wider.

Why it cannot: see `head_readable` in `table_shape.py`.
"""

from typing import Any
from uuid import uuid4

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import batch_id
from tidemark.domain.ledger.merge_ledger import Changes, MergeLedger
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.ingest.quarantine_repair import settle_and_take_back
from tidemark.engine.table.publish import publish_receipt


def with_readable_head(lake: Lake, contract: Contract, state: TableState, run_id: str) -> TableState:
    """The table, with an empty receipt on top if its head still has that column's old type.

    Raises:
        Overtaken: main is no longer `state.head`.
    """
    ledger = state.ledger or state.merged
    if state.head_readable or ledger is None:
        return state
    attempt = uuid4().hex[:8]
    own: dict[str, Any] = {"attempt": attempt, "run_id": run_id}
    if isinstance(ledger, MergeLedger):
        own["changes"] = Changes()
    else:
        settle_and_take_back(lake, contract, state, ledger)
        batch = batch_id(f"{contract.table}|head {attempt}", ledger.epoch, {})
        own |= {"kind": "append", "from_": {}, "counts": {}, "settlement": None, "batch_id": batch}
    publish_receipt(lake, state, ledger.model_copy(update=own))
    return lake.state(contract.table)
