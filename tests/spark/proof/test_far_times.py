"""Rule: a record whose producer wrote a time that no datetime holds is a record like every other to all who look."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from topics import BEGAN, ORDER, Topic, order

from tidemark.domain.maintenance import compaction
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.table.live_files import read_layout
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_key, where_offset
from tidemark.review.collect import reviews

MICROS = 1_763_900_000_000_000
"""A time in microseconds, written where Kafka's milliseconds belong."""
FAR, NOT_FAR = "+57865-10-07T06:13:20+00:00", "2025-11-23T12:13:20+00:00"
LONG_AGO = -30_597_177_600_000
"""In milliseconds, a day that is another one in the Julian calendar."""
ANY = str(2**63 - 1)
FOR_EVER = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 2**63 - 1)
"""PostgreSQL's infinities as Debezium writes them, and the last moment that there is."""
ADA = Signature("ada", "a test", run_id="replay-1")


def send(topic, *records):
    """(key, value, milliseconds)."""
    producer = Producer({"bootstrap.servers": topic.cluster.bootstrap, "log_level": 0})
    for key, value, at in records:
        text = value if isinstance(value, str) else json.dumps(value)
        producer.produce(topic.name, text, key, partition=0, timestamp=at)
    assert producer.flush(30) == 0


def test_a_record_from_beyond_year_9999_is_told_planned_replayed_compacted_and_reported(
    lakehouse, tmp_path, monkeypatch
):
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    topic = Topic(lakehouse.cluster, f"far_{uuid.uuid4().hex[:6]}", {})
    topic.create(1, message_timestamp_after_max_ms=ANY, message_timestamp_before_max_ms=ANY)
    said = {
        "value": {"format": "json", "fields": {"id": "bigint"}},
        "partition_by": ["day(_kafka.timestamp)"],
        "quarantine": {"fail": 0.9},
        "retention": {"append": "3650d"},
        "maintenance": {"compaction": {"min_input_files": 2}},
    }
    table = lakehouse.table(topic, quality=[{"sql": "id <> 2"}], **said)
    send(topic, ("a", {"id": 1}, MICROS), ("b", {"id": 2}, MICROS), ("c", "{", MICROS))
    assert table.run().state == "fresh"
    for number in range(4, 9):
        at = LONG_AGO if number == 8 else MICROS // 1000
        send(topic, ("a", {"id": number}, MICROS), ("d", {"id": number + 10}, at))
        assert table.run().state == "fresh"
    lake, contract = lakehouse.lake, table.contract

    def time_of(offset):
        [found] = where_offset(lake, contract, 0, offset)
        return found.fate, found.facts["record"]["timestamp"]

    assert [time_of(n) for n in range(5)] == [
        ("published", FAR),
        ("quarantined", FAR),
        ("quarantined", FAR),
        ("published", FAR),
        ("published", NOT_FAR),
    ]
    assert time_of(12) == ("published", "1000-06-01T00:00:00+00:00")
    assert where_key(lake, contract, b"a")[1] == 6
    assert [each.fate for each in where_key(lake, contract, b"b")[0]] == ["quarantined"]
    assert foresee(lake, contract, sample=20).sample["quarantined"] == 2
    mended = lakehouse.table(topic, name=table.name.partition(".")[2], **said)
    assert replay_quarantine(lake, mended.contract, Selection(), ADA).arguments["moved"] == 1
    gains = maintain(lake, mended.contract, ("compaction", "snapshot_expiry"))
    found = {each.kind: each for each in gains if each.table == table.name}
    assert not [each for each in found.values() if each.error], found
    assert found["compaction"].acted
    whole = reconcile(lake, mended.contract)
    assert whole.sound
    assert (whole.counts[0].rows, whole.counts[0].quarantined) == (12, 1)
    assert time_of(1) == ("published", FAR)
    [review] = reviews(lake, [mended.contract], tmp_path)
    assert review.status.state == "fresh"
    lakehouse.spark().sql(f"DELETE FROM {table.name} WHERE _kafka.offset = 0")
    assert time_of(0) == ("deleted", FAR)


@pytest.mark.parametrize(
    "transform", ["hour", *(pytest.param(each, marks=pytest.mark.long) for each in ("day", "month"))]
)
def test_partitions_at_the_ends_of_time_are_compacted_like_any_other(lakehouse, monkeypatch, transform):
    """Given rows that are valid for ever, also in hours that Iceberg counts round, when maintained, then every partition is one file."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    topic = lakehouse.cluster.topic("for_ever")
    table = lakehouse.table(
        topic,
        partition_by=[f"{transform}(at)"],
        maintenance={"compaction": {"min_input_files": 2}},
    )
    for _ in range(2):
        records = ({**order(number), "at": at} for number, at in enumerate((BEGAN, *FOR_EVER)))
        topic.send_raw([(None, topic.encode(record), 0) for record in records])
        assert table.run().state == "fresh"
    gains = [
        gain for gain in maintain(lakehouse.lake, table.contract, ("compaction",)) if gain.acted or gain.error
    ]
    assert [(gain.table, gain.error) for gain in gains] == [(table.name, None)]
    assert [len(each.sizes) for each in read_layout(table.iceberg()).partitions] == [1, 1, 1]
    assert table.holds_everything().rows == 8


def test_a_table_whose_only_event_times_lie_before_year_1_is_loaded(lakehouse):
    """Given what a source writes for minus infinity, when nothing newer is there, then the first moment of year 1 stands for it."""
    topic = lakehouse.cluster.topic("long_ago", schema={**ORDER, "name": "LongAgo"})
    topic.send_raw([(None, topic.encode({**order(1), "at": -(2**63) + 1}), 0)])
    table = lakehouse.table(topic, event_time="at", partition_by=["bucket(2, id)"])
    assert table.run().state == "fresh"
    assert lakehouse.lake.state(table.name).ledger.watermark == datetime.min.replace(tzinfo=UTC)
    topic.send(range(2, 5))
    assert table.run().state == "fresh"
    assert table.holds_everything().rows == 4
