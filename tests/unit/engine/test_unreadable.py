"""Rule: a batch that Spark could not read stops with what Kafka knows of it: state and range, not an exception's text."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.outages import state_of_text
from tidemark.engine.ingest.unreadable import readable_before

CONTRACT = Contract.model_validate({"topic": "orders", "table": "shop.orders"})
LEDGER = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 5, 1: 5})
BATCH = {0: OffsetRange(5, 15), 1: OffsetRange(5, 9)}
OVERFLOW = RuntimeError("java.lang.ArithmeticException: long overflow")


def lake(start: Mapping[int, int], first: Mapping[int, int] | None = None) -> Any:
    end = {0: 15, 1: 9}
    topic = Topic("orders", "c", "t", start, end, end)
    admin = SimpleNamespace(offsets_at=lambda _topic, _partitions, _at: {**end, **(first or {})})
    return SimpleNamespace(topic=lambda _: topic, kafka=lambda _: admin)


def test_records_that_went_while_they_were_read_are_named_by_their_range() -> None:
    with pytest.raises(Stopped, match="offsets 5 to 9 are gone") as told:
        readable_before(lake({0: 10, 1: 0}), CONTRACT, LEDGER, BATCH, RuntimeError("KAFKA_DATA_LOSS"))
    assert (told.value.state, told.value.fields["ranges"]) == ("offsets_expired", {0: [5, 10]})


def test_a_topic_that_went_meanwhile_is_looked_for_again_before_it_is_called_missing() -> None:
    """Given a broker that does not know the topic at this moment, when only Spark says so, then it is tried again: Kafka is asked by the next plan."""
    assert state_of_text("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: …") == "kafka_down"


def test_what_comes_before_a_time_beyond_spark_s_can_be_read() -> None:
    assert readable_before(lake({0: 0, 1: 0}, {0: 7}), CONTRACT, LEDGER, BATCH, OVERFLOW) == {0: 7}
    assert readable_before(lake({0: 0, 1: 0}, {0: 5}), CONTRACT, LEDGER, BATCH, OVERFLOW) == {0: 5}
    with pytest.raises(Stopped) as told:
        readable_before(lake({0: 0, 1: 0}, {0: 5, 1: 5}), CONTRACT, LEDGER, BATCH, OVERFLOW)
    assert (told.value.state, told.value.fields["ranges"]) == ("misconfigured", {0: [5, 6], 1: [5, 6]})
    assert "tidemark accept shop.orders --record-gap --reason …" in str(told.value)


def test_where_kafka_knows_no_reason_or_does_not_answer_the_exception_stands() -> None:
    assert readable_before(lake({0: 0, 1: 0}), CONTRACT, LEDGER, BATCH, OVERFLOW) == {}
    assert (
        readable_before(lake({0: 0, 1: 0}, {0: 5}), CONTRACT, LEDGER, BATCH, RuntimeError("no space")) == {}
    )

    def silent(_: Contract) -> Topic:
        raise Outage("kafka_down", "-", "")

    assert readable_before(SimpleNamespace(topic=silent), CONTRACT, LEDGER, BATCH, OVERFLOW) == {}  # type: ignore[arg-type]
