"""An append table's head as Spark can be pinned to it, also after a column by whose values files lie became wider."""

from uuid import uuid4

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import batch_id
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.ingest.quarantine_repair import take_back_doubled
from tidemark.engine.table.publish import publish_receipt
from tidemark.engine.table.settle import settle


def with_readable_head(lake: Lake, contract: Contract, state: TableState, run_id: str) -> TableState:
    """The table, with an empty receipt on top where its head knows such a column in the type that it had.

    Raises:
        Overtaken: main is no longer `state.head`.
    """
    if state.head_readable or state.ledger is None:
        return state
    settle(lake, contract, state.ledger)
    take_back_doubled(lake, contract, state, state.ledger)
    attempt = uuid4().hex[:8]
    nothing_read = {
        "kind": "append",
        "from_": dict[int, int](),
        "counts": {},
        "settlement": None,
        "batch_id": batch_id(f"{contract.table}|head {attempt}", state.ledger.epoch, {}),
        "attempt": attempt,
        "run_id": run_id,
    }
    publish_receipt(lake, state, state.ledger.model_copy(update=nothing_read))
    return lake.state(contract.table)
