"""Rule: rows that the last receipt sent to quarantine are there, or the next batch says that they are gone; it stops while they can be brought back."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.engine.ingest.quarantine_repair import repair
from tidemark.engine.table.folder import give_up


@pytest.fixture
def plan(lake):
    """The last batch read offsets 0 to 5 of two partitions; Kafka has all of the other one."""

    def planned(quarantined, log_start=0, other=0, **more):
        ledger = Ledger(
            cluster_id="c",
            topic_id="t",
            topic="orders",
            from_={0: 0, 1: 0},
            next={0: 5, 1: 5},
            counts={0: Counts(5, 5 - quarantined, quarantined), 1: Counts(5, 5 - other, other)},
            **more,
        )
        topic = Topic("orders", "c", "t", {0: log_start, 1: 0}, {0: 9, 1: 9}, {0: 9, 1: 9})
        contract = Contract(topic="orders", table="shop.orders")
        return SimpleNamespace(contract=contract, ledger=ledger, topic=topic, state=lake.state("shop.orders"))

    return planned


def test_a_quarantine_table_that_was_dropped_is_noticed_like_one_that_was_emptied(lake, plan):
    repair(lake, plan(quarantined=0))
    with pytest.raises(Stopped) as raised:
        repair(lake, plan(quarantined=2))
    assert "holds 0 of 2 rows" in str(raised.value)


def test_rows_that_kafka_has_no_more_stop_nothing_for_they_cannot_come_back(lake, plan, caplog):
    """Given rows that somebody has deleted, when Kafka has some of their batch yet, then the next one stops; when it has none, it says so and goes on."""
    with pytest.raises(Stopped, match=r"tidemark replay shop\.orders --partition 0 --from 4 --to 5 --reason"):
        repair(lake, plan(quarantined=2, log_start=4))
    repair(lake, plan(quarantined=2, log_start=5))
    assert "holds 0 of 2 rows" in caplog.text
    assert "lost" in caplog.text


def test_the_stop_names_the_offsets_and_a_replay_of_each_partition(lake, plan):
    with pytest.raises(Stopped) as raised:
        repair(lake, plan(quarantined=2, other=1))
    assert "(partition 0: offsets 0 to 4; partition 1: offsets 0 to 4)" in raised.value.message
    assert raised.value.next_step == "; ".join(
        f"tidemark replay shop.orders --partition {p} --from 0 --to 5 --reason …" for p in (0, 1)
    )


@pytest.mark.parametrize("log_start", [0, 5])
def test_rows_that_a_rollback_took_out_of_the_quarantine_meanwhile_are_not_missed(
    lake, plan, caplog, log_start
):
    """Given a batch that was planned before a rollback, when that has moved main and taken its rows out of the quarantine, then the batch is planned again."""
    planned = plan(quarantined=2, log_start=log_start)
    lake.catalog.load_table("shop.orders").append(pa.table({"id": pa.array([3], pa.int64())}))
    with pytest.raises(Overtaken):
        repair(lake, planned)
    assert "lost" not in caplog.text


GONE = "Its quarantine shop.orders_quarantine is gone, with 3 records that no other place has."


@pytest.mark.parametrize("kind", ["append", "replay"])
@pytest.mark.parametrize("there", [False, True])
def test_a_quarantine_table_that_is_gone_is_missed_whatever_came_last(lake, plan, there, kind):
    """Given records that wait, says the ledger, when their table is gone, or an empty one without a snapshot stands in its place, then the next batch stops, and names what to read again."""
    if there:
        lake.catalog.create_table("shop.orders_quarantine", pa.schema([("offset", pa.int64())]))
    waits = {0: Counts(5, 3, 2), 1: Counts(5, 4, 1)}
    with pytest.raises(Stopped) as raised:
        repair(lake, plan(quarantined=0, log_start=4, totals=waits, kind=kind))
    assert (raised.value.state, GONE in raised.value.message) == ("failed", True)
    assert raised.value.next_step == (
        "rename it back where somebody has renamed it; where it was dropped: "
        "tidemark replay shop.orders --partition 0 --from 4 --to 5 --reason …; "
        "tidemark replay shop.orders --partition 1 --from 0 --to 5 --reason …"
    )


def test_a_quarantine_table_is_not_missed_where_nothing_waits_or_it_is_there(lake, plan):
    repair(lake, plan(quarantined=0, totals={0: Counts(5, 5), 1: Counts(5, 4, 0, 1)}))
    fields = (("epoch", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64()))
    rows = pa.schema([*fields, *((name, pa.string()) for name in ("batch_id", "run_id", "resolved_at"))])
    lake.catalog.create_table("shop.orders_quarantine", rows).append(rows.empty_table())
    repair(lake, plan(quarantined=0, totals={0: Counts(5, 3, 2)}))


def test_a_quarantine_that_a_rename_has_moved_is_not_made_anew(lake, plan):
    """Given a rename that died behind its first half, when a batch of the old name comes, then it waits for the rename and not for a replay."""
    moved = lake.catalog.create_table("shop.orders_quarantine", pa.schema([("offset", pa.int64())]))
    give_up(lake.catalog, "shop.orders_quarantine", "shop.bought_quarantine")
    lake.catalog.rename_table(moved.name(), "shop.bought_quarantine")
    with pytest.raises(Stopped, match="A rename of it is half done") as raised:
        repair(lake, plan(quarantined=0, totals={0: Counts(5, 3, 2)}))
    assert raised.value.state == "schema_review"


def test_a_quarantine_table_that_is_gone_since_a_rollback_is_looked_at_again(lake, plan):
    planned = plan(quarantined=0, totals={0: Counts(5, 3, 2)})
    lake.catalog.load_table("shop.orders").append(pa.table({"id": pa.array([3], pa.int64())}))
    with pytest.raises(Overtaken):
        repair(lake, planned)
