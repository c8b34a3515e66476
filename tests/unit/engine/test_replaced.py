"""Rule: a table in the place of one that was loaded has lost its ledger: it is not loaded before somebody accepts that."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from unserved import ORDERS, lake_in

from tidemark.domain.columns.types import LONG, STRING, Field, Struct, table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.engine.access.iceberg_types import iceberg_fields
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.table_state import OWNED, PAUSED, UPSERT_OF
from tidemark.engine.ingest import plan as planning
from tidemark.engine.ingest.plan import Limits, make_plan
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.look.upserts import upsert_statuses
from tidemark.engine.merge.pair import read_pair
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.accept_upsert import accept_upsert
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.table.branch import ref_at
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.where import where_offset

ANN = Signature("ann", "it was so", "run-1")
COLUMNS = Schema(
    *iceberg_fields(table_columns(Struct((Field("id", LONG), Field("_extra", STRING)))).fields, count(1))
)
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
READ = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 2})
MERGED = MergeLedger(append_table="shop.orders", append_uuid="u", append_snapshot=1, next={0: 2})


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Topic orders with two records, and its two tables as runs have left them; no service runs."""
    made = lake_in(tmp_path, f"{ORDERS}upsert: {{keys: [id]}}\n")
    monkeypatch.setattr(made, "topic", lambda _, **__: Topic("orders", "c", "t", {0: 0}, {0: 2}, {0: 2}))
    _load(made, "shop.orders", READ, {})
    _load(made, "shop.orders_current", MERGED, {UPSERT_OF: "shop.orders"})
    return made


@pytest.fixture
def contract(lake: Lake) -> Contract:
    return lake.configuration.contract("shop.orders")


def _load(lake: Lake, table: str, ledger: Any, says: dict[str, str]) -> None:
    made = lake.catalog.create_table(table, ROWS.schema, properties={OWNED: "orders", **says})
    made.append(ROWS, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    commit(made, (), (ref_at(LEDGER_TAG, "tag", made.current_snapshot().snapshot_id),))


def _replace(lake: Lake, table: str) -> None:
    """As CREATE OR REPLACE TABLE without rows does: main is gone, snapshots, properties and tags stay."""
    commit(lake.catalog.load_table(table), (), (RemoveSnapshotRefUpdate(ref_name="main"),))


def _stops(lake: Lake, contract: Contract, *, loaded_before: bool) -> str:
    with pytest.raises(Stopped) as stopped:
        make_plan(lake, contract, "run-1", Limits(loaded_before=loaded_before))
    return stopped.value.state


def test_a_table_replaced_by_an_empty_one_is_loaded_once_that_is_accepted(
    lake: Lake, contract: Contract
) -> None:
    """Given a loaded table that was replaced, when it is run, then its tag tells that it was loaded; accepted, it begins anew."""
    had = lake.state("shop.orders").receipt
    never_published = {LEDGER_PROPERTY: READ.model_copy(update={"next": {0: 9}}).to_json()}
    lake.catalog.load_table("shop.orders").append(ROWS, snapshot_properties=never_published, branch="attempt")
    _replace(lake, "shop.orders")
    assert _stops(lake, contract, loaded_before=False) == "ledger_missing"
    call = rf"CALL lake\.system\.set_current_snapshot\('lake\.shop\.orders', {had}\)"
    with pytest.raises(Stopped, match=call) as stopped:
        lake.state("shop.orders")
    assert "empty it first" in stopped.value.next_step
    told = accept(lake, contract, "first-load", ANN)
    assert (told.arguments["rows_beside"], told.arguments["start"]) == (0, {0: 0})
    state = lake.state("shop.orders")
    assert state.ledger is not None
    assert (state.ledger.kind, state.ledger.next, state.rows) == ("first", {0: 0}, 0)
    assert state.tagged == state.receipt


@pytest.mark.parametrize("properties", [{OWNED: "orders"}, {}], ids=["all of its DDL", "columns alone"])
def test_a_table_made_by_hand_in_the_place_of_one_is_loaded_once_that_is_accepted(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    """Given a table that runs have loaded and that somebody has dropped and made again, when it is run or planned or a record is looked for, then Dagster's records tell; where they know of no load it is a first one."""
    lake.catalog.drop_table("shop.orders")
    lake.catalog.create_table("shop.orders", COLUMNS, properties=properties)

    def down(*_: Any) -> None:
        raise Outage("spark_down", "shop.orders", "this far")

    monkeypatch.setattr(planning, "make_ready", down)
    with pytest.raises(Outage, match="this far"):
        make_plan(lake, contract, "run-1", Limits())
    assert _stops(lake, contract, loaded_before=True) == "ledger_missing"
    assert foresee(lake, contract).verdict in {"apply", "nothing"}
    assert [each.fate for each in where_offset(lake, contract, 0, 1)] == ["not_yet"]
    monkeypatch.setattr(lake, "loaded", lambda _: True)
    with pytest.raises(Stopped, match="made in its place"):
        where_offset(lake, contract, 0, 1)
    with pytest.raises(Stopped) as stopped:
        foresee(lake, contract)
    assert (stopped.value.state, "empty it first" in stopped.value.next_step) == ("ledger_missing", True)
    accept(lake, contract, "first-load", ANN)
    assert foresee(lake, contract).verdict in {"apply", "nothing"}
    with pytest.raises(Outage, match="this far"):
        make_plan(lake, contract, "run-1", Limits(loaded_before=True))


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_table_made_by_hand_that_lacks_columns_is_not_accepted(
    lake: Lake, contract: Contract, rows: int, *, dry_run: bool
) -> None:
    """Given a table of ids alone in the place of one, when its first load is accepted, then that is refused as the next run would, and nothing is written."""
    lake.catalog.drop_table("shop.orders")
    lake.catalog.create_table("shop.orders", ROWS.schema).append(ROWS.slice(0, rows))
    before = lake.state("shop.orders", ledger=False)
    with pytest.raises(Stopped, match="_kafka: missing") as stopped:
        accept(lake, contract, "first-load", replace(ANN, dry_run=dry_run))
    assert stopped.value.state == "table_incompatible"
    assert lake.state("shop.orders", ledger=False) == before


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("says", [{UPSERT_OF: "shop.log"}, {}], ids=["by its properties", "by its ledger"])
def test_an_upsert_table_is_never_loaded_from_a_topic(
    lake: Lake, contract: Contract, monkeypatch: pytest.MonkeyPatch, says: dict[str, str], *, known: bool
) -> None:
    """Given a contract that names what was its upsert table, when it is run, planned or its first load accepted, then it stops and says whose it is, for each row would be there twice; nothing is written."""
    lake.catalog.drop_table("shop.orders")
    _load(lake, "shop.orders", MERGED.model_copy(update={"append_table": "shop.log"}), says)
    before = lake.state("shop.orders")
    monkeypatch.setattr(lake, "loaded", lambda _: known)
    for act in (
        lambda: make_plan(lake, contract, "run-1", Limits(loaded_before=known)),
        lambda: foresee(lake, contract),
        lambda: accept(lake, contract, "first-load", ANN),
        lambda: accept(lake, contract, "first-load", replace(ANN, dry_run=True)),
    ):
        with pytest.raises(Stopped, match=r"upsert table of shop\.log") as stopped:
            act()
        assert stopped.value.state == "table_incompatible"
    assert lake.state("shop.orders") == before


def test_an_upsert_table_replaced_by_an_empty_one_is_made_anew_once_that_is_accepted(lake: Lake) -> None:
    """Given an upsert table that was replaced, when merged, then it stops as one without its snapshots; accepted, the next merge makes it anew."""
    current = upsert_tables(lake.configuration.contracts)["shop.orders_current"]
    _replace(lake, "shop.orders_current")
    with pytest.raises(Stopped) as stopped:
        read_pair(lake, current)
    assert (stopped.value.state, stopped.value.table) == ("ledger_missing", "shop.orders_current")
    assert "; an upsert table is made anew" in stopped.value.next_step, (
        "no Kafka has what its rows tell of keys"
    )
    accept_upsert(lake, current, "first-load", ANN)
    merged = read_pair(lake, current).state.merged
    assert merged is not None
    assert merged.anew


def _says(lake: Lake, table: str, properties: dict[str, str]) -> None:
    with lake.catalog.load_table(table).transaction() as transaction:
        transaction.set_properties(properties)


@pytest.mark.parametrize(
    ("loss", "state"),
    [("dropped", "table_missing"), ("emptied", "ledger_missing"), ("made by hand", "ledger_missing")],
)
def test_an_upsert_table_is_not_fresh_where_its_append_table_is_lost(
    lake: Lake, loss: str, state: str
) -> None:
    """Given merged rows, when the append table is dropped or replaced, then status, sensor and merge say so of it, but for a paused table."""
    current = upsert_tables(lake.configuration.contracts)["shop.orders_current"]
    if loss == "emptied":
        _replace(lake, "shop.orders")
    else:
        lake.catalog.drop_table("shop.orders")
    if loss == "made by hand":
        lake.catalog.create_table("shop.orders", ROWS.schema).append(ROWS)
    with pytest.raises(Stopped) as stopped:
        read_pair(lake, current)
    assert (stopped.value.state, stopped.value.table) == (state, "shop.orders")
    [status] = upsert_statuses(lake, [current])
    merged = catch_up_merges(lake, current, "run-1")
    assert (status.state, merged.state) == (state, state)
    _says(lake, "shop.orders_current", {PAUSED: "{}"})
    assert read_pair(lake, current).append is None
    assert upsert_statuses(lake, [current])[0].state == "paused"


def test_an_append_table_that_is_yet_to_be_loaded_renamed_or_adopted_is_not_lost(lake: Lake) -> None:
    """Given an append table that was made anew and has no receipt yet, or that lies under the name it had when it was merged, when the upsert table is looked at, then it stands as the append table does."""
    current = upsert_tables(lake.configuration.contracts)["shop.orders_current"]
    lake.catalog.drop_table("shop.orders")
    lake.catalog.create_table("shop.orders", COLUMNS, properties={OWNED: "orders"})
    assert read_pair(lake, current).append is None
    lake.catalog.drop_table("shop.orders")
    _says(lake, "shop.orders_current", {UPSERT_OF: "shop.log"})
    assert read_pair(lake, current).append is None
    lake.catalog.create_table("shop.orders", ROWS.schema).append(ROWS)
    assert read_pair(lake, current).append is None

    def look(found: list[Contract]) -> Any:
        return [SimpleNamespace(table=each.table, state="schema_review", remedy="") for each in found]

    [status] = upsert_statuses(lake, [current], look=look)
    assert status.state == "schema_review"
