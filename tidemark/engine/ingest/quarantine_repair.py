"""The quarantine of the last batch against its receipt, looked at before the next receipt is published.

Two attempts at one batch write the same quarantine before either publishes. One that loses takes its change back,
unless it is killed in that very moment; and where it decoded otherwise (a schema was registered in between), its rows
contradict the table, or rows of the winner are gone. Who publishes next finds that here: a batch, or a person's act.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import counted
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.fate import quarantined_runs
from tidemark.domain.ledger.ledger import Ledger, add_up
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import Runs, joined_runs
from tidemark.engine.access.conditions import rows_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ledgers_of_epoch
from tidemark.engine.access.table_state import TableState, load, load_written
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine import inside, remake_lost
from tidemark.engine.table.races import or_overtaken
from tidemark.engine.table.settle import settle
from tidemark.engine.table.takeover import half_renamed

_log = logging.getLogger("tidemark.quarantine")
_FIELDS = ("epoch", "partition", "offset", "batch_id", "run_id", "resolved_at")
AT_ONCE = 500
"""Rows that one statement removes."""
FEW = 3
"""Replays of a partition that a stop names: beyond that the closest ranges are one, with what lies between."""


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in quarantine within the last batch: rows by partition, and waiting rows that another attempt wrote."""

    rows: Mapping[int, int]
    foreign: tuple[tuple[int, int], ...]


def settle_and_take_back(lake: Lake, contract: Contract, state: TableState, ledger: Ledger) -> None:
    """Make the quarantine say what the ledger of `state` says, before another receipt is published.

    The next receipt takes the place of what this one asks for, so it must be this very one that is settled; only then
    do the rows that wait tell which of them contradict the table.

    Raises:
        Overtaken: others change the same quarantine right now.
    """
    settle(lake, contract, ledger)
    _take_back_doubled(lake, contract, state, ledger, load_written(lake.catalog, contract.quarantine_table))


def repair(lake: Lake, plan: Plan) -> None:
    """Remove quarantine rows that contradict the table; stop where rows that the last receipt counted are gone.

    Raises:
        Stopped: `failed`: rows that the last receipt counted are not there, or the table is gone in which records wait,
            and a replay of the range brings them back; `schema_review`: a rename that died has moved it.
        Overtaken: another attempt writes the same quarantine right now, or main has moved since the plan: what a
            rollback takes back leaves the quarantine too.
    """
    ledger, table = plan.ledger, plan.contract.table
    there = load_written(lake.catalog, plan.contract.quarantine_table)
    if there is None and add_up(ledger.totals.values()).quarantined:
        _miss_table(lake, plan)
    left = _take_back_doubled(lake, plan.contract, plan.state, ledger, there)
    if left is None:
        return
    expected = {p: each.quarantined for p, each in ledger.counts.items()}
    lacking = {p: each for p, each in _ranges(ledger).items() if left.get(p, 0) < expected.get(p, 0)}
    if not lacking:
        return
    _require_unmoved(lake, plan)
    listed = "; ".join(
        f"partition {p}: offsets {each.start} to {each.end - 1}" for p, each in sorted(lacking.items())
    )
    found, put = sum(left.get(p, 0) for p in lacking), sum(expected[p] for p in lacking)
    lacks = f"Its quarantine holds {found} of {put} rows that the last batch put there ({listed})."
    if replays := _replays(plan, {p: [(each.start, each.end)] for p, each in lacking.items()}):
        raise Stopped("failed", table, f"{lacks} A replay of them brings them back.", next_step=replays)
    _log.warning("%s: %s Kafka has them no more: they are lost, and its ingest goes on.", table, lacks)


def _miss_table(lake: Lake, plan: Plan) -> None:
    """Say that the table of the quarantine is gone, and make it anew where nothing of it can be brought back.

    From then on nothing is missed, nor once a replay has made it anew.

    Raises:
        Stopped, Overtaken: as for `repair`.
    """
    contract, ledger = plan.contract, plan.ledger
    _require_unmoved(lake, plan)
    if fault := half_renamed(lake, contract):
        raise fault
    loaded = load(lake.catalog, contract.table)
    if loaded is None:
        raise Overtaken(contract.table, plan.state.head)
    receipts = ledgers_of_epoch(loaded.metadata, plan.state.head, ledger.epoch, contract.table)
    replays = _replays(plan, joined_runs({}, quarantined_runs(receipts, ledger), FEW))
    waits = counted(add_up(ledger.totals.values()).quarantined, "record")
    gone = f"Its quarantine {contract.quarantine_table} is gone, with {waits} that no other place has."
    if replays:
        raise Stopped(
            "failed",
            contract.table,
            f"{gone} A replay brings back what Kafka has of them.",
            next_step=f"rename it back where somebody has renamed it; where it was dropped: {replays}",
        )
    table = contract.table
    _log.warning("%s: %s Kafka has them no more: they are lost, and its ingest goes on.", table, gone)
    remake_lost(lake, contract, ledger)


def _require_unmoved(lake: Lake, plan: Plan) -> None:
    head = lake.state(plan.contract.table, ledger=False).head
    if head != plan.state.head:
        raise Overtaken(plan.contract.table, plan.state.head, head)


def _replays(plan: Plan, runs: Runs) -> str:
    """The commands that read again what Kafka has of these runs; empty where it has nothing of them."""
    first = plan.topic.log_start
    kept = [(p, max(a, first.get(p, b)), b) for p, each in sorted(runs.items()) for a, b in each]
    return "; ".join(
        f"tidemark replay {plan.contract.table} --partition {p} --from {start} --to {end} --reason …"
        for p, start, end in kept
        if start < end
    )


def _take_back_doubled(
    lake: Lake, contract: Contract, state: TableState, ledger: Ledger, quarantine: Table | None
) -> Mapping[int, int] | None:
    """Remove rows of dead attempts that contradict the table: before any receipt takes the place of the last batch's.

    Returns the rows that are left of that batch by partition, None where no batch came last. Where there is nothing to
    remove, it costs one look at file statistics.

    Raises:
        Overtaken: another attempt writes the same quarantine right now.
    """
    found = _look(quarantine, ledger)
    if found is None:
        return None
    doubled = _in_table(lake, state, ledger, found.foreign)
    if doubled:
        _remove(lake, contract.quarantine_table, ledger, doubled)
    return Counter(found.rows) - Counter(p for p, _ in doubled)


def _ranges(ledger: Ledger) -> dict[int, OffsetRange]:
    return {
        p: OffsetRange(start, ledger.next[p]) for p, start in ledger.from_.items() if start < ledger.next[p]
    }


def _look(table: Table | None, ledger: Ledger) -> Found | None:
    """None when there is nothing to compare: no batch came last."""
    ranges = _ranges(ledger)
    if ledger.kind != "append" or not ranges:
        return None
    if table is None:
        return Found({}, ())
    rows = (
        table.scan(row_filter=inside(ledger.epoch, ranges, waiting=False), selected_fields=_FIELDS)
        .to_arrow()
        .to_pylist()
    )
    foreign = {
        (row["partition"], row["offset"])
        for row in rows
        if row["resolved_at"] is None and (row["batch_id"], row["run_id"]) != (ledger.batch_id, ledger.run_id)
    }
    offsets = {(row["partition"], row["offset"]) for row in rows}
    return Found(Counter(p for p, _ in offsets), tuple(sorted(foreign)))


def _in_table(
    lake: Lake, state: TableState, ledger: Ledger, offsets: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Those offsets that are rows of the table as the plan found it."""
    if not offsets:
        return []
    spark, table = lake.spark(), lake.identifier(state.table)
    rows = spark.sql(
        f"SELECT _kafka.partition AS p, _kafka.offset AS o FROM {table} VERSION AS OF {state.head} "
        f"WHERE {rows_within(ledger.epoch, _ranges(ledger))}"
    )
    asked = spark.createDataFrame(list(offsets), "p int, o bigint")
    return sorted({(row["p"], row["o"]) for row in rows.join(F.broadcast(asked), ["p", "o"]).collect()})


def _remove(lake: Lake, quarantine: str, ledger: Ledger, offsets: Sequence[tuple[int, int]]) -> None:
    spark, target = lake.spark(), lake.identifier(quarantine)
    for first in range(0, len(offsets), AT_ONCE):
        part = offsets[first : first + AT_ONCE]
        listed = " OR ".join(f"(partition = {p} AND offset = {o})" for p, o in part)
        with or_overtaken(quarantine):
            spark.sql(
                f"DELETE FROM {target} WHERE epoch = {ledger.epoch} AND resolved_at IS NULL AND ({listed})"
            )
