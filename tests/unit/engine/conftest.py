"""A lake whose catalog is a file, for what needs no service."""

from pathlib import Path

import pyarrow as pa
import pytest

from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access import kafka
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import OWNED
from tidemark.engine.config.configuration import load

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
READ = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 2}, batch_id="b")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table shop.orders that was loaded from topic orders of cluster c; no service runs."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "orders.yaml").write_text(
        "topic: orders\ntable: shop.orders\nvalue: {format: json, fields: {id: bigint}}\n"
    )
    platform = tmp_path / "platform.yaml"
    platform.write_text(
        "kafka: {main: {bootstrap.servers: '127.0.0.1:1'}}\nspark: {remote: 'sc://127.0.0.1:1'}\n"
        f"catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/c.db', warehouse: 'file://{tmp_path}'}}\n"
    )
    made = Lake(load(platform, tmp_path / "contracts", environ={}, home=tmp_path))
    made.catalog.create_namespace("shop")
    table = made.catalog.create_table("shop.orders", ROWS.schema, properties={OWNED: "orders"})
    table.append(ROWS, snapshot_properties={LEDGER_PROPERTY: READ.to_json()})
    return made
