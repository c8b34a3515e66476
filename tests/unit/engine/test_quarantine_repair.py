"""Rule: rows that the last receipt sent to quarantine are there, or the next batch says that they are gone; it stops while they can be brought back."""

from types import SimpleNamespace

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.engine.ingest.quarantine_repair import repair


def plan(quarantined, log_start=0):
    """The last batch read offsets 0 to 5 of two partitions; Kafka has all of the other one."""
    ledger = Ledger(
        cluster_id="c",
        topic_id="t",
        topic="orders",
        from_={0: 0, 1: 0},
        next={0: 5, 1: 5},
        counts={0: Counts(5, 5 - quarantined, quarantined), 1: Counts(5, 5)},
    )
    topic = Topic("orders", "c", "t", {0: log_start, 1: 0}, {0: 9, 1: 9}, {0: 9, 1: 9})
    contract = Contract(topic="orders", table="shop.orders")
    return SimpleNamespace(contract=contract, ledger=ledger, topic=topic, state=None)


@pytest.fixture
def lake(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    return SimpleNamespace(catalog=catalog)


def test_a_quarantine_table_that_was_dropped_is_noticed_like_one_that_was_emptied(lake):
    repair(lake, plan(quarantined=0))
    with pytest.raises(Stopped) as raised:
        repair(lake, plan(quarantined=2))
    assert "holds 0 of 2 rows" in str(raised.value)


def test_rows_that_kafka_has_no_more_stop_nothing_for_they_cannot_come_back(lake, caplog):
    """Given rows that somebody has deleted, when Kafka has some of their batch yet, then the next one stops; when it has none, it says so and goes on."""
    with pytest.raises(Stopped, match=r"tidemark replay shop\.orders"):
        repair(lake, plan(quarantined=2, log_start=4))
    repair(lake, plan(quarantined=2, log_start=5))
    assert "holds 0 of 2 rows" in caplog.text
    assert "lost" in caplog.text
