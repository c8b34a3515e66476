"""Rule: rows that the last receipt sent to quarantine are there, or the next batch says that they are gone."""

from types import SimpleNamespace

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.engine.ingest.quarantine_repair import repair


def plan(quarantined):
    ledger = Ledger(
        cluster_id="c",
        topic_id="t",
        topic="orders",
        from_={0: 0},
        next={0: 5},
        counts={0: Counts(5, 5 - quarantined, quarantined)},
    )
    return SimpleNamespace(contract=Contract(topic="orders", table="shop.orders"), ledger=ledger, state=None)


def test_a_quarantine_table_that_was_dropped_is_noticed_like_one_that_was_emptied(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    lake = SimpleNamespace(catalog=catalog)
    repair(lake, plan(quarantined=0))
    with pytest.raises(Stopped) as raised:
        repair(lake, plan(quarantined=2))
    assert "holds 0 of 2 rows" in str(raised.value)
