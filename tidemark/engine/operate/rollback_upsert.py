"""Whether the upsert table can follow a rollback of its append table of which retention has deleted rows."""

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Overtaken, Refused
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.table_state import load
from tidemark.engine.merge.pair import own_receipts

_MADE_ANEW = frozenset({"first", "rebuild"})


def check_upsert(lake: Lake, contract: Contract, target: int) -> None:
    """Require that the upsert table can go back to before `target`, or was made of the rows of a later snapshot.

    Those that were gone at `target` it never had: it asks for its first load once more, and lacks no others.

    Raises:
        Refused: it could neither go back nor be made anew as it was.
        Overtaken: `target` is no longer one of main's ancestors.
    """
    current, table = upsert_table_of(contract), load(lake.catalog, contract.table)
    if current is None or table is None:
        return
    main = [each.snapshot_id for each in ancestors(table.metadata, table.metadata.current_snapshot_id)]
    if target not in main:
        raise Overtaken(contract.table)
    state, at = lake.state(current.contract.table, ledger=False), main.index(target)
    merged = state.merged
    if merged is None or merged.anew or not state.rows or merged.append_snapshot not in main[:at]:
        return
    own = [ledger for _, ledger in own_receipts(lake, state.table)]
    if any(each.action in _MADE_ANEW and each.append_snapshot in main[:at] for each in own):
        return
    named = {ledger.append_snapshot for ledger in own}
    if named.isdisjoint(main[at:]):
        oldest = next((each for each in reversed(main) if each in named), merged.append_snapshot)
        raise Refused(
            f"{state.table} has no snapshot left from before {target} to go back to, and retention has deleted rows of "
            f"{contract.table}: it could not be made anew as it was",
            next_step=f"name snapshot {oldest} or a later one; replay the range where older states were expired; or, "
            "where keys of the deleted rows may go, take `upsert` out of the contract, roll back, put it in again, and "
            f"tidemark accept {state.table} --first-load",
            table=contract.table,
            oldest=oldest,
        )
