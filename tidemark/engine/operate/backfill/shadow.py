"""The shadow of a table: where a backfill is loaded, out of everybody's sight, until it is published or dropped.

`<table>_backfill` is loaded by the same microbatches as any table, or by windows of rows; its ledger says how far.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract, Ingest, StartOffsets
from tidemark.domain.config.naming import QUARANTINE, SHADOW
from tidemark.domain.config.quality import TABLE_CHECKS
from tidemark.domain.errors import Refused, SchemaUnsupported
from tidemark.domain.ledger.backfill import BACKFILL, Backfill, Source
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, Ranges
from tidemark.domain.ledger.replay import minus
from tidemark.domain.plan.table_properties import GC_ENABLED
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, newest_receipt
from tidemark.engine.access.snapshots import is_receipt, ledger_of
from tidemark.engine.access.table_state import TableState, load
from tidemark.engine.merge.rows import conformed
from tidemark.engine.schema.evolve import value_columns
from tidemark.engine.table.head_rows import head_rows


@dataclass(frozen=True, slots=True)
class Window:
    """One commit of the shadow: what of which partitions, and what became of it."""

    number: int
    ranges: Ranges
    counts: Mapping[int, Counts]
    snapshot_id: int | None


def source_contract(lake: Lake, contract: Contract, source: Source) -> Contract:
    """The contract with the topic that is read, and its subject, unless there is none or the contract says one."""
    if source.kind != "topic":
        return contract
    value, subject = contract.value, f"{source.name}-value"
    by_topic = value.format in REGISTRY_FORMATS and value.subject == f"{contract.topic}-value"
    if by_topic and lake.registry(source.cluster).numbers(subject):
        value = value.model_copy(update={"subject": subject})
    return contract.model_copy(update={"topic": source.name, "cluster": source.cluster, "value": value})


def shadow_contract(
    contract: Contract, target: TableState, plan: Backfill, max_records: int | None
) -> Contract:
    """The contract that the shadow is loaded by: that of what is read, but for the table and what is judged.

    It holds what `target` holds: a format never goes back, whatever the contract says by now.
    """
    start = StartOffsets(offsets=plan.start)
    said = {key: value for key, value in contract.table_properties.items() if key != GC_ENABLED}
    return contract.model_copy(
        update={
            "table": contract.table + SHADOW,
            "format_version": max(contract.format_version, target.shape.format_version),
            "ingest": Ingest(start=start, max_records=max_records or contract.ingest.max_records),
            # a window cannot be judged by rules of a whole table; the others are judged as the rows come
            "quality": tuple(rule for rule in contract.quality if rule.check not in TABLE_CHECKS),
            "table_properties": {**said, BACKFILL: plan.model_dump_json()},
        }
    )


def under_way(lake: Lake, contract: Contract) -> tuple[TableState, Backfill] | None:
    """The shadow that is there, and what is being loaded into it.

    Raises:
        Refused: a table of that name, or of its quarantine's, was made by no backfill.
    """
    declared = {each.table for each in lake.configuration.contracts}
    for place, ours in _there(lake, contract).items():
        if not ours or place in declared:
            raise Refused(
                f"{place} is the place of the backfill, and a table of its own",
                next_step="give that table another name",
                table=contract.table,
            )
    state = lake.state(contract.table + SHADOW)
    return (state, Backfill.model_validate_json(state.properties[BACKFILL])) if state.exists else None


def windows(lake: Lake, shadow: str) -> list[Window]:
    """The windows that are loaded, oldest first. Those whose receipts somebody has expired are told as one."""
    loaded = load(lake.catalog, shadow)
    newest = newest_receipt(loaded.metadata) if loaded else None
    if loaded is None or newest is None:
        return []
    chain = ancestors(loaded.metadata, newest.snapshot_id)
    found = [(s, ledger_of(s, shadow)) for s in chain if is_receipt(s)]
    batches: list[tuple[Ranges, Mapping[int, Counts], int | None]] = [
        (ranges, ledger.counts, s.snapshot_id)
        for s, ledger in reversed(found)
        if ledger.kind == "append" and (ranges := _ranges(ledger.from_, ledger.next))
    ]
    oldest, ledger = found[-1]
    expired = _ranges(ledger.start, {**ledger.next, **ledger.from_}) if ledger.kind == "append" else {}
    if expired:
        counts = {p: minus(ledger.totals.get(p, Counts()), ledger.counts.get(p, Counts())) for p in expired}
        batches.insert(0, (expired, counts, oldest.parent_snapshot_id))
    return [Window(number, *batch) for number, batch in enumerate(batches)]


def _ranges(start: Offsets, end: Offsets) -> dict[int, OffsetRange]:
    return {p: OffsetRange(a, end[p]) for p, a in start.items() if end[p] > a}


def drop_shadow(lake: Lake, contract: Contract) -> None:
    """Drop the shadow with all its files, its quarantine first: while the shadow stands, this can be repeated.

    Only what a backfill has made: whoever has put a table in its place meanwhile keeps it.
    """
    for table, ours in _there(lake, contract).items():
        if ours:
            lake.spark().sql(f"DROP TABLE IF EXISTS {lake.identifier(table)} PURGE")


def _there(lake: Lake, contract: Contract) -> dict[str, bool]:
    """The shadow's quarantine and the shadow, as far as they are there -> whether a backfill has made them."""
    shadow = contract.table + SHADOW
    found = {name: load(lake.catalog, name) for name in (shadow + QUARANTINE, shadow)}
    return {name: BACKFILL in table.properties for name, table in found.items() if table}


def shadow_rows(lake: Lake, contract: Contract, target: TableState, epoch: int) -> DataFrame:
    """The rows of the shadow as rows of the table, of `epoch`.

    Raises:
        Refused: the table does not hold the shadow's columns.
    """
    state = lake.state(contract.table + SHADOW)
    rows = head_rows(lake, state)  # opens the session that columns need
    kafka = F.col(KAFKA_COLUMN.name).withField("epoch", F.lit(epoch).cast("int"))
    fitted = fit(rows, value_columns(state), value_columns(target), contract.table)
    names = [quoted_name(field.name) for field in value_columns(target).fields]
    return fitted.select(*names, kafka.alias(KAFKA_COLUMN.name))


def fit(rows: DataFrame, found: Struct, wanted: Struct, table: str) -> DataFrame:
    """`rows` with their columns `found` in the types of `wanted`; what they lack is NULL, other columns stay.

    Raises:
        Refused: a column would not fit exactly; nothing is left out or narrowed in silence.
    """
    if why := misfit(found, wanted, table):
        raise Refused(why, next_step=f"tidemark plan {table}, then repeat the command", table=table)
    fitted = {}
    for field in wanted.fields:
        here = found.field(field.name)
        value = conformed(quoted_name(field.name), here.type, field.type) if here else "NULL"
        fitted[field.name] = F.expr(value).cast(spark_ddl(field.type))
    return rows.withColumns(fitted)


def misfit(found: Struct, wanted: Struct, table: str) -> str:
    """Why rows with the columns `found` are no rows of `table`, which has `wanted`; empty when they are."""
    try:
        differences = covers(wanted, found)
    except SchemaUnsupported as error:
        return f"{table} cannot hold what would be loaded: {error}"
    listed = "; ".join(
        f"{d.dotted}: {d.kind}, found {d.wanted}" + (f", {table} has {d.found}" if d.found else "")
        for d in differences
    )
    return f"{table} does not hold what would be loaded: {listed}" if listed else ""
