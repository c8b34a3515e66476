"""Rule: the event time of a contract gives the watermark, counts late rows, and partitions by day when nothing else is said."""

from datetime import UTC, datetime

from topics import BEGAN

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.look.clocks import two_clocks


def test_rows_before_the_watermark_are_counted_late(lakehouse):
    """Given event_time: at, when an older row follows newer ones, then it lands, is counted late, and the watermark stays."""
    topic = lakehouse.cluster.topic("timed")
    topic.send(range(100, 110))
    table = lakehouse.table(topic, event_time="at")
    first = table.run()
    assert (first.error, first.late) == (None, 0)
    newest = BEGAN + 109 * 60_000_000
    assert first.last.watermark.timestamp() * 1_000_000 == newest
    topic.send([5, 200])
    second = table.run()
    assert second.late == 1
    assert second.last.watermark.timestamp() * 1_000_000 == BEGAN + 200 * 60_000_000
    assert table.ids() == [5, *range(100, 110), 200]
    assert [field.name for field in table.iceberg().spec().fields] == ["at_day"]


def test_the_watermark_of_one_column_judges_no_other(lakehouse):
    """Given an event time that is edited to an older column, then its watermark begins anew; while a mistyped one cannot be had nothing is counted, and the watermark stays."""
    topic = lakehouse.cluster.topic("retimed")
    topic.send(range(10))
    layout = {"partition_by": []}
    table = lakehouse.table(topic, event_time="_kafka.timestamp", **layout)
    assert table.run().last.watermark.timestamp() * 1_000_000 > BEGAN + 10**12
    lakehouse.table(topic, event_time="at", **layout)
    topic.send(range(100, 110))
    moved = table.run()
    assert (moved.error, moved.late) == (None, 0)
    assert moved.last.watermark.timestamp() * 1_000_000 == BEGAN + 109 * 60_000_000
    lakehouse.table(topic, event_time="att", **layout)
    topic.send([5])
    mistyped = table.run()
    assert (mistyped.state, mistyped.late, mistyped.last.watermark) == ("fresh", 0, None)
    lakehouse.table(topic, event_time="at", **layout)
    topic.send([6, 7])
    back = table.run()
    assert (back.late, back.last.watermark) == (2, moved.last.watermark)
    assert table.ledger["event_time"] == "at"


def test_a_record_of_2099_and_a_backlog_of_1990_move_no_clock(lakehouse):
    """Given Kafka times that are far off, when they are published, then they are rows, the table's clock stays, and nothing is late."""
    topic = lakehouse.cluster.topic("far", message_timestamp_after_max_ms=str(2**62))
    topic.send(range(10))
    table = lakehouse.table(topic)
    before = table.run().table_clock
    topic.send_at(range(10, 11), datetime(2099, 1, 1, tzinfo=UTC))
    topic.send_at(range(11, 21), datetime(1990, 1, 1, tzinfo=UTC))
    outcome = table.run()
    assert (outcome.state, outcome.ahead, outcome.table_clock) == ("fresh", 1, before)
    assert table.ids() == list(range(21))
    found = two_clocks(lakehouse.lake, table.contract, (), datetime.now(UTC))
    assert (found.table, found.stream) == (before, before)
    judged = found.judged(table.contract)
    assert (judged.grade, judged.verdict) == ("fresh", "fresh")


def test_a_time_that_no_calendar_of_python_holds_moves_no_clock_and_stops_no_merge(lakehouse):
    """Given a producer that writes microseconds for milliseconds, when its records are merged, then they are rows."""
    topic = lakehouse.cluster.topic("farther", message_timestamp_after_max_ms=str(2**62))
    topic.send(range(3))
    topic.send_at([3], BEGAN)
    table = lakehouse.table(topic, upsert=["id"], key={"format": "string"})
    outcome = table.run()
    assert (outcome.error, table.ids()) == (None, [0, 1, 2, 3])
    merged = catch_up_merges(lakehouse.lake, upsert_table_of(table.contract), "test")
    assert (merged.error, merged.changes.inserted) == (None, 4)
    assert merged.table_clock == outcome.table_clock


def test_an_event_time_that_is_no_time_is_refused_before_a_table_is_made(lakehouse):
    topic = lakehouse.cluster.topic("untimed")
    topic.send([1])
    outcome = lakehouse.table(topic, event_time="customer").run()
    assert outcome.state == "misconfigured"
    assert "no date or timestamp" in outcome.error["message"]
