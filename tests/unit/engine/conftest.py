"""A lake whose catalog is a file, for what needs no service."""

from pathlib import Path

import pyarrow as pa
import pytest
from unserved import ORDERS, lake_in

from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access import kafka
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import OWNED

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
READ = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 2}, batch_id="b")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table shop.orders that was loaded from topic orders of cluster c; no service runs."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)
    made = lake_in(tmp_path, ORDERS)
    table = made.catalog.create_table("shop.orders", ROWS.schema, properties={OWNED: "orders"})
    table.append(ROWS, snapshot_properties={LEDGER_PROPERTY: READ.to_json()})
    return made
