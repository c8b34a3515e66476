"""What the review pack is collected from, with a catalog in a file."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.ledger.backfill import CUTOVER
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.table.branch import main_at, ref_at
from tidemark.engine.table.operations import _SCHEMA, log_table
from tidemark.review.collect import _operations
from tidemark.review.receipts import cutover_of


def test_what_people_did_to_either_table_is_collected_newest_first(tmp_path):
    """Given acts on a table, on its upsert table and on another one, then those of the first two are there."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    lake = SimpleNamespace(catalog=catalog, platform=SimpleNamespace(default_namespace="lake"))
    tables = ["shop.orders", "shop.orders_current"]
    assert _operations(lake, tables) == []
    catalog.create_namespace("lake")
    log = catalog.create_table(log_table(lake), _SCHEMA)
    done = [
        {
            "table": table,
            "verb": "pause",
            "by": "ada",
            "at": datetime(2026, 1, day, tzinfo=UTC),
            "arguments": "{}",
        }
        for day, table in enumerate([*tables, "shop.other"], 1)
    ]
    log.append(pa.Table.from_pylist(done, schema=log.schema().as_arrow()))
    assert [each["table"] for each in _operations(lake, tables)] == tables[::-1]
    assert [each["table"] for each in _operations(lake, tables[:1])] == tables[:1]


def test_a_cutover_is_told_until_it_is_rolled_back(tmp_path):
    """Given a backfill that was published, when main is taken back behind it, then it is not told any more; where its receipt has expired, nobody knows of that but by the rollback, and it is."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    rows, said = pa.table({"id": [1]}), {"batch_id": "b-cut", "rows": 1}
    table = catalog.create_table("shop.orders", rows.schema, properties={CUTOVER: json.dumps(said)})
    for batch in ("b-1", "b-cut", "b-2"):
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 1}, batch_id=batch)
        table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    first, cut, last = (each.snapshot_id for each in table.metadata.snapshots)
    assert cutover_of(table.metadata, "shop.orders") == said
    commit(table, requirements=main_at(table, last), updates=(ref_at("main", "branch", first),))
    table.refresh()
    assert cutover_of(table.metadata, "shop.orders") is None
    table.maintenance.expire_snapshots().by_id(last).by_id(cut).commit()
    assert cutover_of(table.refresh().metadata, "shop.orders") == said
    with table.transaction() as rollback:
        rollback.set_properties({CUTOVER: ""})
    assert cutover_of(table.metadata, "shop.orders") is None
