"""A backfill reads its source at one snapshot from beginning to end, and says so when that is gone."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import Source
from tidemark.engine.operate.backfill.source import open_source

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def test_a_source_whose_snapshot_is_gone_is_no_race(tmp_path: Any) -> None:
    """Given a snapshot that the plan names and somebody has expired, or the table dropped, then no repetition helps, and the remedy says what does."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("old")
    table = catalog.create_table("old.orders", ROWS.schema)
    for _ in range(2):
        table.append(ROWS)
    gone = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(gone).commit()
    source = Source(kind="table", name="old.orders")
    lake: Any = SimpleNamespace(catalog=catalog, spark=lambda: None)
    with pytest.raises(Refused, match=rf"snapshot {gone} of table old\.orders"):
        open_source(lake, source, gone)
    catalog.drop_table("old.orders")
    with pytest.raises(Refused, match=r"nothing to load in table old\.orders"):
        open_source(lake, source, gone)


def test_a_source_to_whose_head_spark_cannot_be_pinned_is_refused_with_what_helps(tmp_path: Any) -> None:
    """Given a source whose partition column became wider, when it is opened, then that is refused until any commit comes."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("old")
    rows = pa.table({"id": pa.array([1], pa.int32())})
    table = catalog.create_table("old.orders", rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("id")
    table.append(rows)
    with table.update_schema() as schema:
        schema.update_column("id", LongType())
    lake: Any = SimpleNamespace(catalog=catalog, spark=lambda: None)
    with pytest.raises(
        Refused, match=r"INSERT INTO lake\.old\.orders SELECT \* FROM lake\.old\.orders WHERE"
    ):
        open_source(lake, Source(kind="table", name="old.orders"))
