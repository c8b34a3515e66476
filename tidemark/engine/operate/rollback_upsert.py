"""Whether the upsert table can follow a rollback of its append table of which retention has deleted rows."""

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.table_state import load
from tidemark.engine.merge.pair import own_receipts


def check_upsert(lake: Lake, contract: Contract, target: int) -> None:
    """`target` is one of main's ancestors.

    Raises:
        Refused: the upsert table could neither go back to before it nor be made anew as it was.
    """
    current, table = upsert_table_of(contract), load(lake.catalog, contract.table)
    if current is None or table is None:
        return
    main = [each.snapshot_id for each in ancestors(table.metadata, table.metadata.current_snapshot_id)]
    state, at = lake.state(current.contract.table, ledger=False), main.index(target)
    merged = state.merged
    if merged is None or merged.anew or not state.rows or merged.append_snapshot not in main[:at]:
        return
    named = {ledger.append_snapshot for _, ledger in own_receipts(lake, state.table)}
    if named.isdisjoint(main[at:]):
        oldest = next((each for each in reversed(main) if each in named), merged.append_snapshot)
        raise Refused(
            f"{state.table} has no snapshot left from before {target} to go back to, and retention has deleted rows of "
            f"{contract.table}: it could not be made anew as it was",
            next_step=f"name snapshot {oldest} or a later one; replay the range where older states were expired",
            table=contract.table,
            oldest=oldest,
        )
