"""What a run did, as its receipts tell: for runs that ended without a word. Read from the catalog alone."""

from collections.abc import Mapping
from typing import Any

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, NOTHING, add_up
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import newest_receipt, receipts
from tidemark.engine.access.outages import translated
from tidemark.engine.access.snapshots import ledger_of, summary_of
from tidemark.engine.access.table_state import load


def outcome_of(lake: Lake, contract: Contract, run_id: str, error: Mapping[str, Any]) -> Outcome:
    """The sum of the run's receipts on main, with `error` for why it says nothing itself.

    Raises:
        Outage: `catalog_down` or `store_down`.
    """
    with translated(contract.table):
        loaded = load(lake.catalog, contract.table)
        if loaded is None:
            return Outcome(contract.table, state="failed", error=error)
        mine = [
            (each.snapshot_id, ledger_of(each, contract.table))
            for each in receipts(loaded.metadata)
            if run_id in summary_of(each)[LEDGER_PROPERTY]
        ]
        newest = newest_receipt(loaded.metadata)
    following: Mapping[int, int] = ledger_of(newest, contract.table).next if newest else {}
    started: dict[int, int] = dict(following)
    for _, ledger in mine:  # newest first, so the oldest has the last word
        started |= ledger.from_
    appends = [ledger for _, ledger in mine if ledger.kind == "append"]
    return Outcome(
        table=contract.table,
        state="failed",
        commits=len(appends),
        rows=add_up(add_up(ledger.counts.values()) for ledger in appends) if appends else NOTHING,
        from_=started,
        next=dict(following),
        snapshot_id=mine[0][0] if mine else loaded.metadata.current_snapshot_id,
        error=error,
    )
