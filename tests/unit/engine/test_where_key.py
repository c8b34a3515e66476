"""Rule: of a key with many records the newest are told, and nothing is worked out for the others."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access.table_state import read_state
from tidemark.engine.verify.where import MOST, where_key

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _record(n: int) -> dict[str, Any]:
    at = BEGIN + timedelta(seconds=n)
    place = {"topic": "orders", "partition": 0, "offset": n, "epoch": 0, "timestamp": at}
    return {**place, "key": b"k", "schema_id": n % 2, "tombstone": False}


def _down(_contract: Contract, **_options: object) -> None:
    raise Outage("kafka_down", "-", "no Kafka here")


def test_the_newest_records_of_a_key_are_told_and_a_schema_is_asked_for_once(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    many, asked = MOST + 10, []
    found = pa.Table.from_pylist([{"_kafka": _record(n)} for n in range(many)])
    catalog.create_table("shop.orders", found.schema).append(found)

    def versions(subject: str) -> tuple[SimpleNamespace, ...]:
        asked.append(subject)
        return (SimpleNamespace(id=1, version=3),)

    lake = SimpleNamespace(
        catalog=catalog,
        state=lambda table, ledger: read_state(catalog, table, ledger=ledger),
        loaded=lambda _table: False,
        topic=_down,
        registry=lambda _cluster: SimpleNamespace(versions=versions),
    )
    told, records = where_key(lake, Contract(topic="orders", table="shop.orders"), b"k")  # type: ignore[arg-type]
    assert records == many
    assert [each.offset for each in told] == list(range(many - 1, many - MOST - 1, -1))
    assert [each.facts["schema"]["version"] for each in told[:2]] == [3, None]
    assert len(asked) == 2


def test_all_others_of_a_key_are_let_go_as_they_are_read(tmp_path: Path) -> None:
    """Given a key with 20,000 rows and as many quarantined records that were resolved, and one that waits, when it is asked for, then few of them are held at once, and a row that came from there says so."""
    batches, each = 10, 2_000
    many = batches * each
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", start={0: 0}, next={0: many + 1})
    held = {"value": b"", "cause": "undecodable", "detail": "", "run_id": "r", "batch_id": "b"}
    marked = {"quarantined_at": BEGIN, "resolved_by": "ada", "resolved_at": BEGIN}

    def quarantined(n: int) -> dict[str, Any]:
        return {**_record(n), **held, **marked}

    waits = {**quarantined(many), "resolved_by": None, "resolved_at": None}
    of_table, of_quarantine = (
        pa.Table.from_pylist([each]).schema for each in ({"_kafka": _record(0)}, quarantined(0))
    )
    table = catalog.create_table("shop.orders", of_table)
    quarantine = catalog.create_table("shop.orders_quarantine", of_quarantine)
    for begin in range(0, many, each):
        batch = range(begin, begin + each)
        rows = pa.Table.from_pylist([{"_kafka": _record(n)} for n in batch], schema=of_table)
        table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
        quarantine.append(pa.Table.from_pylist([quarantined(n) for n in batch], schema=of_quarantine))
    quarantine.append(pa.Table.from_pylist([waits], schema=of_quarantine))
    lake: Any = SimpleNamespace(
        catalog=catalog,
        state=lambda table, ledger: read_state(catalog, table, ledger=ledger),
        topic=_down,
        registry=lambda _cluster: SimpleNamespace(versions=lambda _subject: ()),
        configuration=SimpleNamespace(contracts=()),
    )
    tracemalloc.start()
    told, records = where_key(lake, Contract(topic="orders", table="shop.orders"), b"k")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12e6, f"{peak / 1e6:.0f} MB"
    assert records == many + 1
    assert [(a.offset, a.fate) for a in told[:2]] == [(many, "quarantined"), (many - 1, "published")]
    assert told[1].facts["was_quarantined"]["resolved_by"] == "ada"
