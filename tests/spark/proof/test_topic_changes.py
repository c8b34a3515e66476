"""Rule: a topic that goes on is read on; a topic that does not is a named stop with one remedy that works."""

from datetime import UTC, datetime, timedelta

import oracle
import pytest
from append_log import AppendLog
from dying import dying_at
from waiting import until

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, Field, Struct
from tidemark.domain.errors import Refused, Stopped
from tidemark.engine.look.headroom import headrooms
from tidemark.engine.look.tables import look
from tidemark.engine.operate.accept import Signature, accept
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.operate.replay import replay
from tidemark.engine.operate.replay_quarantine import Selection
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_offset

ONCALL = Signature("oncall", "seen and agreed")
LOOKS = Signature("oncall", "looks", dry_run=True)


def test_new_partitions_are_read_from_their_first_record(lakehouse):
    topic = lakehouse.cluster.topic("orders", 3)
    topic.send(range(300))
    table = lakehouse.table(topic)
    table.run()
    topic.grow(7)
    topic.send(range(300, 1000))
    assert table.run().state == "fresh"
    assert set(table.ledger["next"]) == set("0123456")
    assert table.ids() == list(range(1000))
    table.holds_everything()


def test_a_compacted_topic_leaves_gaps_that_are_not_losses(lakehouse):
    """Given a topic that compaction has thinned before, between and after runs, when run, then what was there is kept."""
    topic = lakehouse.cluster.compacted_topic("prices")
    table = lakehouse.table(topic)
    for _ in range(3):
        topic.send(range(200))
    topic.send_tombstones(range(5))
    _compact(lakehouse, topic, fewer_than=300)
    assert table.run().state == "fresh"
    first, head = table.holds_everything(), table.head
    for _ in range(3):
        topic.send(range(100, 300))
    _compact(lakehouse, topic, fewer_than=first.rows + 500)
    before = oracle.read_kafka(lakehouse.cluster.bootstrap, topic.name)[0]
    outcome = table.run()
    assert outcome.state == "fresh"
    new = [o for o in before.values if o >= outcome.from_[0]]
    assert outcome.rows.read == outcome.rows.written == len(new)
    rows = oracle.rows_by_pyiceberg(table.iceberg())["offset"].to_pylist()
    assert len(rows) == len(set(rows)) == first.rows + len(new)
    for _ in range(3):
        topic.send(range(100, 300))
    _compact(lakehouse, topic, fewer_than=first.rows + 500)
    stands = table.head
    with pytest.raises(Refused, match=r"compacted\): 0:\d+"):
        rollback(lakehouse.lake, table.contract, Target(head), ONCALL)
    assert (table.head, table.run().state) == (stands, "fresh"), "rows that only the table has are kept"


def _compact(lakehouse, topic, *, fewer_than):
    """Wait for the cleaner; it only looks at closed segments, and a segment closes with the next record."""

    def thinned():
        topic.send([999_999])
        return len(oracle.read_kafka(lakehouse.cluster.bootstrap, topic.name)[0].values) < fewer_than

    until(thinned, "the log cleaner", 120)


def test_a_recreated_topic_stops_and_a_new_epoch_loads_all_of_it(lakehouse):
    """Given fewer records than the ledger has seen, when run, then it stops; when accepted, then old and new stand side by side."""
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(100))
    table = lakehouse.table(topic)
    table.run()
    head = table.head
    topic.recreate(2)
    topic.send(range(500, 530))
    outcome = table.run()
    assert outcome.state == "topic_recreated"
    assert "--new-epoch" in outcome.error["next_step"]
    assert table.head == head
    found = where_offset(lakehouse.lake, table.contract, 0, 3)
    assert [(each.fate, "another one now" in each.why) for each in found] == [
        ("not_yet", False),
        ("published", True),
    ]
    assert "created again" in found[0].why
    assert "--new-epoch" in found[0].as_json()["next_step"]
    assert [each.fate for each in where_offset(lakehouse.lake, table.contract, 0, 400)] == ["not_yet"]
    start = Target(table.iceberg().metadata.snapshots[0].snapshot_id)
    with pytest.raises(Stopped, match="created again") as stopped:
        rollback(lakehouse.lake, table.contract, start, ONCALL)
    assert stopped.value.state == "topic_recreated"
    accept(lakehouse.lake, table.contract, "new-epoch", ONCALL)
    assert table.run().state == "fresh"
    assert table.ids() == [*range(100), *range(500, 530)]
    assert table.ledger["epoch"] == 1
    assert table.holds_everything().rows == 30


def test_a_recreated_topic_with_more_records_than_the_ledger_stops_as_well(lakehouse, monkeypatch):
    """Given a batch that died before it was published, its quarantine written, when the topic is made anew, then that epoch is over and nothing of the batch counts."""
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(20))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic)
    table.run()
    topic.send_raw([(None, b"poison", p) for p in (0, 1, 1)])
    with dying_at(monkeypatch, "publishing"):
        table.run()
    topic.recreate(2)
    topic.send(range(500, 700))
    assert table.run().state == "topic_recreated"
    assert table.ids() == list(range(20))
    written = lakehouse.spark().table(f"{table.name}_quarantine").count()
    assert written == 4, "the attempt died after it wrote them"
    with dying_at(monkeypatch, "published"):
        accept(lakehouse.lake, table.contract, "new-epoch", ONCALL)
    assert table.ledger["epoch"] == 1
    assert lakehouse.spark().table(f"{table.name}_quarantine").count() == 4, (
        "the receipt stands before they go"
    )
    table.run()
    assert table.causes() == {"no_magic_byte": 1}
    step = where_offset(lakehouse.lake, table.contract, 0, 10)[1].as_json()["next_step"]
    assert "tidemark replay" not in step, "it would do nothing"
    lakehouse.spark().sql(step[step.index("UPDATE") :])
    assert table.causes() == {}


def test_a_topic_that_has_lost_its_end_is_read_on_from_where_it_was_cut(lakehouse):
    """Given partitions that an unclean election has cut, one of which has grown beyond what was read since, when the new epoch is accepted, then what was written in the place of the lost records is read, and nothing twice; once more likewise."""
    topic = lakehouse.cluster.topic("elected", 4)
    topic.send(range(80))
    topic.send_raw([(None, b"poison", 0)])
    table = lakehouse.table(topic, ingest={"max_records": 8}, quarantine={"fail": 1.0})
    table.run()
    topic.send(range(80, 92))
    topic.send_tombstones([1, 3])
    assert table.run().next == {0: 24, 1: 24, 2: 23, 3: 24}
    _cut_off(lakehouse, topic, {0: 21, 2: 20})
    topic.send([100], 0)
    topic.send(range(110, 117), 2)
    topic.send([120], 3)
    told = _accepted(lakehouse, table)
    assert told["partitions"] == {0: {"next": 24, "end": 22}}
    assert told["start"] == {0: 21, 1: 24, 2: 20, 3: 24}
    everything = [*range(92), 100, *range(110, 117), 120]
    assert (table.ids(), table.causes()) == (everything, {"no_magic_byte": 1})
    assert reconcile(lakehouse.lake, table.contract).sound
    found = where_offset(lakehouse.lake, table.contract, 0, 19)
    assert [each.fate for each in found] == ["before_start", "published"]
    assert found[0].why == "epoch 1 began at 21"
    ages = Asked(since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2040, 1, 1, tzinfo=UTC))
    with pytest.raises(Refused, match="of an earlier epoch"):
        backfill(lakehouse.lake, table.contract, ages, ONCALL)
    _cut_off(lakehouse, topic, {0: 20, 2: 20})
    topic.send([130], 2)
    assert _accepted(lakehouse, table)["start"] == {0: 20, 1: 24, 2: 20, 3: 25}
    assert table.ids() == [*everything, 130]
    assert reconcile(lakehouse.lake, table.contract).sound


def _cut_off(lakehouse, topic, ends):
    lakehouse.kill("kafka")
    topic.cut_off(lakehouse.home / "kafka" / "data", ends)
    lakehouse.heal()


def _accepted(lakehouse, table):
    """What the acceptance says, tried first; the table is loaded anew afterwards."""
    until(lambda: table.run().state == "offsets_regressed", "the topic to be seen again")
    before = table.head
    would = accept(lakehouse.lake, table.contract, "new-epoch", LOOKS).as_json()["arguments"]
    assert table.head == before
    told = accept(lakehouse.lake, table.contract, "new-epoch", ONCALL).as_json()["arguments"]
    assert ({**told, "dry_run": True}, table.run().state) == (would, "fresh")
    return told


def test_records_that_expired_unread_stop_and_an_accepted_gap_is_on_record(lakehouse):
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(100))
    table = lakehouse.table(topic)
    table.run()
    head = table.head
    topic.send(range(100, 200))
    topic.delete_records({0: 70})
    outcome = table.run()
    assert outcome.state == "offsets_expired"
    assert outcome.error["ranges"] == {0: [50, 70]}
    assert table.head == head
    accept(lakehouse.lake, table.contract, "record-gap", ONCALL)
    assert table.run().state == "fresh"
    assert [(g["partition"], g["start"], g["end"]) for g in table.ledger["gaps"]] == [(0, 50, 70)]
    lost = {id_ for id_ in range(100, 140) if id_ % 2 == 0}
    assert table.ids() == sorted(set(range(200)) - lost)
    kafka = oracle.read_kafka(lakehouse.cluster.bootstrap, topic.name)
    newest = [o for o in _offsets(table, 0) if o >= 50]
    assert newest == list(kafka[0].values)


def _offsets(table, partition):
    rows = oracle.rows_by_pyiceberg(table.iceberg()).to_pylist()
    return sorted(r["offset"] for r in rows if r["partition"] == partition)


def test_a_topic_that_is_gone_stops_its_table(lakehouse):
    topic = lakehouse.cluster.topic("orders")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    topic.delete()
    until(lambda: table.run().state == "topic_missing", "the topic to be gone", 20)
    assert table.ids() == list(range(10))


def test_what_the_quarantine_holds_of_expired_offsets_is_counted_there_and_is_no_gap(lakehouse, monkeypatch):
    """Given a batch that died after its quarantine was written, when Kafka deletes it and the gap is accepted, then what lies in quarantine is in that place alone, and can be replayed."""
    topic = lakehouse.cluster.topic("held", 1)
    topic.send(range(10))
    table = lakehouse.table(topic, quality=[{"column": "id", "check": "in_range", "min": 0}])
    table.run()
    topic.send([-1, 10, -2, 11])
    with dying_at(monkeypatch, "publishing"):
        table.run()
    topic.delete_records({0: 12})
    assert table.run().state == "offsets_expired"
    accepted = accept(lakehouse.lake, table.contract, "record-gap", ONCALL)
    assert accepted.arguments["kept_in_quarantine"] == {"0": 1}
    assert [(g["start"], g["end"]) for g in table.ledger["gaps"]] == [(11, 12)]
    assert (table.run().state, table.causes()) == ("fresh", {"quality:in_range": 2})
    fates = [where_offset(lakehouse.lake, table.contract, 0, o)[0].fate for o in (10, 11, 12, 13)]
    assert fates == ["quarantined", "expired_unread", "quarantined", "published"]
    table = lakehouse.table(topic)
    moved = replay(lakehouse.lake, table.contract, Selection(), ONCALL, quarantine=True)
    assert moved.arguments["moved"] == 2
    assert table.ids() == [-2, -1, *range(10), 11]
    assert reconcile(lakehouse.lake, table.contract).sound


def test_a_record_with_a_time_beyond_spark_s_stops_where_it_stands_and_says_what_to_do(lakehouse):
    """Given a producer that writes nanoseconds where milliseconds belong, when run, then all before such a record is published, it is named, and once the log begins beyond it an accepted gap goes on."""
    topic = lakehouse.cluster.topic("nanoseconds", 2, message_timestamp_after_max_ms=str(2**63 - 1))
    topic.send(range(4))
    topic.send_at([5], 1_700_000_000_000_000_000)
    topic.send([6], 1)
    topic.send([4], 0)
    table = lakehouse.table(topic)
    outcome = table.run()
    assert (outcome.state, outcome.error["ranges"]) == ("misconfigured", {1: [2, 3]})
    assert "kafka-delete-records" in outcome.error["next_step"]
    assert table.ids() == [0, 1, 2, 3, 4]
    topic.delete_records({1: 3})
    assert table.run().state == "offsets_expired"
    accept(lakehouse.lake, table.contract, "record-gap", ONCALL)
    assert table.run().state == "fresh"
    assert table.ids() == [0, 1, 2, 3, 4, 6]


def test_a_topic_that_another_cluster_lacks_is_not_called_missing(lakehouse):
    """Given bootstrap servers that lead to another cluster now, when it has no such topic, then nobody is told to make it there."""
    log = AppendLog(lakehouse, Struct((Field("id", LONG), KAFKA_COLUMN)))
    log.commit([], {0: 5})
    with pytest.raises(Stopped, match="The ledger names cluster c, the broker says") as stopped:
        log.lake.topic(log.contract)
    assert stopped.value.state == "cluster_changed"
    [facts] = look(log.lake, [log.contract], {})
    assert (facts.topic, facts.topic_fault) == (None, "cluster_changed")
    with pytest.raises(Stopped, match="The ledger names cluster c") as stopped:
        replay(log.lake, log.contract, Selection(), ONCALL, quarantine=True)
    assert stopped.value.state == "cluster_changed"


def test_how_long_kafka_keeps_what_waits_is_told_of_each_table_of_a_topic(lakehouse):
    """Given tables that stand at records of different ages in one topic, when all are asked for at once, then each is told of its own oldest."""
    topic = lakehouse.cluster.topic("shared", 2, retention_ms=str(240 * 3_600_000))
    now = datetime.now(UTC)
    for first, hours in ((0, 200), (1000, 100), (2000, 10)):
        topic.send_at(range(first, first + 1000), now - timedelta(hours=hours))  # 500 to each partition
    stand = {
        "stopped": {0: 0, 1: 700},
        "behind": {0: 600, 1: 500},
        "young": {0: 1200, 1: 1000},
        "last": {1: 1499},
    }
    found = headrooms(
        lakehouse.lake.platform.kafka["main"],
        {table: (topic.name, offsets) for table, offsets in stand.items()},
    )
    hours = {table: room and round(room / 3600) for table, room in found.items()}
    assert hours == {"stopped": 40, "behind": 140, "young": 230, "last": 230}
