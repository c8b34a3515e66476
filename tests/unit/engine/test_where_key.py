"""Rule: of a key with many records the newest are told, and nothing is worked out for the others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.engine.access.table_state import read_state
from tidemark.engine.verify.where import MOST, where_key

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_newest_records_of_a_key_are_told_and_a_schema_is_asked_for_once(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    many, asked = MOST + 10, []
    rows = [
        {
            "topic": "orders",
            "partition": 0,
            "offset": n,
            "epoch": 0,
            "timestamp": BEGIN + timedelta(seconds=n),
            "key": b"k",
            "schema_id": n % 2,
            "tombstone": False,
        }
        for n in range(many)
    ]
    found = pa.Table.from_pylist([{"_kafka": row} for row in rows])
    catalog.create_table("shop.orders", found.schema).append(found)

    def down(_contract: Contract) -> None:
        raise Outage("kafka_down", "-", "no Kafka here")

    def versions(subject: str) -> tuple[SimpleNamespace, ...]:
        asked.append(subject)
        return (SimpleNamespace(id=1, version=3),)

    lake = SimpleNamespace(
        catalog=catalog,
        state=lambda table, ledger: read_state(catalog, table, required=ledger),
        topic=down,
        registry=lambda _cluster: SimpleNamespace(versions=versions),
    )
    told = where_key(lake, Contract(topic="orders", table="shop.orders"), b"k")  # type: ignore[arg-type]
    assert [each.offset for each in told] == list(range(many - 1, many - MOST - 1, -1))
    assert [each.facts["schema"]["version"] for each in told[:2]] == [3, None]
    assert len(asked) == 2
