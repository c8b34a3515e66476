"""Stage a batch on its attempt branch: one pass from Kafka to files, counted on the way."""

from dataclasses import dataclass
from typing import Self

from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.layout import resolve
from tidemark.domain.columns.partitioning import column_parts, expected_partitions
from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.columns.types import DATE, KAFKA_COLUMN, table_columns
from tidemark.domain.ledger.evidence import Evidence
from tidemark.domain.ledger.ledger import BATCH_PROPERTY
from tidemark.domain.ledger.offsets import total
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.working_columns import DETAIL, VALUE
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.observe import WRITTEN, Counting, EventTime, Observed, evidence, observed
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.read import SMALL_BATCH
from tidemark.engine.table.branch import Attempt, branch_head, branch_identifier

FEW_PARTITIONS = 32
"""Up to so many table partitions a task writes without sorting: one open file each."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged batch: `rows`, `files` and `bytes` are the staged snapshot's own counts."""

    attempt: Attempt
    snapshot_id: int
    rows: int
    files: int
    bytes: int
    evidence: Evidence

    @classmethod
    def of(cls, attempt: Attempt, snapshot: Snapshot, evidence: Evidence) -> Self:
        """What `snapshot` says that it has staged."""
        summary = summary_of(snapshot)
        return cls(
            attempt,
            snapshot.snapshot_id,
            rows=int(summary.get("added-records", 0)),
            files=int(summary.get("added-data-files", 0)),
            bytes=int(summary.get("added-files-size", 0)),
            evidence=evidence,
        )


def stage(lake: Lake, plan: Plan, decoded: DataFrame) -> Staged:
    """Write the good rows of `decoded` to the open attempt branch."""
    observation = Observed(f"batch {plan.batch_id} {plan.attempt_id}")
    names = [quoted_name(f.name) for f in plan.columns.fields]
    several = plan.contract.event is not None
    counting = Counting(plan.ranges, plan.schemas.known, _event_time(plan), plan.row_rules, several)
    seen = decoded.drop(VALUE, DETAIL)  # else counting would copy the bytes of every record
    rows = observed(seen, counting, observation).where(F.col(WRITTEN))
    writer = rows.select(*names, KAFKA_COLUMN.name).writeTo(branch_identifier(lake, plan.attempt))
    for option, value in _layout(plan, columnar=lake.writes_columns).items():
        writer = writer.option(option, value)
    writer.option(f"snapshot-property.{BATCH_PROPERTY}", f"{plan.batch_id}/{plan.attempt_id}").append()
    snapshot = branch_head(lake, plan.attempt)
    pause_point("staged")
    return Staged.of(plan.attempt, snapshot, evidence(observation, counting))


def _event_time(plan: Plan) -> EventTime | None:
    path = plan.event_time
    if path is None:
        return None
    day = resolve(table_columns(plan.columns), path) == DATE
    return EventTime(column_parts(path), plan.ledger.watermark_of(path), day)


def _layout(plan: Plan, *, columnar: bool) -> dict[str, str]:
    """How rows find their files.

    A small batch is one task. A large one is spread by partition value, which never reads Kafka twice as a range
    distribution would; where the contract says `none`, each task writes its own rows: less CPU, more files. Either way
    a task sorts its rows by partition value first, unless few files are open at once and their writer is Tidemark's
    own, which bounds what they hold together (ADR 0036).
    """
    small = not plan.state.partition_fields or total(plan.ranges) <= SMALL_BATCH
    chosen = "none" if small else plan.contract.table_properties.get("write.distribution-mode", "hash")
    fanout = columnar and _partitions(plan.state) <= FEW_PARTITIONS
    return {"distribution-mode": str(chosen), "fanout-enabled": str(fanout).lower()}


def _partitions(state: TableState) -> float:
    """Table partitions that a batch is expected to touch: as many as the last one did."""
    found = state.touched_partitions
    return expected_partitions(state.shape.partition_by) if found is None else found
