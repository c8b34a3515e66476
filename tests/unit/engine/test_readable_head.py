"""Rule: after a column by whose values files are partitioned became wider, main's head has it in its present type."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.types import IntegerType, LongType, NestedField

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Counts, Ledger
from tidemark.domain.ledger.merge_ledger import Changes, MergeLedger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.lake import Lake
from tidemark.engine.ingest import microbatch as ingest
from tidemark.engine.ingest.readable_head import with_readable_head
from tidemark.engine.operate.backfill.shadow import windows

COLUMNS = Schema(NestedField(1, "tenant", IntegerType()), NestedField(2, "id", IntegerType()))
ROWS = pa.table({"tenant": pa.array([1, 2], pa.int32()), "id": pa.array([3, 4], pa.int32())})
COUNTS = {0: Counts(2, 2)}
READ = Ledger(
    cluster_id="c", topic_id="t", topic="orders", next={0: 2}, from_={0: 0}, counts=COUNTS, totals=COUNTS
)


def partitioned(
    lake: Lake, transform: Transform[Any, Any], rows: pa.Table = ROWS, ledger: Ledger | MergeLedger = READ
) -> Any:
    spec = PartitionSpec(PartitionField(1, 1000, transform, "tenant_part"))
    table = lake.catalog.create_table("shop.invoices", COLUMNS, partition_spec=spec)
    table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    return table


def widen(table: Any, column: str) -> None:
    with table.update_schema() as update:
        update.update_column(column, LongType())


def test_an_empty_receipt_goes_on_top_of_a_head_that_knows_it_narrower(lake: Lake) -> None:
    """Given a spec by its values, though it is a former one, when the column becomes wider, then one receipt says again what was read, and nothing of what it read or asked for."""
    contract = lake.configuration.contracts[0].model_copy(update={"table": "shop.invoices"})
    table = partitioned(lake, IdentityTransform())
    with table.update_spec() as update:
        update.remove_field("tenant_part")
    widen(table, "tenant")
    before = lake.state("shop.invoices")
    assert not before.head_readable
    for _ in range(2):
        now = with_readable_head(lake, contract, lake.state("shop.invoices"), "this run")
    assert now.head_readable
    assert len(lake.catalog.load_table("shop.invoices").metadata.snapshots) == 2
    assert (now.rows, now.tagged) == (2, now.head)
    own = {"attempt": now.ledger.attempt, "batch_id": now.ledger.batch_id, "run_id": "this run"}
    assert now.ledger == READ.model_copy(update={**own, "from_": {}, "counts": {}})
    assert now.ledger.batch_id != READ.batch_id
    assert [each.ranges for each in windows(lake, "shop.invoices")] == [{0: OffsetRange(0, 2)}]


def test_one_of_an_upsert_table_says_what_was_merged(lake: Lake) -> None:
    merged = MergeLedger(
        append_table="shop.orders", append_uuid="u", append_snapshot=1, next={0: 2}, changes=Changes(read=2)
    )
    widen(partitioned(lake, IdentityTransform(), ledger=merged), "tenant")
    contract = lake.configuration.contracts[0].model_copy(update={"table": "shop.invoices"})
    now = with_readable_head(lake, contract, lake.state("shop.invoices"), "this run")
    assert now.head_readable
    own = {"attempt": now.merged.attempt, "run_id": "this run", "changes": Changes()}
    assert now.merged == merged.model_copy(update=own)


def test_what_the_quarantine_lacks_of_the_last_batch_is_said_before(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given rows of the last batch's quarantine that somebody's dead attempt took, when a column becomes wider before the next batch, then that one stops as it would without, and no receipt comes over them."""
    contract = lake.configuration.contracts[0].model_copy(update={"table": "shop.invoices"})
    bad = READ.model_copy(update={"counts": {0: Counts(2, 1, 1)}})
    widen(partitioned(lake, IdentityTransform(), ledger=bad), "tenant")
    state, topic = lake.state("shop.invoices"), Topic("orders", "c", "t", {0: 0}, {0: 9}, {0: 9})
    plan = SimpleNamespace(contract=contract, ledger=state.ledger, topic=topic, state=state)
    monkeypatch.setattr(ingest, "make_plan", lambda *_: plan)
    with pytest.raises(Stopped, match="holds 0 of 1 rows"):
        ingest.microbatch(lake, contract, "this run")
    assert lake.state("shop.invoices").head == state.head


@pytest.mark.parametrize(
    ("transform", "column"), [(IdentityTransform(), "id"), (BucketTransform(4), "tenant")], ids=str
)
def test_other_columns_and_other_transforms_ask_for_none(
    lake: Lake, transform: Transform[Any, Any], column: str
) -> None:
    widen(partitioned(lake, transform, ROWS.slice(0, 0)), column)
    assert lake.state("shop.invoices").head_readable
