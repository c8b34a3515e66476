"""Rule: reading goes on only when what Kafka offers continues what the table holds; else a named stop with its range."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic, examine, expired_ranges, stopped_by
from tidemark.domain.ledger.ledger import Entry, Ledger

LEDGER = Ledger(cluster_id="c1", topic_id="t1", topic="orders", start={0: 0, 1: 0}, next={0: 10, 1: 20})
TOPIC = Topic(
    name="orders", cluster_id="c1", topic_id="t1",
    log_start={0: 0, 1: 5}, end={0: 10, 1: 25}, high_watermark={0: 12, 1: 25},
)  # fmt: skip


def state(ledger, topic):
    finding = examine(ledger, topic)
    return finding and finding.state


def test_a_topic_that_only_grew_is_read_on():
    assert examine(LEDGER, TOPIC) is None


def test_more_partitions_are_normal():
    grown = replace(
        TOPIC,
        log_start={**TOPIC.log_start, 2: 0},
        end={**TOPIC.end, 2: 4},
        high_watermark={**TOPIC.high_watermark, 2: 4},
    )
    assert examine(LEDGER, grown) is None


def test_a_new_topic_id_stops_even_when_the_topic_has_more_records_than_the_ledger():
    finding = examine(
        LEDGER, replace(TOPIC, topic_id="t2", end={0: 99, 1: 99}, high_watermark={0: 99, 1: 99})
    )
    assert finding.state == "topic_recreated"
    assert finding.fields["next"] == {0: 10, 1: 20}


def test_another_topic_in_the_contract_is_told_as_that_and_not_as_one_that_was_recreated():
    finding = examine(LEDGER, replace(TOPIC, name="clicks", topic_id="t2"))
    assert finding.state == "topic_recreated"
    assert "The ledger counts offsets of orders, the contract names clicks" in finding.detail
    assert finding.fields == {"ledger_topic": "orders", "next": {0: 10, 1: 20}}
    told = stopped_by(Contract.model_validate({"topic": "clicks", "table": "lake.orders"}), finding)
    assert "created again" not in str(told)
    assert "unread" not in told.fields["safe"]
    assert "created again" in examine(LEDGER, replace(TOPIC, topic_id="t2")).detail
    assert state(LEDGER, replace(TOPIC, name="clicks", topic_id=None)) == "topic_recreated"


def test_another_cluster_is_named_before_another_topic_id():
    assert state(LEDGER, replace(TOPIC, cluster_id="c2", topic_id="t2")) == "cluster_changed"


def test_fewer_partitions_stop():
    one = replace(TOPIC, log_start={0: 0}, end={0: 10}, high_watermark={0: 12})
    finding = examine(LEDGER, one)
    assert finding.state == "partitions_shrunk"
    assert finding.fields["partitions"] == [1]


def test_a_topic_that_ends_before_the_ledger_stops_also_without_topic_ids():
    old_broker = replace(TOPIC, topic_id=None, end={0: 3, 1: 25}, high_watermark={0: 3, 1: 25})
    finding = examine(LEDGER, old_broker)
    assert finding.state == "offsets_regressed"
    assert finding.fields["partitions"] == {0: {"next": 10, "end": 3}}


def test_a_last_stable_offset_behind_the_ledger_is_an_open_transaction_and_no_regression():
    held_back = replace(TOPIC, end={0: 4, 1: 20}, high_watermark={0: 12, 1: 25})
    assert examine(LEDGER, held_back) is None


def test_records_deleted_before_they_were_read_stop_with_their_range():
    finding = examine(LEDGER, replace(TOPIC, log_start={0: 0, 1: 23}))
    assert finding.state == "offsets_expired"
    assert finding.fields["ranges"] == {1: [20, 23]}


def test_records_deleted_after_they_were_read_are_no_concern():
    assert examine(LEDGER, replace(TOPIC, log_start={0: 10, 1: 20})) is None


def test_a_partition_that_appeared_and_already_lost_records_stops():
    grown = replace(
        TOPIC,
        log_start={**TOPIC.log_start, 2: 3},
        end={**TOPIC.end, 2: 4},
        high_watermark={**TOPIC.high_watermark, 2: 4},
    )
    assert examine(LEDGER, grown).fields["ranges"] == {2: [0, 3]}


def test_a_broker_without_topic_ids_is_judged_by_its_offsets():
    assert examine(LEDGER, replace(TOPIC, topic_id=None)) is None
    assert examine(LEDGER.model_copy(update={"topic_id": None}), TOPIC) is None


def test_zero_is_no_topic_id():
    """Given a ledger of a time when brokers had no ids, as librdkafka tells that, then ids that come later are no other topic."""
    old = Ledger.from_json(LEDGER.model_copy(update={"topic_id": "A" * 22}).to_json(), table="t")
    assert (old.topic_id, examine(old, TOPIC)) == (None, None)
    entry = Entry("b", "a", "r", "c", "v", topic_id="t1")
    following = old.after({}, {}, entry)
    assert following.topic_id == "t1"
    assert following.after({}, {}, replace(entry, topic_id="t2")).topic_id == "t1"


per_partition = st.dictionaries(st.integers(0, 6), st.integers(0, 50), min_size=1)


@given(per_partition, st.data())
def test_reading_goes_on_exactly_when_every_committed_offset_still_lies_inside_the_log(committed, data):
    start = {p: data.draw(st.integers(0, 50)) for p in committed}
    high = {p: first + data.draw(st.integers(0, 50)) for p, first in start.items()}
    ledger = LEDGER.model_copy(update={"next": committed})
    topic = replace(TOPIC, log_start=start, end=high, high_watermark=high)
    inside = all(start[p] <= offset <= high[p] for p, offset in committed.items())
    assert (examine(ledger, topic) is None) == inside
    assert expired_ranges(ledger, topic) == {
        p: (committed[p], s) for p, s in start.items() if s > committed[p]
    }
