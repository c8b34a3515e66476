"""Rule: a record that a replay of the quarantine has counted as skipped is not told to be lost."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Counts, Entry, Ledger
from tidemark.domain.ledger.replay import Recount, replayed
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.access.table_state import read_state
from tidemark.engine.verify import fates, where
from tidemark.engine.verify.peek import Peek

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = {
    "topic": "orders",
    "partition": 0,
    "offset": 0,
    "epoch": 0,
    "timestamp": BEGIN,
    "key": b"k",
    "schema_id": 1,
}
READ = Ledger(
    cluster_id="c",
    topic_id="t",
    topic="orders",
    start={0: 0},
    from_={0: 0},
    next={0: 2},
    counts={0: Counts(2, 1, quarantined=1)},
    totals={0: Counts(2, 1, quarantined=1)},
)


@pytest.mark.parametrize(
    ("by", "after", "fate", "kind"),
    [
        ("replayer", Counts(1, skipped=1), "skipped", "replay"),
        ("replayer", Counts(1, 1), "deleted", "replay"),
        ("ada", Counts(1, skipped=1), "deleted", "append"),
    ],
)
def test_the_receipt_that_resolved_a_quarantined_record_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, after: Counts, fate: str, kind: str
) -> None:
    """Given a record that was quarantined and makes no row, when the replay that resolved it counted it as skipped,
    then it is; when that counted a row, or somebody else resolved it, then it is lost."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    settlement = Settlement(
        id="s", epoch=0, run_id="replayer", at=int(BEGIN.timestamp()) * 1_000_000, resolved={0: [(1, 2)]}
    )
    before, entry = {0: Counts(1, quarantined=1)}, Entry("b", "a", "replayer", "digest", "0.1.0")
    replay = replayed(READ, Recount(before, {0: after}, {0: [(1, 2)]}), settlement, entry)
    row = pa.Table.from_pylist([{"_kafka": {**RECORD, "tombstone": False}}])
    table = catalog.create_table("shop.orders", row.schema)
    table.append(row, snapshot_properties={LEDGER_PROPERTY: READ.to_json()})
    table.append(row.slice(1), snapshot_properties={LEDGER_PROPERTY: replay.to_json()})
    held = {"value": b"", "cause": "schema_not_allowed", "detail": "", "run_id": "r", "batch_id": "b"}
    marked = {"quarantined_at": BEGIN, "resolved_by": by, "resolved_at": BEGIN}
    resolved = pa.Table.from_pylist([{**RECORD, **held, **marked, "offset": 1}])
    catalog.create_table("shop.orders_quarantine", resolved.schema).append(resolved)
    monkeypatch.setattr(fates, "peek", lambda *_: Peek("record", b"k", b"v", 0))
    lake: Any = SimpleNamespace(
        catalog=catalog,
        state=lambda table, ledger: read_state(catalog, table, ledger=ledger),
        topic=lambda _contract, **_: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}),
        platform=SimpleNamespace(kafka={"default": None}),
    )
    [told] = where.where_offset(lake, Contract(topic="orders", table="shop.orders", cluster="default"), 0, 1)
    assert (told.fate, told.facts["kind"], told.lost) == (fate, kind, fate == "deleted")
