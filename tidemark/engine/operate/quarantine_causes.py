"""Causes in the quarantine that a replay brings up to date: what stays is there for today's reason."""

from collections.abc import Sequence
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.formats.explanation import Cause
from tidemark.domain.ledger.evidence import Group
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.spark import temp_view
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine_rows import explained_rows
from tidemark.engine.table.races import or_overtaken

OLD_CAUSE = "_tidemark_old_cause"
EXPLAINED = 100_000
_EXPLAINABLE = get_args(Cause)


def note_causes(lake: Lake, plan: Plan, decoded: DataFrame, groups: Sequence[Group], old: DataFrame) -> int:
    """Write today's cause of the records of `groups` where `old` (partition, offset, OLD_CAUSE) has another one.

    Returns how many that were.
    """
    quarantine = plan.contract.quarantine_table
    rows = explained_rows(lake, plan, decoded, groups)
    together = rows.select("partition", "offset", "cause", "detail").join(old, ["partition", "offset"])
    now = together.where(F.col("cause") != F.col(OLD_CAUSE)).limit(EXPLAINED).toArrow().to_pylist()
    changed = [
        (r["partition"], r["offset"], r["cause"], r["detail"])
        for r in now
        if r["detail"] is not None
        or r["cause"] not in _EXPLAINABLE  # else it is beyond what one look explains
    ]
    if not changed:
        return 0
    frame = lake.spark().createDataFrame(changed, "partition int, offset bigint, cause string, detail string")
    with temp_view(frame, "causes") as view, or_overtaken(quarantine):
        frame.sparkSession.sql(
            f"MERGE INTO {lake.identifier(quarantine)} t USING {view} s ON t.epoch = {plan.ledger.epoch} "
            "AND t.partition = s.partition AND t.offset = s.offset AND t.resolved_at IS NULL "
            "WHEN MATCHED THEN UPDATE SET cause = s.cause, detail = s.detail"
        )
    return len(changed)
