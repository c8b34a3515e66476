"""The quarantine table: records that could not enter, with cause and original bytes.

A batch publishes its rows before main moves, an act hides them until its receipt (`hide`). What a dead attempt has
left in a batch's ranges, by (epoch, partition, offset), is replaced in the same MERGE.
"""

from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import property_list, quoted_name
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.backfill import BACKFILL
from tidemark.domain.ledger.ledger import Ledger, add_up
from tidemark.domain.ledger.offsets import Ranges
from tidemark.domain.ledger.settlement import ABANDONED
from tidemark.domain.plan.table_properties import BASE
from tidemark.engine.access.conditions import sql_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.spark import temp_view
from tidemark.engine.access.table_state import OWNED, load, load_written
from tidemark.engine.faults import pause_point
from tidemark.engine.table.branch import Attempt, main_at, main_to
from tidemark.engine.table.marked import append_marked
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import can_compare_and_set, set_back
from tidemark.engine.table.races import or_overtaken
from tidemark.engine.table.settle import SETTLED
from tidemark.engine.table.takeover import half_renamed

COLUMNS = (
    "topic string, epoch int, partition int, offset bigint, timestamp timestamp, timestamp_type int, key binary, "
    "value binary, headers array<struct<key: string, value: binary>>, schema_id int, cause string, detail string, "
    "batch_id string, run_id string, quarantined_at timestamp, resolved_by string, resolved_at timestamp"
)


def ensure(lake: Lake, contract: Contract) -> None:
    """Create the quarantine table of a contract when it is not there; that of a backfill's shadow is marked like it.

    Without rows it has nothing to do for the newest receipt's settlement, and is marked as settled.

    Raises:
        Stopped: a rename of the table has begun, and has moved its quarantine already.
    """
    quarantine, backfill = contract.quarantine_table, contract.table_properties.get(BACKFILL)
    there = load(lake.catalog, quarantine)
    if there is not None and there.metadata.current_snapshot_id is not None:
        return
    if there is None and (fault := half_renamed(lake, contract)):
        raise fault
    ledger = lake.state(contract.table, ledger=False).ledger
    settled = {SETTLED: ledger.settlement.id} if ledger and ledger.settlement else {}
    if there is not None:
        set_properties(lake, quarantine, settled)
        return
    keep = {
        **settled,
        OWNED: contract.topic,
        **({BACKFILL: backfill} if backfill else {}),
        "format-version": "2",
        "write.merge.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        **{key: value for key, value in BASE.items() if key.startswith("write.metadata.")},
    }
    lake.spark().sql(
        f"CREATE TABLE IF NOT EXISTS {lake.identifier(quarantine)} ({COLUMNS}) USING iceberg "
        f"COMMENT 'Records that could not enter, with cause' TBLPROPERTIES ({property_list(keep)})"
    )


def leftovers(lake: Lake, quarantine: str, epoch: int, ranges: Ranges) -> bool:
    """Whether unresolved rows inside `ranges` are there: left by an attempt that never published.

    Only files are opened whose statistics do not rule it out.
    """
    table = load_written(lake.catalog, quarantine)
    if table is None or not ranges:
        return False
    scan = table.scan(row_filter=inside(epoch, ranges), selected_fields=("offset",), limit=1)
    return bool(scan.to_arrow().num_rows)


@dataclass(frozen=True, slots=True)
class QuarantineCommit:
    """One commit of ours to a quarantine table: from snapshot `before` to `after`."""

    quarantine: str
    before: int
    after: int


def replace_within(
    lake: Lake, quarantine: str, rows: DataFrame | None, *, epoch: int, ranges: Ranges, expected: int
) -> QuarantineCommit | None:
    """Publish `rows` and remove what else is unresolved inside `ranges`, in one commit (two where it came meanwhile).

    Rows beyond stay untouched: they belong to an attempt that may publish next. Returns the change where it can be
    undone: not when it is the first, or when another attempt wrote at the same time.

    Raises:
        Stopped: afterwards the table does not hold `expected` rows there: nothing of the batch is published.
        Overtaken: another attempt writes the same quarantine right now.
    """
    where = inside(epoch, ranges, "t.")
    before = _head(lake, quarantine)
    more = rows is None or leftovers(lake, quarantine, epoch, ranges)
    found = _replaced(lake, quarantine, rows, where, more=more)
    if found != expected and not more:  # another attempt has died meanwhile
        found = _replaced(lake, quarantine, rows, where, more=True)
    if found != expected:
        raise Stopped(
            "failed",
            quarantine,
            f"It holds {found} rows of this batch, the audit counted {expected}; nothing was published.",
        )
    after = _head(lake, quarantine)
    pause_point("quarantined")
    if before is None or after is None or after.parent_snapshot_id != before.snapshot_id:
        return None
    return QuarantineCommit(quarantine, before.snapshot_id, after.snapshot_id)


def _replaced(lake: Lake, quarantine: str, rows: DataFrame | None, where: str, *, more: bool) -> int:
    """Write `rows` over what is unresolved there, with `more` remove the rest of it; gives how many rows it holds then.

    Only with `more` Spark reads the whole table: else it opens the files whose statistics do not rule these rows out.
    """
    spark, target = lake.spark(), lake.identifier(quarantine)
    with or_overtaken(quarantine):
        if rows is None:
            spark.sql(f"DELETE FROM {target} t WHERE {where}")
        else:
            _merge(rows, target, where, more=more)
    return int(spark.sql(f"SELECT count(*) AS n FROM {target} t WHERE {where}").collect()[0]["n"])


def hide(lake: Lake, contract: Contract, rows: DataFrame, staged: str, expected: int, told: str) -> None:
    """Add `rows` where nobody counts them before the receipt that reveals `staged` is published.

    Raises:
        Stopped: `failed`: they are not `expected` rows, whose count `told` explains.
    """
    name, target, spark = contract.quarantine_table, lake.identifier(contract.quarantine_table), lake.spark()
    ensure(lake, contract)
    spark.sql(f"DELETE FROM {target} WHERE {ABANDONED}")
    hidden = rows.withColumns({"resolved_by": F.lit(staged), "resolved_at": F.current_timestamp()})
    hidden.writeTo(target).append()
    found = spark.table(target).where(F.col("resolved_by") == staged).count()
    if found != expected:
        raise Stopped("failed", name, f"{found} rows are staged, {told}.")


def undo(lake: Lake, change: QuarantineCommit) -> None:
    """Take back what an overtaken attempt has changed, unless another has changed the table since.

    Between that attempt's last look at main and its change, the winner may have published its rows as something else.
    """
    table = load(lake.catalog, change.quarantine)
    if table is None or table.metadata.snapshot_by_id(change.before) is None:  # expired meanwhile
        return
    with suppress(CommitFailedException, Overtaken):
        if can_compare_and_set(lake, table.metadata):
            moved = main_to(table, change.before)
            commit(table, requirements=main_at(table, change.after), updates=(moved,))
        else:
            attempt = Attempt(change.quarantine, MAIN_BRANCH, change.after, change.before)
            set_back(lake, attempt, change.before)


def keep(lake: Lake, quarantine: str) -> int:
    """A commit of no rows, and its snapshot: what is there by then no attempt takes back any more (`undo`)."""
    empty = lake.spark().sql(f"SELECT * FROM {lake.identifier(quarantine)} WHERE false")
    with or_overtaken(quarantine):
        return append_marked(lake, quarantine, empty, uuid4().hex)


def remake_lost(lake: Lake, contract: Contract, ledger: Ledger) -> None:
    """Make the table anew, with a snapshot, where it is gone with records that wait in it, says `ledger`.

    For whoever has read them again, or knows that nobody can: from then on nothing is missed there.
    """
    if not add_up(ledger.totals.values()).quarantined:
        return
    if load_written(lake.catalog, contract.quarantine_table) is None:
        ensure(lake, contract)
        keep(lake, contract.quarantine_table)


def _head(lake: Lake, quarantine: str) -> Snapshot | None:
    table = load(lake.catalog, quarantine)
    return table.metadata.current_snapshot() if table else None


def _merge(rows: DataFrame, target: str, where: str, *, more: bool) -> None:
    names = [quoted_name(each) for each in rows.columns]
    told = ", ".join(f"t.{each} = s.{each}" for each in names)  # somebody may have added columns of their own
    values = ", ".join(f"s.{each}" for each in names)
    with temp_view(rows, "quarantined") as view:
        rows.sparkSession.sql(
            f"MERGE INTO {target} t USING {view} s ON t.epoch = s.epoch AND t.partition = s.partition "
            f"AND t.offset = s.offset AND {where} "
            f"WHEN MATCHED THEN UPDATE SET {told} WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values}) "
            + (f"WHEN NOT MATCHED BY SOURCE AND {where} THEN DELETE" if more else "")
        )


def inside(epoch: int, ranges: Ranges, prefix: str = "", *, waiting: bool = True) -> str:
    """The rows inside `ranges` of an epoch, those that wait or all, as Spark and PyIceberg both read it."""
    unresolved = f"{prefix}resolved_at IS NULL AND " if waiting else ""
    return f"{prefix}epoch = {epoch} AND {unresolved}({sql_within(ranges, prefix)})"
