"""Rule: every committed offset is in exactly one of table, quarantine and counted tombstones."""

import struct
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from debezium import framed, register
from topics import order

from tidemark.domain.errors import Refused
from tidemark.engine.ingest import stage
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.table.operations import Signature

POISON = {
    "no_magic_byte": b"not avro at all",
    "unknown_schema_id": struct.pack(">bI", 0, 999_999) + b"\x02\x02",
}


def test_a_normal_load_accounts_for_every_offset(lakehouse):
    """Given orders, tombstones and poison on three partitions, when run, then each is in its one place, and another run makes no commit."""
    topic = lakehouse.cluster.topic("orders", 3)
    topic.send(range(1000))
    topic.send_tombstones(range(30))
    cut_short = topic.encode(order(5))[:-3]
    with_more = topic.encode(order(5)) + b"\x00"
    topic.send_raw(
        (b"k", value, n % 3) for n, value in enumerate([*POISON.values(), cut_short, with_more, b""])
    )
    table = lakehouse.table(topic, partition_by=["day(at)", "bucket(4, id)"])
    outcome = table.run()
    assert (outcome.state, outcome.error) == ("fresh", None)
    assert outcome.rows._asdict() == {
        "read": 1035,
        "written": 1000,
        "quarantined": 5,
        "tombstones": 30,
        "skipped": 0,
    }
    verdict = table.holds_everything()
    assert (verdict.rows, verdict.quarantined, verdict.tombstones) == (1000, 5, 30)
    assert table.ids() == list(range(1000))
    assert table.causes()["no_magic_byte"] >= 1
    assert table.causes()["unknown_schema_id"] == 1
    assert table.branches == set()
    before, again = table.iceberg().metadata_location, table.run()
    assert (again.state, again.commits, table.iceberg().metadata_location) == ("fresh", 0, before)


@pytest.mark.long
def test_one_poison_record_among_ten_thousand_costs_one_row(lakehouse):
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(5000))
    topic.send_raw([(b"poison", POISON["no_magic_byte"], 0)])
    topic.send(range(5000, 9999))
    table = lakehouse.table(topic)
    assert table.run().rows._asdict() == {
        "read": 10_000,
        "written": 9_999,
        "quarantined": 1,
        "tombstones": 0,
        "skipped": 0,
    }
    assert table.ids() == list(range(9999))
    assert table.holds_everything().quarantined == 1


def test_a_quarter_of_the_rows_unreadable_is_a_flood_and_publishes_nothing(lakehouse):
    topic = lakehouse.cluster.topic("orders")
    topic.send(range(60))
    table = lakehouse.table(topic)
    table.run()
    head = table.head
    topic.send(range(60, 90))
    topic.send_raw((None, b"garbage", 0) for _ in range(10))
    outcome = table.run()
    assert outcome.state == "quarantine_flood"
    assert outcome.error["causes"] == {"no_magic_byte": 10}
    assert table.head == head
    assert table.causes() == {}
    assert table.branches == set()


def test_the_stop_of_a_first_load_and_a_replay_name_the_causes_that_the_quarantine_does(lakehouse):
    """Given records of which every decimal has a digit too many, when first loaded, then the stop says so, as the rows of the accepted batch and a replay do; a run looks no second time."""
    number = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    record = {"type": "record", "name": "V", "fields": [{"name": "n", "type": number}]}
    plain = {**record, "fields": [{"name": "n", "type": "bytes"}]}
    topic = lakehouse.cluster.topic("long_decimals", 1, schema=record)
    sent = framed(register(topic, "value", record), plain, {"n": (10**38).to_bytes(17)})
    topic.send_raw([(None, sent, 0)] * 3)
    topic.send_raw([(None, sent[:-1], 0)])
    table = lakehouse.table(topic)
    stopped = table.run()
    causes = {"value_out_of_range": 3, "undecodable": 1}
    assert (stopped.state, stopped.error["causes"]) == ("misconfigured", causes)
    assert "undecodable 1, value_out_of_range 3" in stopped.error["message"]
    accept(lakehouse.lake, table.contract, "quarantine-batch", Signature("me", "known"))
    ran = table.run()
    assert (ran.state, ran.causes, table.causes()) == ("fresh", {"undecodable": 4}, causes)
    again = replay_quarantine(lakehouse.lake, table.contract, Selection(), Signature("me", "known"))
    assert (again.arguments["stays"], again.arguments["causes_changed"]) == (causes, 0)


def test_an_accepted_batch_is_the_one_that_was_held_back_and_no_record_more(lakehouse):
    """Given a flood, when it is accepted and more garbage comes, then the batch of the stop goes through and the rest stops again."""
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(60))
    table, lake, me = lakehouse.table(topic), lakehouse.lake, Signature("me", "known")
    table.run()
    with pytest.raises(Refused, match="held no batch back"):
        accept(lake, table.contract, "quarantine-batch", me)
    topic.send(range(60, 90))
    topic.send_raw((None, b"garbage", 0) for _ in range(10))
    assert table.run().state == "quarantine_flood"
    noted = accept(lake, table.contract, "quarantine-batch", me)
    assert noted.arguments["ranges"] == {"0": [30, 55], "1": [30, 45]}
    topic.send_raw((None, b"garbage", n % 2) for n in range(12))
    again = table.run()
    assert (again.state, again.error["causes"]) == ("misconfigured", {"no_magic_byte": 12})
    assert (again.rows.written, again.rows.quarantined) == (30, 10)
    assert table.causes() == {"no_magic_byte": 10}
    assert table.ids() == list(range(90))


def test_a_table_that_starts_at_the_latest_offset_pins_it_once(lakehouse):
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(40))
    table = lakehouse.table(topic, ingest={"start": "latest"})
    assert table.run().rows.read == 0
    topic.send(range(40, 60))
    assert table.run().rows.written == 20
    assert table.ids() == list(range(40, 60))
    table.holds_everything()


@pytest.mark.parametrize(
    ("begins", "start"),
    [("where a group has read to", {"0": 11, "1": 10, "2": 0}), ("at a time", {"0": 11, "1": 10, "2": 10})],
)
def test_a_first_load_begins_where_the_contract_says(lakehouse, begins, start):
    """Given records on both sides of a group's commits or of a time, when first loaded, then those behind are there, and all of a partition of which the group has committed nothing."""
    topic, then = lakehouse.cluster.topic("begun", 3), datetime(2025, 1, 2, tzinfo=UTC)
    said = then.isoformat() if begins == "at a time" else {"consumer_group": topic.name}
    table = lakehouse.table(topic, ingest={"start": said})
    topic.send_at(range(31), then - timedelta(hours=1))
    topic.send_at(range(31, 61), then)
    lakehouse.commit_group(topic.name, topic.name, {0: 11, 1: 10})
    assert table.run().state == "fresh"
    assert table.ledger["start"] == start
    assert table.ids() == [n for n in range(61) if n // 3 >= start[str(n % 3)]]
    table.holds_everything()


def test_no_load_begins_at_commits_of_a_group_that_kafka_no_longer_holds(lakehouse):
    topic = lakehouse.cluster.topic("begun_late", 1)
    table = lakehouse.table(topic, ingest={"start": {"consumer_group": "slow"}})
    topic.send(range(20))
    lakehouse.commit_group("slow", topic.name, {0: 5})
    topic.delete_records({0: 8})
    stopped = table.run()
    assert stopped.state == "misconfigured"
    assert "consumer group slow: offset 5 of partition 0 is outside" in stopped.error["message"]


@pytest.mark.parametrize(
    ("partition_by", "touched", "open_at_once"),
    [("bucket(7, id)", 7, "true"), ("truncate(2, id)", 150, "false")],
)
def test_a_batch_sorts_its_rows_only_where_they_are_of_many_partitions(
    lakehouse, monkeypatch, partition_by, touched, open_at_once
):
    """Given 300 ids, when a small batch and one that counts as large are run, then files stay open for few partitions alone."""
    told, layout = [], stage._layout
    monkeypatch.setattr(
        stage, "_layout", lambda *plan, **server: told.append(layout(*plan, **server)) or told[-1]
    )
    topic = lakehouse.cluster.topic("orders", 2)
    table = lakehouse.table(
        topic, partition_by=[partition_by], table_properties={"write.distribution-mode": "none"}
    )
    for small in (1_000, 10):
        monkeypatch.setattr(stage, "SMALL_BATCH", small)
        topic.send(range(300))
        assert table.run().rows.written == 300
        assert lakehouse.lake.state(table.name).touched_partitions == touched
    assert [each["fanout-enabled"] for each in told] == [open_at_once] * 2
    assert table.ids() == sorted([*range(300)] * 2)
    table.holds_everything()


def test_a_batch_whose_counts_were_lost_on_their_way_is_planned_again(lakehouse, monkeypatch):
    """Given a write whose counts do not arrive with its end, then the batch is staged once more, published once, and nobody calls Spark down."""
    topic = lakehouse.cluster.topic("uncounted", 1)
    topic.send(range(5))
    table, evidence = lakehouse.table(topic), stage.evidence
    lost = [1, 1]

    def arriving(observation, *rest):
        if lost and lost.pop():
            return evidence(SimpleNamespace(get={}), *rest)
        return evidence(observation, *rest)

    monkeypatch.setattr(stage, "evidence", arriving)
    commit = microbatch(lakehouse.lake, table.contract, "counted")
    assert (lost, commit.next, table.ids()) == ([], {0: 5}, list(range(5)))
    assert table.branches == set()
