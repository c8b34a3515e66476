"""`accept --first-load` of an upsert table that is gone, cannot be whole, or meets deletes that lack its key."""

from uuid import uuid4

from tidemark import __version__
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_faults, upsert_tables
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.merge_ledger import Changes, MergeLedger, merge_id
from tidemark.domain.ledger.merge_plan import Merge, Rebuild
from tidemark.domain.states import Acceptance
from tidemark.engine.access.lake import Lake
from tidemark.engine.merge.append_rows import keyless
from tidemark.engine.merge.missing_rows import lacking, tombstones, truncates
from tidemark.engine.merge.pair import Pair, next_step, read_pair
from tidemark.engine.merge.plan import LIMIT
from tidemark.engine.merge.table import made_otherwise, prepare
from tidemark.engine.merge.upsert_columns import UpsertColumns
from tidemark.engine.operate.accept import accept
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.publish import publish_receipt
from tidemark.engine.table.unlogged import act_of, log_missing_acceptance, log_missing_acts


def accept_either(lake: Lake, contract: Contract, what: Acceptance, signature: Signature) -> Operation:
    """Resolve the stop state of an append table or of an upsert table.

    Raises:
        Refused: the table is not in that state; nothing was changed.
    """
    current = upsert_tables(lake.configuration.contracts).get(contract.table)
    if current is not None:
        return accept_upsert(lake, current, what, signature)
    return accept(lake, contract, what, signature)


def accept_upsert(lake: Lake, current: UpsertTable, what: Acceptance, signature: Signature) -> Operation:
    """Let the next merge make the table anew, of the append rows that are there, or pass over deletes without a key.

    Raises:
        Refused: the table is in no such state, or the acceptance is one of the append table; nothing was changed.
        Stopped: the append table has lost its ledger, or is gone.
        Overtaken: a merge published in the same moment; ask again.
    """
    table = current.contract.table
    try:
        operation = _first_load(lake, current, what, signature)
    except Refused:
        late = None if signature.dry_run else log_missing_acceptance(lake, table, what)
        if late is None:
            raise
        operation = late
    if not signature.dry_run:
        log_missing_acts(lake, table)
    return operation


def _first_load(lake: Lake, current: UpsertTable, what: Acceptance, signature: Signature) -> Operation:
    table, append = current.contract.table, current.append.table
    if what != "first-load":
        raise Refused(
            f"{table} reads no topic: --{what} is for its append table",
            next_step=f"tidemark accept {append} --{what} --reason …",
            table=table,
        )
    pair = read_pair(lake, current, ledger=False)
    if pair.append is None:
        lake.state(append)  # stops where it is there without its ledger
        raise unloaded(lake, append)
    state = pair.state
    known = state.ledger_lost or lacking(pair) or _merges_stop(lake, pair)
    no_keys = None if known or not state.exists else _no_keys(lake, pair)
    if state.exists and not (known or no_keys):
        raise Refused(
            f"{table}: nothing to accept with --first-load: the ledger is there",
            next_step=f"tidemark status {table}",
            table=table,
        )
    if not signature.dry_run:
        if not state.exists:
            state = prepare(lake, current, state, pair.columns, signature.run_id)
        if pair.state.exists or lacking(pair):
            act = act_of(signature, "accept", state.head, what=what, trimmed=pair.trimmed)
            publish_receipt(lake, state, _accepted(pair, signature, no_keys), act=act)
    return log_operation(
        lake,
        signature,
        "accept",
        table,
        {"what": what, "trimmed": pair.trimmed},
        state.head,
        state.head if signature.dry_run else lake.state(table).head,
    )


def _merges_stop(lake: Lake, pair: Pair) -> bool:
    """Whether merges stop because what was merged was undone, and append rows are gone."""
    return not pair.whole and isinstance(next_step(lake, pair, LIMIT), Rebuild)


def _no_keys(lake: Lake, pair: Pair) -> tuple[int, dict[int, int]] | None:
    """Up to where the next merge stops for deletes that lack a part of the key, as a merge ledger notes it."""
    current, state, step = pair.current, pair.state, next_step(lake, pair, LIMIT)
    if state.columns is None or not isinstance(step, Merge | Rebuild):
        return None
    if upsert_faults(current, pair.columns) or made_otherwise(current, state):
        return None
    found = keyless(lake, pair, UpsertColumns(current, state.columns), step.rows)
    return (step.rows.end_epoch, dict(step.rows.end)) if found else None


def _accepted(pair: Pair, signature: Signature, no_keys: tuple[int, dict[int, int]] | None) -> MergeLedger:
    """Where nothing but deletes without a key held it up, it goes on behind what it merged; else it is made anew."""
    current, merged = pair.current, pair.state.merged
    own = {
        "why": f"accepted by {signature.by}: {signature.reason}",
        "batch_id": merge_id(current.contract.table, 0, (0, {})),
        "attempt": uuid4().hex[:8],
        "run_id": signature.run_id,
        "contract": current.append.digest,
        "tidemark": __version__,
    }
    if no_keys and merged and not merged.anew:
        return merged.model_copy(update={**own, "action": "merge", "changes": Changes(), "no_keys": no_keys})
    return MergeLedger(
        action="rebuild",
        append_table=current.append.table,
        append_uuid="",
        append_snapshot=0,
        **own,
        no_tombstones=tombstones(pair),
        no_truncates=truncates(pair),
        no_keys=no_keys or (merged.no_keys if merged else None),
        own_topic_only=pair.elsewhere or (merged is not None and merged.own_topic_only),
    )
