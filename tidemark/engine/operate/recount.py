"""What stands at offsets that are replaced: rows and waiting quarantine rows, and how they had been counted."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.formats.debezium import CDC
from tidemark.domain.ledger.fate import counted_within
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import OffsetRange, Ranges
from tidemark.domain.ledger.replay import counted_before
from tidemark.engine.access.conditions import rows_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ledgers_of_epoch
from tidemark.engine.access.table_state import load_written
from tidemark.engine.ingest import quarantine
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.schema.history import is_retyped


class Rows(NamedTuple):
    """Rows of one Kafka partition, and how many of them are tombstones, and of records that may once be skipped."""

    all: int = 0
    tombstones: int = 0
    skippable: int = 0


NO_ROWS = Rows()
_PLACE = ("partition", "offset")


def counted_rows(lake: Lake, plan: Plan, target: str, where: str) -> dict[int, Rows]:
    """The rows of `target` (as SQL names it) that `where` holds for, by partition."""
    truncate = "false" if plan.contract.value.envelope == "none" else f"{CDC.name}.op = 't'"
    skippable = "true" if is_retyped(plan.state) else truncate
    rows = lake.spark().sql(
        "SELECT _kafka.partition, count(*), count_if(_kafka.tombstone), "
        f"count_if({skippable}) FROM {target} WHERE {where} GROUP BY 1"
    )
    return {p: Rows(*counts) for p, *counts in rows.collect()}


def waiting_rows(lake: Lake, contract: Contract, epoch: int, ranges: Ranges) -> DataFrame | None:
    """partition, offset, tombstone (no value) of the unresolved quarantine rows in the ranges, at one snapshot."""
    name = contract.quarantine_table
    table = load_written(lake.catalog, name)
    if table is None or not ranges:
        return None
    return lake.spark().sql(
        f"SELECT partition, offset, value IS NULL AS tombstone FROM {lake.identifier(name)} "
        f"VERSION AS OF {table.metadata.current_snapshot_id} WHERE {quarantine.inside(epoch, ranges)}"
    )


def places_of(lake: Lake, target: str, where: str) -> DataFrame:
    """partition, offset of the rows of `target` (as SQL names it) that `where` holds for."""
    return lake.spark().sql(
        f"SELECT _kafka.partition AS partition, _kafka.offset AS offset FROM {target} WHERE {where}"
    )


def places_within(lake: Lake, plan: Plan, ranges: Ranges, waits: DataFrame | None) -> DataFrame:
    """partition, offset of what the table holds in `ranges`: rows at the planned head, and what `waits`."""
    head = f"{lake.identifier(plan.contract.table)} VERSION AS OF {plan.state.head}"
    rows = places_of(lake, head, rows_within(plan.ledger.epoch, ranges))
    return rows if waits is None else rows.union(waits.select(*_PLACE))


def in_kafka(lake: Lake, contract: Contract, ranges: Ranges) -> DataFrame:
    """partition, offset of the records in `ranges` that the topic still has."""
    kept = lake.topic(contract).log_start
    there = {p: OffsetRange(max(r.start, kept.get(p, 0)), r.end) for p, r in ranges.items()}
    there = {p: r for p, r in there.items() if r.start < r.end}
    if not there:
        return lake.spark().createDataFrame([], "partition int, offset bigint")
    return read_ranges(lake, contract, there).select("partition", "offset")


def first_lost(there: DataFrame, kept: DataFrame) -> list[Row]:
    """The first places (partition, offset) that are `there` and not `kept`, in order."""
    return there.join(kept, [*_PLACE], "left_anti").distinct().orderBy(*_PLACE).limit(10).collect()


def refuse_loss(
    contract: Contract,
    there: DataFrame,
    kept: DataFrame,
    read: Callable[[], DataFrame],
    next_step: str,
) -> None:
    """Compare places (partition, offset): what is `there`, what is `kept`, and what was `read` and is no row any more.

    Raises:
        Refused: naming the first places that would be lost; Kafka has compacted their records away.
    """
    suspects = there.join(kept, [*_PLACE], "left_anti")
    if suspects.isEmpty():
        return
    if lost := first_lost(suspects, read()):
        listed = ", ".join(f"{r['partition']}:{r['offset']}" for r in lost)
        raise Refused(
            f"Kafka no longer has records that {contract.table} holds (the topic is compacted): {listed} …",
            next_step=next_step,
            table=contract.table,
            offsets=[[r["partition"], r["offset"]] for r in lost],
        )


def counted_at_most(lake: Lake, plan: Plan, ranges: Ranges) -> dict[int, Counts]:
    """No fewer than the records in `ranges` were counted as: by their batches, or by the epoch, if those expired."""
    table, totals = lake.catalog.load_table(plan.contract.table), plan.ledger.totals
    ledgers = ledgers_of_epoch(table.metadata, plan.state.head, plan.ledger.epoch, plan.contract.table)
    told = counted_within(ledgers, ranges)
    return {p: Counts(*map(min, each, told.get(p, each))) for p, each in totals.items()}


def counts_before(
    counts: Mapping[int, Counts],
    old: Mapping[int, Rows],
    new: Mapping[int, Rows],
    waits: DataFrame | None,
    null_values: Mapping[int, int],
    known: Mapping[int, Counts],
) -> dict[int, Counts]:
    """How the records were counted that are now counted as `counts`, of which `null_values` have no value.

    `old` and `new` are the rows before and after; `waits` what waited in the quarantine, `known` what was counted at
    the most.
    """
    quarantined = {} if waits is None else _waited(waits)
    return {
        p: counted_before(
            each,
            known.get(p, Counts()),
            rows=old.get(p, NO_ROWS).all,
            tombstone_rows=old.get(p, NO_ROWS).tombstones,
            quarantined=quarantined.get(p, NO_ROWS).all,
            null_values=null_values.get(p, 0),
            quarantined_nulls=quarantined.get(p, NO_ROWS).tombstones,
            unskipped=max(0, new.get(p, NO_ROWS).skippable - old.get(p, NO_ROWS).skippable),
        )
        for p, each in counts.items()
    }


def _waited(waits: DataFrame) -> dict[int, Rows]:
    groups = waits.groupBy("partition").agg(F.count("*"), F.count_if("tombstone"))
    return {p: Rows(*counts) for p, *counts in groups.collect()}
