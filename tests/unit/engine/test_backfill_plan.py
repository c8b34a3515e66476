"""Rule: a backfill goes on with what was asked for first, and says what of it would not stay."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract, Retention, Upsert
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import BACKFILL, CUTOVER, Backfill, Cutover, Source
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import made_at
from tidemark.engine.access.table_state import TableState
from tidemark.engine.operate.backfill.act import _done, backfill
from tidemark.engine.operate.backfill.cutover import cutover_id, published
from tidemark.engine.operate.backfill.hold import hold
from tidemark.engine.operate.backfill.plan import Asked, Work, work_of
from tidemark.engine.table.operations import Signature

JANUARY, MARCH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
OLD = Source("table", "old.orders")
ROW = pa.schema([("id", pa.int64())])
ROWS = Backfill(
    source=str(OLD),
    since=JANUARY,
    until=MARCH,
    start={0: 0},
    end={0: 59},
    epoch=-1,
    time_column="at",
    window_seconds=86_400,
)
RECORDS = Backfill(source="own topic", since=JANUARY, until=MARCH, start={0: 0}, end={0: 9}, epoch=0)


def named(source: str = "", **_: Any) -> Source:
    return Source("table", source.removeprefix("table:")) if source else Source()


@pytest.mark.parametrize("age", [0, 400])
def test_the_tag_on_a_source_lasts_a_year_from_now_however_old_its_snapshot_is(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, age: int
) -> None:
    """Given a source that nobody has written for 400 days, then its tag is not void on the day it is made."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("old")
    table = catalog.create_table("old.orders", ROW)
    table.append(pa.table({"id": [1]}, ROW))
    now, asked = time.time() + age * 86_400 + 60, list[str]()
    monkeypatch.setattr(time, "time", lambda: now)
    lake: Any = SimpleNamespace(
        catalog=catalog, spark=lambda: SimpleNamespace(sql=asked.append), identifier=lambda name: name
    )
    plan = ROWS.model_copy(update={"snapshot": table.metadata.current_snapshot_id})
    hold(lake, Contract(topic="orders", table="shop.orders"), OLD, plan, print)
    assert [each.partition("RETAIN ")[2] for each in asked] == [f"{365 + age} DAYS"]


def going_on(lake: Lake, plan: Backfill, **asked: Any) -> Work:
    """What a repeated command would do."""
    contract, shadow = (
        lake.configuration.contract("shop.orders"),
        TableState("shop.orders_backfill", exists=True),
    )
    source = named(**asked)
    return work_of(lake, contract, lake.state("shop.orders"), source, (shadow, plan), Asked(**asked))


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"time_column": "at"},
        {"window_seconds": 86_400},
        {"source": "table:old.orders"},
        {"since": JANUARY},
    ],
)
def test_a_backfill_goes_on_with_what_is_said_again(lake: Lake, asked: Mapping[str, Any]) -> None:
    assert going_on(lake, ROWS, **asked).plan == ROWS


@pytest.mark.parametrize(
    "asked",
    [{"time_column": "seen"}, {"window_seconds": 3600}, {"source": "table:old.other"}, {"since": MARCH}],
)
def test_a_backfill_that_is_asked_for_something_else_says_what_is_under_way(
    lake: Lake, asked: Mapping[str, Any]
) -> None:
    """Given a load by one time and width, when it is repeated with another, then it is refused, and not passed over in silence."""
    with pytest.raises(Refused, match=r"under way: table:old\.orders, .* of at, in windows of 1d"):
        going_on(lake, ROWS, **asked)


def test_records_have_no_windows_to_contradict(lake: Lake) -> None:
    assert going_on(lake, RECORDS, time_column="at", window_seconds=3600).plan == RECORDS


@pytest.mark.parametrize("source", ["", "topic:orders", "topic:main/orders"])
def test_the_own_topic_is_no_other_source_though_it_is_named(lake: Lake, source: str) -> None:
    """Given a backfill of the own topic under way, when it is repeated with that as its source, then it goes on: its rows never come in beside those that the ledger counts."""
    shadow = {BACKFILL: RECORDS.model_dump_json()}
    lake.catalog.create_table("shop.orders_backfill", ROW, properties=shadow)
    asked, who = Asked(source, JANUARY, MARCH), Signature("ann", "it was so", "run-1", dry_run=True)
    told = backfill(lake, lake.configuration.contract("shop.orders"), asked, who).arguments
    assert (told["source"], told["resumes"]) == ("own topic", True)


def test_a_load_whose_records_were_replayed_since_ends_before_more_is_read(lake: Lake) -> None:
    """Given a load under way, when a replay has touched a record of it since, then the repeated command and the dry run of its cutover are refused."""
    said = {BACKFILL: RECORDS.model_copy(update={"revision": 0}).model_dump_json()}
    lake.catalog.create_table("shop.orders_backfill", ROW, properties=said)
    table, contract = lake.catalog.load_table("shop.orders"), lake.configuration.contract("shop.orders")
    first = table.metadata.current_snapshot()
    read = Ledger.from_json((first and first.summary and first.summary[LEDGER_PROPERTY]) or "", table="t")
    asked = Settlement(id="s", epoch=0, run_id="r", at=0, resolved={0: [(1, 2)]})
    more = {"kind": "replay", "revision": 1, "settlement": asked}
    receipt = read.model_copy(update=more).to_json()
    table.append(pa.table({"id": [1]}, ROW), snapshot_properties={LEDGER_PROPERTY: receipt})
    for cutover in (False, True):
        with pytest.raises(Refused, match="were replayed or rolled back") as refused:
            backfill(lake, contract, Asked(cutover=cutover), Signature("ann", "so", "run-1", dry_run=True))
        assert "--abort" in refused.value.next_step


def test_a_backfill_of_nothing_but_what_retention_deletes_is_refused(lake: Lake) -> None:
    """Given rows that the next maintenance would delete, all of them or the first, then it is refused, or said up to when; an upsert table takes them before."""
    kept, now = lake.configuration.contract("shop.orders"), datetime.now(UTC)
    contract = kept.model_copy(update={"retention": Retention(append=timedelta(days=30))})
    target, old = lake.state("shop.orders"), now - timedelta(days=31)
    asked = Asked(since=now - timedelta(days=90), until=old)
    with pytest.raises(Refused, match="are deleted by its retention") as refused:
        work_of(lake, contract, target, OLD, None, asked)
    assert refused.value.next_step.startswith("raise `retention`")
    for let_pass in (contract.model_copy(update={"upsert": Upsert(keys=("id",))}), kept):
        with pytest.raises(Exception, match="spark_down"):
            work_of(lake, let_pass, target, OLD, None, asked)
    plan = ROWS.model_copy(update={"since": old, "until": now})
    cut = (now - timedelta(days=30)).date().isoformat()
    assert Work(contract, target, OLD, plan, None).told["beyond_retention"] == f"{cut}T00:00:00+00:00"
    assert "beyond_retention" not in Work(kept, target, OLD, plan, None).told
    young = plan.model_copy(update={"since": now})
    assert "beyond_retention" not in Work(contract, target, OLD, young, None).told


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ({}, True),
        ({"source": "table:old.orders"}, True),
        ({"source": "table:old.orders", "since": JANUARY, "until": MARCH}, True),
        ({"source": "table:old.other"}, False),
        ({"since": JANUARY, "until": MARCH}, False),
        ({"source": "table:old.orders", "until": JANUARY}, False),
    ],
)
def test_a_published_cutover_is_known_again_without_its_source(
    lake: Lake, asked: Mapping[str, Any], *, same: bool
) -> None:
    """Given a cutover of rows from elsewhere, when it is repeated with as much as was said, or with less, then it is there already; another one is not."""
    contract, target = lake.configuration.contract("shop.orders"), lake.state("shop.orders")
    said = Cutover(
        at=MARCH,
        source=str(OLD),
        since=JANUARY,
        until=MARCH,
        by="ada",
        reason="it was so",
        run_id="run-1",
        batch_id="b",
        contract=contract.digest,
        rows=2,
    )
    shown = replace(target, properties={CUTOVER: said.model_dump_json()})
    source = named(**asked)
    done = _done(lake, contract, shown, source, Asked(**asked, cutover=True))
    assert (done is not None) == same


def test_a_cutover_whose_receipt_has_expired_is_believed_unless_it_was_taken_back(lake: Lake) -> None:
    """Given a cutover that died before its shadow was dropped, when its receipt has expired since, then its repetition
    and an abort know that it is published; one that somebody's hand took back is not."""
    contract, said = lake.configuration.contract("shop.orders"), {BACKFILL: RECORDS.model_dump_json()}
    shadow = lake.catalog.create_table("shop.orders_backfill", ROW, properties=said)
    batch = cutover_id(contract, str(shadow.metadata.table_uuid))
    table = lake.catalog.load_table("shop.orders")
    first = table.metadata.current_snapshot()
    assert first is not None
    text = first.summary and first.summary[LEDGER_PROPERTY]
    ledger = Ledger.from_json(text or "", table="shop.orders")
    row = pa.table({"id": [1]}, ROW)

    def publishes(batch_id: str) -> int:
        receipt = ledger.model_copy(update={"batch_id": batch_id}).to_json()
        table.append(row, snapshot_properties={LEDGER_PROPERTY: receipt})
        return table.metadata.current_snapshot_id or 0

    cutover = Cutover(
        at=made_at(first), source="own topic", since=JANUARY, until=MARCH, by="ada", reason="", run_id="r",
        batch_id=batch, contract=contract.digest, rows=2,
    )  # fmt: skip
    table.transaction().set_properties({CUTOVER: cutover.model_dump_json()}).commit_transaction()
    assert published(lake, contract, batch) is None, "history reaches back to before it"
    receipt = publishes(batch)
    assert published(lake, contract, batch) == receipt
    publishes("later")
    table.maintenance.expire_snapshots().by_ids([first.snapshot_id, receipt]).commit()
    asked, who = (
        Asked(since=JANUARY, until=MARCH, cutover=True),
        Signature("ann", "again", "run-2", dry_run=True),
    )
    told = backfill(lake, contract, asked, who).arguments
    assert (told["step"], told["resumes"], told["receipt"]) == ("cutover", True, None)
    with pytest.raises(Refused, match="is published already"):
        backfill(lake, contract, Asked(abort=True), replace(who, dry_run=False))
    table.transaction().set_properties({CUTOVER: ""}).commit_transaction()
    assert published(lake, contract, batch) is None, "rolled back"
