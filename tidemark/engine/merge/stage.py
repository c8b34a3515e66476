"""Stage a merge on its attempt branch: one MERGE for rows that are there, one append for new ones, then the audit."""

from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.config.upsert import SOFT_COLUMN
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.merge_ledger import Changes
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.spark import temp_view
from tidemark.engine.access.totals import totals_said
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.observe import Observed
from tidemark.engine.merge.batch import Batch, target
from tidemark.engine.merge.event import DELETE, KEY, KIND, ROW
from tidemark.engine.merge.memory import remember
from tidemark.engine.merge.plan import MergePlan
from tidemark.engine.merge.rows import key_columns, to_remember
from tidemark.engine.merge.tally import Tally, tally_from, tally_of, with_counts
from tidemark.engine.merge.upsert_columns import UpsertColumns
from tidemark.engine.table.branch import branch_head, branch_identifier

_KEY, _ACTION = "_tidemark_key", "_tidemark_action"


@dataclass(frozen=True, slots=True)
class StagedMerge:
    """What lies on the branch: the snapshots made, what they change, and how much was written."""

    snapshots: frozenset[int]
    changes: Changes
    files: int
    bytes: int
    memory: int | None
    """The snapshot of the memory of deletes that goes with them; 0 and None as for `MergePlan.memory`."""


def stage_merge(lake: Lake, plan: MergePlan, batch: Batch) -> StagedMerge:
    """Write what the winners ask for; the branch holds exactly that, or Stopped(`failed`)."""
    truncates = batch.truncates > 0 and bool(plan.state.rows) and plan.action != "rebuild"
    if batch.is_alone and not batch.truncated and not plan.current.remembers:
        return _stage_alone(lake, plan, batch)
    tally = tally_of(batch.winners, others=plan.current.remembers)
    erased = _others_before(lake, plan, batch) if truncates else 0
    memory = plan.memory
    if plan.current.remembers and tally.to_remember:
        deletes = to_remember(batch.winners, plan.shape)
        memory = remember(lake, plan.current, deletes, plan.memory, plan.attempt_id)
        pause_point("remembered")
    snapshots: list[Snapshot] = []
    if plan.action == "rebuild" and plan.state.rows:
        _rewrite(lake, plan, batch.winners)
        snapshots.append(branch_head(lake, plan.attempt))
    else:
        if tally.update or tally.delete or truncates:
            _merge(lake, plan, batch, truncates=truncates)
            snapshots.append(branch_head(lake, plan.attempt))
            pause_point("merged")
        if tally.insert:
            _insert(lake, plan, batch, batch.winners)
            snapshots.append(branch_head(lake, plan.attempt))
    return _staged(lake, plan, batch, snapshots, tally, erased=erased, memory=memory)


def _stage_alone(lake: Lake, plan: MergePlan, batch: Batch) -> StagedMerge:
    """Of a table that is made of the batch alone, which is reduced once: what is done is counted on the way."""
    observation = Observed("merge")
    winners = with_counts(batch.winners_by_place or batch.winners, observation)
    if plan.state.rows:
        _rewrite(lake, plan, winners)
    else:
        _insert(lake, plan, batch, winners)
    snapshots = [branch_head(lake, plan.attempt)]
    events = batch.read - batch.null_key - batch.truncates
    tally = tally_from(observation, events, int(summary_of(snapshots[0]).get("added-records", 0)))
    if tally is None:
        tally = tally_of(batch.winners, others=False)
        if batch.winners_by_place:  # perhaps a record lies twice in the append table
            _rewrite(lake, plan, batch.winners)
            snapshots.append(branch_head(lake, plan.attempt))
    return _staged(lake, plan, batch, snapshots, tally, erased=0, memory=plan.memory)


def _staged(
    lake: Lake,
    plan: MergePlan,
    batch: Batch,
    snapshots: list[Snapshot],
    tally: Tally,
    *,
    erased: int,
    memory: int | None,
) -> StagedMerge:
    """What was written, once it is what was asked for."""
    pause_point("staged")
    _audit(lake, plan, snapshots, tally, erased)
    pause_point("audited")
    made = list({each.snapshot_id: each for each in snapshots}.values())
    summaries = [summary_of(each) for each in made]
    return StagedMerge(
        snapshots=frozenset(each.snapshot_id for each in made if each.snapshot_id != plan.state.head),
        changes=tally.changes(batch, erased),
        files=sum(int(s.get("added-data-files", 0)) + int(s.get("added-delete-files", 0)) for s in summaries),
        bytes=sum(int(s.get("added-files-size", 0)) for s in summaries),
        memory=memory,
    )


def _merge(lake: Lake, plan: MergePlan, batch: Batch, *, truncates: bool) -> None:
    """One MERGE on the key alone: wherever the row lies, it is found, and moves when its partition changes."""
    shape = plan.shape
    rows = batch.winners.where(F.col("action").isin("update", "delete"))
    keys = " AND ".join(f"t.{quoted_name(*path)} = s.{_KEY}.k{n}" for n, path in enumerate(plan.current.keys))
    on = f"{keys} AND {batch.pruned}" if batch.pruned and not truncates else keys
    rest = ""
    if truncates:
        older = shape.before(batch.truncated, "t._kafka", "t.")
        then = f"UPDATE SET {SOFT_COLUMN.name} = true" if plan.current.soft else "DELETE"
        rest = f"WHEN NOT MATCHED BY SOURCE AND {older} THEN {then}"
    with temp_view(_rows(rows, shape), "merge") as view:
        rows.sparkSession.sql(
            f"MERGE INTO {branch_identifier(lake, plan.attempt)} t USING {view} s ON {on} "
            f"WHEN MATCHED AND s.{_ACTION} = 'delete' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in _columns(shape))} {rest}"
        )


def _insert(lake: Lake, plan: MergePlan, batch: Batch, winners: DataFrame) -> None:
    rows = _rows(winners.where(F.col("action") == "insert"), plan.shape)
    spread = bool(plan.state.partition_fields) and not batch.small
    writer = rows.select(*_columns(plan.shape)).writeTo(branch_identifier(lake, plan.attempt))
    writer = writer.option("distribution-mode", "hash" if spread else "none")
    writer.option("fanout-enabled", str(not spread).lower()).append()


def _rewrite(lake: Lake, plan: MergePlan, winners: DataFrame) -> None:
    """The whole table anew, in one snapshot."""
    rows = _rows(winners.where(F.col("action") == "insert"), plan.shape)
    chosen = rows.select(*_columns(plan.shape))
    chosen.writeTo(branch_identifier(lake, plan.attempt)).overwrite(F.lit(True))


def _rows(winners: DataFrame, shape: UpsertColumns) -> DataFrame:
    """Winners as rows of the table, with key and action beside them."""
    values = [F.col(ROW)[name].alias(name) for name, _ in shape.fields]
    if shape.current.soft:
        values.append((F.col(KIND) == DELETE).alias(SOFT_COLUMN.name))
    return winners.select(*values, F.col(KEY).alias(_KEY), F.col("action").alias(_ACTION))


def _columns(shape: UpsertColumns) -> list[str]:
    return [quoted_name(field.name) for field in shape.columns.fields]


def _others_before(lake: Lake, plan: MergePlan, batch: Batch) -> int:
    """Rows that a truncate event takes with it, beside those whose key the batch writes or deletes."""
    older = plan.shape.before(batch.truncated)
    unmarked = f"NOT coalesce({SOFT_COLUMN.name}, false)" if plan.current.soft else "true"
    rows = target(lake, plan).where(f"{older} AND {unmarked}")
    mine = batch.winners.where(F.col("stored") & F.col("action").isNotNull()).select(F.col(KEY))
    found = rows.select(key_columns(plan.shape).alias(KEY))
    return found.join(mine, KEY, "left_anti").count()


def _audit(lake: Lake, plan: MergePlan, snapshots: list[Snapshot], tally: Tally, erased: int) -> None:
    """The staged snapshots' own counts against what was asked for.

    Raises:
        Stopped: `failed`: they differ, even after the rows were counted.
    """
    head = plan.state
    gone = tally.delete + (0 if plan.current.soft else erased)
    wanted = tally.insert if plan.action == "rebuild" else head.rows - head.delete_rows + tally.insert - gone
    if not snapshots:
        return
    said = totals_said(snapshots[-1])
    if said and said.rows - said.delete_rows == wanted and _updated_once(snapshots[0], tally):
        return
    rows, keys = _counted(lake.spark().table(branch_identifier(lake, plan.attempt)), plan)
    before, known = (
        (0, 0) if plan.action == "rebuild" or head.head is None else _counted(target(lake, plan), plan)
    )
    if rows == keys == known + tally.insert - gone:
        return
    if before != known:
        raise Stopped(
            "table_incompatible",
            head.table,
            f"It holds {before} rows of {known} keys: somebody else wrote to it, for no merge leaves a key two rows. "
            f"Drop it, then tidemark accept {head.table} --first-load --reason …: it is made anew from the append "
            "table.",
        )
    raise Stopped(
        "failed",
        head.table,
        f"The stage holds {rows} rows of {keys} keys; {before} were there, {tally.insert} were "
        f"to be inserted and {gone} to be deleted. It was dropped.",
    )


def _updated_once(merged: Snapshot, tally: Tally) -> bool:
    """Whether the MERGE, if it rewrote no files, wrote one row for each key that it updated: none had two."""
    summary = summary_of(merged)
    return (
        not tally.update
        or "deleted-records" in summary
        or int(summary.get("added-records", 0)) == tally.update
    )


def _counted(table: DataFrame, plan: MergePlan) -> tuple[int, int]:
    """Rows and keys."""
    keys = F.struct(*(F.col(quoted_name(*path)) for path in plan.current.keys))
    [found] = table.agg(F.count("*").alias("n"), F.count_distinct(keys).alias("keys")).collect()
    return found["n"], found["keys"]
