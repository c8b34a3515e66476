"""Rule: what a mart must be made anew for is read from the receipts as they are written."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
import requests
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from tidemark.domain.errors import Outage
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.lineage.corrections import UNDONE
from tidemark.domain.lineage.marts import Mart
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.domain.maintenance.retention import NOTED as RETENTION_NOTED
from tidemark.engine.look import corrections
from tidemark.engine.look.corrections import MADE_OF, _step, note, standings

READ = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 2}, batch_id="b")
MERGED = {"append_table": "shop.orders", "append_uuid": "u", "append_snapshot": 1, "epoch": 0, "next": {0: 4}}
MART = Mart(table="marts.customers", model="customers", unique_id="m", upstream=("shop.orders",))


def snapshot(ledger):
    summary = Summary(Operation.OVERWRITE, **{LEDGER_PROPERTY: ledger.to_json()})
    return Snapshot(snapshot_id=7, timestamp_ms=0, manifest_list="m", summary=summary)


@pytest.mark.parametrize(
    ("ledger", "undone"),
    [
        (MergeLedger(**MERGED, action="merge"), False),
        (MergeLedger(**MERGED, action="back"), True),
        (MergeLedger(**MERGED, action="rebuild"), True),
        (Ledger(cluster_id=None, topic_id=None, topic="t", next={}), False),
        (Ledger(cluster_id=None, topic_id=None, topic="t", next={}, kind="rollback"), True),
    ],
)
def test_a_receipt_says_whether_history_was_undone(ledger, undone):
    assert (_step(snapshot(ledger)).receipt in UNDONE) == undone


def test_a_catalog_that_is_down_is_named_with_the_mart_that_it_was_asked_for():
    def load_table(_table):
        raise requests.ConnectionError("refused")

    lake = SimpleNamespace(catalog=SimpleNamespace(load_table=load_table))
    with pytest.raises(Outage, match=r"marts\.customers is catalog_down"):
        standings(lake, [MART], {MART.table: MART}, [])


def test_a_chain_that_expiry_has_cut_above_what_a_mart_was_made_of_is_no_rollback(lake):
    """Given that snapshot kept for an upsert table, when expiry takes those between it and the head, then the mart is as before; not when main was taken back behind it."""
    orders = lake.catalog.load_table("shop.orders")
    (before,) = orders.metadata.snapshots
    rows = pa.table({"id": pa.array([3], pa.int64())})
    for _ in range(3):
        orders.append(rows)
    _, made_of, between, _ = (each.snapshot_id for each in orders.metadata.snapshots)
    noted = {MADE_OF: json.dumps({"shop.orders": f"{orders.metadata.table_uuid}/{made_of}"})}
    lake.catalog.create_namespace("marts")
    lake.catalog.create_table("marts.customers", rows.schema, properties=noted)

    def stale():
        return standings(lake, [MART], {MART.table: MART}, lake.configuration.contracts)[MART.table].left

    assert stale() == {}
    with orders.manage_snapshots() as manage:
        manage.create_tag(made_of, "named")
    orders.maintenance.expire_snapshots().by_id(between).commit()
    assert stale() == {}
    with orders.manage_snapshots() as manage:
        manage.set_current_snapshot(before.snapshot_id)
    assert stale() == {"shop.orders": "was rolled back"}


def test_a_mart_on_one_that_has_not_followed_has_not_either_until_both_are_made_anew(lake):
    """Given marts on marts, a view between them, when the table beneath was taken back and the upper one is built alone, then it is called stale and notes what the lower one was made of; after that one it is made anew."""
    orders = lake.catalog.load_table("shop.orders")
    uuid, (good,) = orders.metadata.table_uuid, orders.metadata.snapshots
    rows = pa.table({"id": pa.array([3], pa.int64())})
    orders.append(rows)
    bad = orders.current_snapshot().snapshot_id
    heads = {
        name: {"shop.orders": f"{uuid}/{each}/0.0"}
        for name, each in (("bad", bad), ("good", good.snapshot_id))
    }
    lake.catalog.create_namespace("marts")
    for name in ("low", "high"):
        noted = {MADE_OF: json.dumps(heads["bad"])}
        lake.catalog.create_table(f"marts.{name}", rows.schema, properties=noted)
    with orders.manage_snapshots() as manage:
        manage.set_current_snapshot(good.snapshot_id)
    upstream = {"low": "shop.orders", "view": "marts.low", "high": "marts.view", "new": "marts.high"}
    marts = {
        f"marts.{name}": Mart(table=f"marts.{name}", model=name, unique_id=name, upstream=(up,))
        for name, up in upstream.items()
    }

    def built(*names, **how):
        chosen = [marts[f"marts.{name}"] for name in names]
        found = standings(lake, chosen, marts, lake.configuration.contracts, built=True, **how)
        return [(each.anew, dict(each.left), each.heads) for each in found.values()]

    why = "was rolled back, which marts.low has not followed, which marts.view has not followed"
    for how in {}, {"full_refresh": True}:
        assert built("high", **how) == [(False, {"shop.orders": why}, heads["bad"])]
    [(_, left, noted)] = built("new")
    assert (noted, left) == (heads["bad"], {"shop.orders": f"{why}, which marts.high has not followed"})
    anew = (True, {}, heads["good"])
    assert built("low", "high", "new") == [anew, anew, (False, {}, heads["good"])]
    lake.catalog.drop_table("marts.low")
    lake.catalog.create_table("marts.low", rows.schema, properties={MADE_OF: json.dumps(heads["good"])})
    assert built("high") == [anew]


def test_a_mart_that_dbt_never_makes_anew_is_stale_until_somebody_takes_it_as_it_is(lake):
    """Given a mart with `full_refresh: false`, when what it was made of was taken back, then each build leaves it stale but the one that somebody asks for with full_refresh."""
    orders = lake.catalog.load_table("shop.orders")
    (good,) = orders.metadata.snapshots
    rows = pa.table({"id": pa.array([3], pa.int64())})
    orders.append(rows)
    noted = {"shop.orders": f"{orders.metadata.table_uuid}/{orders.current_snapshot().snapshot_id}"}
    lake.catalog.create_namespace("marts")
    lake.catalog.create_table("marts.customers", rows.schema, properties={MADE_OF: json.dumps(noted)})
    with orders.manage_snapshots() as manage:
        manage.set_current_snapshot(good.snapshot_id)
    keeps = MART.model_copy(update={"keeps": True})

    def built(**how):
        found = standings(lake, [keeps], {MART.table: keeps}, lake.configuration.contracts, built=True, **how)
        return found[MART.table]

    assert (built().anew, built().left, built().heads) == (False, {"shop.orders": "was rolled back"}, noted)
    taken = built(full_refresh=True)
    assert (taken.left, taken.heads) == (
        {},
        {"shop.orders": f"{orders.metadata.table_uuid}/{good.snapshot_id}/0.0"},
    )


def test_a_mart_that_is_built_after_a_rollback_has_expired_is_made_anew_all_the_same(lake, monkeypatch):
    """Given a mart that notes what it was made of, when that is rolled back and both have expired before its next build, then it is stale; one whose note an earlier Tidemark wrote is not known to be, nor one that saw the rollback."""

    def set_properties(_lake, table, properties):
        with lake.catalog.load_table(table).transaction() as transaction:
            transaction.set_properties(properties)

    def built():
        return standings(lake, [MART], {MART.table: MART}, lake.configuration.contracts, built=True)[
            MART.table
        ]

    monkeypatch.setattr(corrections, "set_properties", set_properties)
    orders = lake.catalog.load_table("shop.orders")
    (target,) = orders.metadata.snapshots
    rows = pa.table({"id": pa.array([3], pa.int64())})
    orders.append(rows)
    lake.catalog.create_namespace("marts")
    mart = lake.catalog.create_table("marts.customers", rows.schema)
    note(lake, MART.table, built().heads)
    noted = json.loads(mart.refresh().properties[MADE_OF])
    made_of = f"{orders.metadata.table_uuid}/{orders.metadata.current_snapshot_id}"
    assert noted == {"shop.orders": made_of, "revisions": {"shop.orders": "0.0"}}
    with orders.manage_snapshots() as manage:
        manage.set_current_snapshot(target.snapshot_id)
    for revision in (1, 1):
        after = READ.model_copy(update={"revision": revision})
        orders.append(rows, snapshot_properties={LEDGER_PROPERTY: after.to_json()})
    head = orders.metadata.current_snapshot_id
    gone = [each.snapshot_id for each in orders.metadata.snapshots if each.snapshot_id != head]
    orders.maintenance.expire_snapshots().by_ids(gone).commit()
    assert built().anew
    note(lake, MART.table, {"shop.orders": made_of})
    assert not built().anew
    note(lake, MART.table, built().heads)
    assert not built().anew


def test_a_delete_by_hand_counts_where_retention_has_deleted_too(lake):
    """Given a mart on a table, when retention deletes rows, then the mart has followed; when somebody else does, it is stale and waits for a person."""
    orders = lake.catalog.load_table("shop.orders")
    orders.append(pa.table({"id": pa.array([3, 4, 5], pa.int64())}))
    noted = {
        MADE_OF: json.dumps(
            {"shop.orders": f"{orders.metadata.table_uuid}/{orders.metadata.current_snapshot_id}"}
        )
    }
    lake.catalog.create_namespace("marts")
    lake.catalog.create_table("marts.customers", pa.schema([("id", pa.int64())]), properties=noted)

    def stands():
        found = standings(lake, [MART], {MART.table: MART}, lake.configuration.contracts, built=True)
        return found[MART.table].left, found[MART.table].anew

    head = orders.metadata.current_snapshot_id
    with orders.transaction() as change:
        cut = "2026-01-01T00:00:00+00:00"
        change.set_properties({EXPIRED_BEFORE: cut, RETENTION_NOTED: json.dumps([[head, ""]])})
    orders.delete("id == 3")
    assert stands() == ({}, False)
    orders.append(
        pa.table({"id": pa.array([6], pa.int64())}), snapshot_properties={LEDGER_PROPERTY: READ.to_json()}
    )
    with orders.transaction() as change:
        head = orders.metadata.current_snapshot_id
        noted = [*json.loads(orders.properties[RETENTION_NOTED]), [head, cut]]
        change.set_properties({RETENTION_NOTED: json.dumps(noted)})
    orders.delete("id == 4")
    assert stands() == ({}, False)
    orders.delete("id == 5")
    assert stands() == ({"shop.orders": "had rows replaced or deleted"}, False)


def test_what_a_mart_was_made_of_is_known_after_its_table_was_renamed(lake):
    """Given a mart on a table that is renamed and then rolled back, when the mart is looked at or built, then it is stale as under the old name."""
    orders = lake.catalog.load_table("shop.orders")
    (good,) = orders.metadata.snapshots
    rows = pa.table({"id": pa.array([3], pa.int64())})
    orders.append(rows)
    head = f"{orders.metadata.table_uuid}/{orders.current_snapshot().snapshot_id}"
    lake.catalog.create_namespace("marts")
    noted = {MADE_OF: json.dumps({"shop.before": head})}
    lake.catalog.create_table("marts.customers", rows.schema, properties=noted)

    def stands(**how):
        return standings(lake, [MART], {MART.table: MART}, lake.configuration.contracts, **how)[MART.table]

    assert (stands().left, stands().heads) == ({}, {"shop.orders": head})
    with orders.manage_snapshots() as manage:
        manage.set_current_snapshot(good.snapshot_id)
    assert stands().left == {"shop.orders": "was rolled back"}
    assert stands(built=True).anew
