"""What the review pack is collected from, with a catalog in a file."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.engine.table.operations import _SCHEMA, log_table
from tidemark.review.collect import _operations


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
