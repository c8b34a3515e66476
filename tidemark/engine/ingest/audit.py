"""The audit: what the pass observed against what the stage really holds (docs/guide.md, The way of a record)."""

from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.evidence import Group, counts_of
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import Ranges
from tidemark.engine.access.conditions import within
from tidemark.engine.access.lake import Lake
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.stage import Staged
from tidemark.engine.table.branch import branch_identifier


def audit(
    lake: Lake, staged: Staged, groups: list[Group], *, epoch: int, ranges: Ranges
) -> dict[int, Counts]:
    """Counts by fate per partition that balance and agree with what the stage holds.

    Raises:
        Stopped: `failed`: they do not, even after the branch was counted row by row.
    """
    counts = counts_of(staged.evidence, groups, ranges)
    if sum(c.written for c in counts.values()) != staged.rows or not all(c.balanced for c in counts.values()):
        counts = _recounted(lake, staged, groups, epoch, ranges)
    pause_point("audited")
    return counts


def _recounted(
    lake: Lake, staged: Staged, groups: list[Group], epoch: int, ranges: Ranges
) -> dict[int, Counts]:
    """Observed counts may be too high after a repeated task; rows on the branch, each offset once, are the truth."""
    rows = (
        lake.spark()
        .table(branch_identifier(lake, staged.attempt))
        .where(F.col("_kafka.epoch") == epoch)
        .select(F.col("_kafka.partition").alias("p"), F.col("_kafka.offset").alias("o"))
        .where(within(ranges, F.col("p"), F.col("o")))
        .groupBy("p")
        .agg(F.count("*").alias("n"), F.count_distinct("o").alias("distinct"))
        .collect()
    )
    table = staged.attempt.table
    if any(row["n"] != row["distinct"] for row in rows) or sum(row["n"] for row in rows) != staged.rows:
        raise Stopped(
            "failed", table, "The stage holds offsets twice, or rows outside of the batch; it was dropped."
        )
    written = {row["p"]: row["n"] for row in rows}
    unwritten = counts_of(staged.evidence, groups, ranges)
    counts = {}
    for p, seen in unwritten.items():
        other = seen.quarantined + seen.tombstones + seen.skipped
        counts[p] = seen._replace(read=written.get(p, 0) + other, written=written.get(p, 0))
        if counts[p].read > staged.evidence.read.get(p, 0):
            raise Stopped(
                "failed", table, f"Partition {p}: more rows are staged than were read; the stage was dropped."
            )
    return counts
