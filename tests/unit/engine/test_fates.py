"""Rule: of a record without a row Kafka's own is shown where there is one, and a row that was deleted is never
taken for a record that never made one."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Counts, Ledger
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE, NOTED
from tidemark.engine.access.table_state import read_state
from tidemark.engine.verify import fates
from tidemark.engine.verify.fates import SHOWN, _text
from tidemark.engine.verify.peek import Peek
from tidemark.engine.verify.where import where_offset

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MICROS = int(NOW.timestamp()) * 1_000_000


@pytest.mark.parametrize("seen", ["record", "tombstone", "gone", "hole", "aborted", "unanswered"])
def test_time_and_key_are_told_of_a_committed_record_and_of_nothing_else(
    seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an offset that was read and left no row, when Kafka has a record or a tombstone there, then its
    key may tell why."""
    monkeypatch.setattr(fates, "peek", lambda *_: Peek(seen, b"k1", None, 0))
    monkeypatch.setattr(fates, "_publisher", lambda *_: None)
    monkeypatch.setattr(fates, "others_since", lambda *_: [])
    lake: Any = SimpleNamespace(platform=SimpleNamespace(kafka={"main": None}))
    table: Any = SimpleNamespace(
        contract=SimpleNamespace(cluster="main"),
        ledger=None,
        metadata=None,
        topic=None,
        state=SimpleNamespace(head=1, properties={}),
    )
    found = fates.silent(lake, table, fates.Answer("s.t", "t", 0, 5, "not_yet"), [], 0)
    shown = {"timestamp": "1970-01-01T00:00:00+00:00", "key": "k1"}
    assert found.facts.get("record") == (shown if seen in {"record", "tombstone"} else None)


def batch(folder: Path, rows: list[tuple[int, datetime]], counts: Counts) -> tuple[Any, Any]:
    """The table `shop.orders` with these rows (offset and time), its receipt counting them, and a lake that has it."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    told = {"topic": "orders", "partition": 0, "epoch": 0, "key": b"k", "schema_id": 1, "tombstone": False}
    data = pa.Table.from_pylist([{"_kafka": {**told, "offset": o, "timestamp": at}} for o, at in rows])
    whole = {"from_": {0: 0}, "next": {0: counts.read}, "counts": {0: counts}, "totals": {0: counts}}
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", start={0: 0}, max_timestamp=NOW, **whole)
    table = catalog.create_table("shop.orders", data.schema)
    table.append(data, snapshot_properties={"tidemark.batch": "b/a"})
    table.append(data.slice(len(rows)), snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    end = {0: counts.read}
    lake = SimpleNamespace(
        catalog=catalog,
        state=lambda table, ledger: read_state(catalog, table, ledger=ledger),
        topic=lambda _contract, **_: Topic("orders", "c", "t", {0: 0}, end, end),
        platform=SimpleNamespace(kafka={"default": None}),
    )
    return lake, table


ORDERS = Contract(topic="orders", table="shop.orders", cluster="default")


@pytest.mark.parametrize(
    ("envelope", "counts", "deleted", "fate"),
    [
        ("none", Counts(3, 3), True, "deleted"),
        ("none", Counts(3, 2, tombstones=1), True, "tombstone"),
        ("debezium", Counts(3, 2, tombstones=1), True, "unknown"),
        ("debezium", Counts(3, 2, tombstones=1), False, "tombstone"),
    ],
)
def test_a_tombstone_that_was_a_row_is_told_as_deleted_not_as_counted(
    envelope: str,
    counts: Counts,
    deleted: bool,
    fate: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a tombstone without a row, when its batch counted none, then somebody deleted its row, and the commit is
    named; when it counted one and rows were deleted since, then it may be either where a batch has both kinds."""
    rows = [(0, NOW), (2, NOW)] if not deleted else [(0, NOW), (1, NOW), (2, NOW)]
    lake, table = batch(tmp_path, rows, counts)
    if deleted:
        table.delete("_kafka.offset = 1")
    monkeypatch.setattr(fates, "peek", lambda *_: Peek("tombstone", b"k", None, MICROS))
    contract = ORDERS.model_copy(update={"value": ORDERS.value.model_copy(update={"envelope": envelope})})
    [told] = where_offset(lake, contract, 0, 1)
    lost = fate != "tombstone"
    assert (told.fate, told.lost) == (fate, lost)
    assert ("tombstones" in told.why) == (fate == "unknown")
    named = told.facts.get("foreign_commits", [])
    assert [each["rows_removed"] for each in named] == ([3] if lost else [])


@pytest.mark.parametrize(
    ("at", "by_hand", "fate", "lost", "commits"),
    [
        (NOW, False, "skipped", False, 0),
        (NOW, True, "unknown", True, 2),
        (NOW - timedelta(days=40), False, "unknown", False, 0),
    ],
)
def test_retentions_own_delete_puts_no_younger_record_in_doubt(
    at: datetime,
    by_hand: bool,
    fate: str,
    lost: bool,
    commits: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a batch that skipped a record, when retention has deleted older rows since, then the record was skipped;
    when somebody else deleted rows too, it may have been one of them, whosever delete is which; an older one may be one of retention's."""
    old, cut = NOW - timedelta(days=40), NOW - timedelta(days=30)
    lake, table = batch(tmp_path, [(0, old), (2, NOW), (3, NOW)], Counts(4, 3, skipped=1))
    noted = {EXPIRED_BEFORE: cut.isoformat(), NOTED: json.dumps([[table.metadata.current_snapshot_id, ""]])}
    table.delete("_kafka.offset = 0")
    if by_hand:
        table.delete("_kafka.offset = 3")
    with table.transaction() as change:
        change.set_properties(noted)
    monkeypatch.setattr(fates, "peek", lambda *_: Peek("record", b"k", b"v", int(at.timestamp()) * 1_000_000))
    [told] = where_offset(lake, ORDERS, 0, 1)
    assert (told.fate, told.lost) == (fate, lost)
    assert len(told.facts.get("foreign_commits", [])) == commits


def test_long_text_is_shown_as_text_wherever_it_is_cut() -> None:
    """Given text of two-byte letters, when one of them straddles the cut, then what is before it is shown; bytes that are no text, also a letter that its own end cuts, are shown as such."""
    for before in ("", "a"):
        text = before + "é" * SHOWN
        assert text.startswith(_text(text.encode()) or "-")
    assert _text("aé".encode()[:-1]) == "0x61c3"
    assert (_text(b"\xff" * 3), _text(b""), _text(None)) == ("0xffffff", "", None)
