"""Carrying out in the quarantine table what a published receipt asks of it: exactly once, whoever comes first.

The change is made on a branch and becomes visible in one catalog commit that also names it as settled; in two where
PyIceberg cannot write the table, for carried out twice it changes nothing more. It is only made while main's newest
receipt still asks for it, looked at after the quarantine's head was read: who settles late changes nothing
(docs/adr/0007).
"""

import random
import time
from contextlib import suppress
from uuid import uuid4

from pyiceberg.table import Table

from tidemark.domain.columns.spark_types import quoted_text
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Overtaken, Stopped
from tidemark.domain.ledger.ledger import BRANCH_PREFIX, Ledger
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.spark import temp_view
from tidemark.engine.access.table_state import load
from tidemark.engine.faults import pause_point
from tidemark.engine.table.branch import (
    Attempt,
    branch_identifier,
    dropped_on_failure,
    loaded,
    open_branch,
)
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import can_compare_and_set, move_to
from tidemark.engine.table.races import was_overtaken

SETTLED = "tidemark.settled"
"""Property of a quarantine table: the settlement that it carried out last."""
TURNS = 6


def now_us() -> int:
    """Unix microseconds; a settlement's marks are known by them."""
    return time.time_ns() // 1000


def pending(ledger: Ledger | None, quarantine: Table | None) -> Settlement | None:
    """What the newest receipt asks of `quarantine` and is not done yet."""
    asked = ledger.settlement if ledger else None
    if asked is None or quarantine is None or quarantine.metadata.current_snapshot_id is None:
        return None
    return None if quarantine.metadata.properties.get(SETTLED) == asked.id else asked


def settle(lake: Lake, contract: Contract, ledger: Ledger | None) -> None:
    """Carry out what `ledger` asks of the quarantine, unless that is done or the table has moved on.

    Raises:
        Overtaken: others change the quarantine again and again.
    """
    if ledger is None or ledger.settlement is None:
        return
    asked = ledger.settlement
    with translated(contract.quarantine_table):
        for _ in range(TURNS):
            table = load(lake.catalog, contract.quarantine_table)
            now = lake.state(contract.table, ledger=False).ledger
            still = now is not None and now.settlement is not None and now.settlement.id == asked.id
            if not still or pending(now, table) is None or table is None:
                return
            if _carried_out(lake, table, contract.quarantine_table, asked):
                pause_point("settled")
                return
            time.sleep(random.uniform(0.0, 0.2))  # noqa: S311 - so that two do not stay in step
    raise Overtaken(contract.quarantine_table, 0, None)


def settle_published(lake: Lake, contract: Contract, ledger: Ledger) -> None:
    """`settle` right after the receipt was published.

    When others change the quarantine again and again, a service is lost, or somebody has altered the table, it
    waits for whoever comes next: the act has taken place, and is not told as one that has not.
    """
    with suppress(Overtaken, Outage, Stopped):
        settle(lake, contract, ledger)


def _carried_out(lake: Lake, table: Table, quarantine: str, asked: Settlement) -> bool:
    """False when someone else changes the quarantine at the same time, be it its branches alone."""
    head = table.metadata.current_snapshot_id
    attempt = Attempt(quarantine, f"{BRANCH_PREFIX}{asked.id}_{uuid4().hex[:8]}", head)
    try:
        with dropped_on_failure(lake, attempt):
            open_branch(lake, attempt)
            pause_point("settling")
            _change(lake, attempt, asked)
            _publish(lake, attempt, asked)
    except Exception as error:
        if isinstance(error, Overtaken) or was_overtaken(error):
            return False
        raise
    return True


def _publish(lake: Lake, attempt: Attempt, asked: Settlement) -> None:
    settled = {SETTLED: asked.id}
    if can_compare_and_set(lake, loaded(lake, attempt).metadata):
        return move_to(lake, attempt, settled)
    move_to(lake, attempt, {})
    return set_properties(lake, attempt.table, settled)


def _change(lake: Lake, attempt: Attempt, asked: Settlement) -> None:
    spark = lake.spark()
    target = branch_identifier(lake, attempt)
    waits = "resolved_by = NULL, resolved_at = NULL"
    if asked.dropped:
        listed = ", ".join(map(quoted_text, asked.dropped))
        spark.sql(f"DELETE FROM {target} WHERE batch_id IN ({listed})")
    for run_id, at in asked.undone:
        marked = f"resolved_by = {quoted_text(run_id)} AND resolved_at = timestamp_micros({at})"
        spark.sql(f"UPDATE {target} SET {waits} WHERE {marked}")
    if asked.rewound is not None:
        spark.sql(f"DELETE FROM {target} WHERE {_beyond(asked.epoch, asked.rewound)}")
    if asked.resolved:
        _resolve(lake, target, asked)
    if asked.revealed:
        spark.sql(f"UPDATE {target} SET {waits} WHERE resolved_by = {quoted_text(asked.staged)}")


def _beyond(epoch: int, following: dict[int, int]) -> str:
    """The rows that a table whose ledger ends at `following` has not read."""
    above = [f"partition = {p} AND offset >= {o}" for p, o in sorted(following.items())]
    known = ", ".join(map(str, sorted(following)))
    above.append(f"partition NOT IN ({known})" if known else "true")
    return f"epoch > {epoch} OR (epoch = {epoch} AND ({' OR '.join(f'({each})' for each in above)}))"


def _resolve(lake: Lake, target: str, asked: Settlement) -> None:
    rows = [(p, a, b) for p, runs in sorted(asked.resolved.items()) for a, b in runs]
    frame = lake.spark().createDataFrame(rows, "partition int, first bigint, upto bigint")
    first, upto = min(a for _, a, _ in rows), max(b for _, _, b in rows)
    with temp_view(frame, "resolved") as view:
        frame.sparkSession.sql(
            f"MERGE INTO {target} t USING {view} s ON t.partition = s.partition AND t.offset >= s.first "
            f"AND t.offset < s.upto AND t.offset >= {first} AND t.offset < {upto} AND t.epoch = {asked.epoch} "
            f"AND t.resolved_at IS NULL AND t.batch_id <> {quoted_text(asked.id)} "
            f"WHEN MATCHED THEN UPDATE SET resolved_by = {quoted_text(asked.run_id)}, "
            f"resolved_at = timestamp_micros({asked.at})"
        )
