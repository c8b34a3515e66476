"""Rule: after a column by whose values files are partitioned became wider, main's head has it in its present type."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.types import IntegerType, LongType, NestedField

from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Counts, Ledger
from tidemark.engine.access.lake import Lake
from tidemark.engine.ingest.readable_head import with_readable_head

COLUMNS = Schema(NestedField(1, "tenant", IntegerType()), NestedField(2, "id", IntegerType()))
ROWS = pa.table({"tenant": pa.array([1, 2], pa.int32()), "id": pa.array([3, 4], pa.int32())})
COUNTS = {0: Counts(2, 2)}
READ = Ledger(
    cluster_id="c", topic_id="t", topic="orders", next={0: 2}, from_={0: 0}, counts=COUNTS, totals=COUNTS
)


def partitioned(lake: Lake, transform: Transform[Any, Any], rows: pa.Table = ROWS) -> Any:
    spec = PartitionSpec(PartitionField(1, 1000, transform, "tenant_part"))
    table = lake.catalog.create_table("shop.invoices", COLUMNS, partition_spec=spec)
    table.append(rows, snapshot_properties={LEDGER_PROPERTY: READ.to_json()})
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


@pytest.mark.parametrize(
    ("transform", "column"), [(IdentityTransform(), "id"), (BucketTransform(4), "tenant")], ids=str
)
def test_other_columns_and_other_transforms_ask_for_none(
    lake: Lake, transform: Transform[Any, Any], column: str
) -> None:
    widen(partitioned(lake, transform, ROWS.slice(0, 0)), column)
    assert lake.state("shop.invoices").head_readable
