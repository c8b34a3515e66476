"""Rule: what a mart must be made anew for is read from the receipts as they are written."""

from types import SimpleNamespace

import pytest
import requests
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from tidemark.domain.errors import Outage
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.lineage.corrections import UNDONE
from tidemark.domain.lineage.marts import Mart
from tidemark.engine.look.corrections import _step, standings

MERGED = {"append_table": "shop.orders", "append_uuid": "u", "append_snapshot": 1, "epoch": 0, "next": {0: 4}}


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

    mart = Mart(table="marts.customers", model="customers", unique_id="m", upstream=("shop.orders",))
    lake = SimpleNamespace(catalog=SimpleNamespace(load_table=load_table))
    with pytest.raises(Outage, match=r"marts\.customers is catalog_down"):
        standings(lake, [mart], {mart.table: mart}, [])
