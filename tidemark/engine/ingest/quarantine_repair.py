"""The quarantine of the last batch against its receipt, looked at before the next batch is published.

Two attempts at one batch write the same quarantine before either publishes. One that loses takes its change back,
unless it is killed in that very moment; and where it decoded otherwise (a schema was registered in between), its rows
contradict the table, or rows of the winner are gone. Whoever publishes next finds that here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.ledger import Ledger, add_up
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine import inside
from tidemark.engine.table.races import was_overtaken

_FIELDS = ("epoch", "partition", "offset", "batch_id", "run_id", "resolved_at")
AT_ONCE = 500
"""Rows that one statement removes."""


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in quarantine within the last batch: rows, and offsets of waiting rows that another attempt wrote."""

    rows: int
    foreign: tuple[tuple[int, int], ...]


def repair(lake: Lake, plan: Plan) -> None:
    """Remove rows of dead attempts that contradict the table. Costs a look at file statistics when there are none.

    Raises:
        Stopped: `failed`: rows that the last receipt counted are not there; a replay of the range brings them back.
        Overtaken: another attempt writes the same quarantine right now.
    """
    ledger, quarantine = plan.ledger, plan.contract.quarantine_table
    expected = add_up(ledger.counts.values()).quarantined
    found = _look(lake, quarantine, ledger)
    if found is None or (not found.foreign and found.rows >= expected):
        return
    doubled = _in_table(lake, plan, found.foreign)
    if doubled:
        _remove(lake, quarantine, ledger, doubled)
    if found.rows - len(doubled) < expected:
        ranges = ", ".join(f"{p}: {each}" for p, each in sorted(_ranges(ledger).items()))
        raise Stopped(
            "failed",
            plan.contract.table,
            f"Its quarantine holds {found.rows - len(doubled)} of {expected} rows that the last batch put there "
            f"(offsets {ranges}). Bring them back: tidemark replay {plan.contract.table} --partition … --from … --to …",
        )


def _ranges(ledger: Ledger) -> dict[int, OffsetRange]:
    return {
        p: OffsetRange(start, ledger.next[p]) for p, start in ledger.from_.items() if start < ledger.next[p]
    }


def _look(lake: Lake, quarantine: str, ledger: Ledger) -> Found | None:
    """None when there is nothing to compare: no batch came last."""
    ranges = _ranges(ledger)
    if ledger.kind != "append" or not ranges:
        return None
    table = load(lake.catalog, quarantine)
    if table is None or table.metadata.current_snapshot_id is None:
        return Found(0, ())
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
    return Found(len({(row["partition"], row["offset"]) for row in rows}), tuple(sorted(foreign)))


def _in_table(lake: Lake, plan: Plan, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those offsets that are rows of the table as the plan found it."""
    if not offsets:
        return []
    spark, table = lake.spark(), lake.identifier(plan.contract.table)
    near = " OR ".join(
        f"(_kafka.partition = {p} AND _kafka.offset >= {each.start} AND _kafka.offset < {each.end})"
        for p, each in _ranges(plan.ledger).items()
    )
    rows = spark.sql(
        f"SELECT _kafka.partition AS p, _kafka.offset AS o FROM {table} VERSION AS OF {plan.state.head} "
        f"WHERE _kafka.epoch = {plan.ledger.epoch} AND ({near})"
    )
    asked = spark.createDataFrame(list(offsets), "p int, o bigint")
    return sorted({(row["p"], row["o"]) for row in rows.join(F.broadcast(asked), ["p", "o"]).collect()})


def _remove(lake: Lake, quarantine: str, ledger: Ledger, offsets: Sequence[tuple[int, int]]) -> None:
    spark, target = lake.spark(), lake.identifier(quarantine)
    for first in range(0, len(offsets), AT_ONCE):
        part = offsets[first : first + AT_ONCE]
        listed = " OR ".join(f"(partition = {p} AND offset = {o})" for p, o in part)
        try:
            spark.sql(
                f"DELETE FROM {target} WHERE epoch = {ledger.epoch} AND resolved_at IS NULL AND ({listed})"
            )
        except Exception as error:
            if was_overtaken(error):
                raise Overtaken(quarantine, 0, None) from error
            raise
