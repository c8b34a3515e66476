"""An overtaken attempt takes its change of the quarantine back, as long as there is something to go back to."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.engine.ingest.quarantine import QuarantineCommit, undo

ROWS = pa.table({"offset": pa.array([1], pa.int64())})
QUARANTINE = "shop.orders_quarantine"


@pytest.mark.parametrize("expired", [False, True])
def test_a_change_is_taken_back_unless_what_was_before_is_expired(tmp_path: Any, *, expired: bool) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table(QUARANTINE, ROWS.schema)
    for _ in range(2):
        table.append(ROWS)
    before, after = (each.snapshot_id for each in table.metadata.snapshots)
    if expired:
        table.maintenance.expire_snapshots().by_id(before).commit()
    lake: Any = SimpleNamespace(catalog=catalog)
    undo(lake, QuarantineCommit(QUARANTINE, before, after))
    assert catalog.load_table(QUARANTINE).metadata.current_snapshot_id == (after if expired else before)
