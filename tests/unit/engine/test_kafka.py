"""Rule: a partition whose leader is being elected is asked again; it is down only when that takes too long."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from weakref import ref

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec
from unserved import ORDERS, lake_in

import tidemark.engine.access.kafka as module
from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access.kafka import KafkaAdmin

EARLIEST, LATEST = type(OffsetSpec.earliest()), type(OffsetSpec.latest())


class Broker:
    """Answers list_offsets with the faults in `codes`, one after the other, then with offset 7 (3 for the earliest)."""

    def __init__(self, *codes):
        self.codes = list(codes)

    def list_offsets(self, request, **_):
        answers = {}
        for where, spec in request.items():
            answers[where] = answer = Future()
            if self.codes:
                answer.set_exception(KafkaException(KafkaError(self.codes.pop(0))))
            else:
                answer.set_result(ListOffsetsResultInfo(3 if isinstance(spec, EARLIEST) else 7, -1, 0))
        return answers

    def poll(self, _timeout):
        """Nothing of its own to tell."""


@pytest.fixture
def admin(monkeypatch):
    def make(*codes):
        made = KafkaAdmin("main", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setattr(made, "_admin", Broker(*codes))
        return made

    return make


def test_a_partition_without_a_leader_is_asked_again(admin):
    moving = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
    assert admin(*moving).offsets_at("orders", [0], 0) == {0: 7}


def test_an_election_that_takes_too_long_is_an_outage(admin, monkeypatch):
    monkeypatch.setattr(module, "ELECTION", 0.5)
    with pytest.raises(Outage) as raised:
        admin(*[KafkaError.NOT_LEADER_FOR_PARTITION] * 50).clock("orders", [0])
    assert raised.value.state == "kafka_down"


class Topics(Broker):
    """Describes topics of one partition; `refused` ones are not authorised, `headless` ones have no leader."""

    def __init__(self, refused=(), headless=()):
        super().__init__()
        self.refused, self.headless = refused, headless

    def describe_cluster(self, **_):
        return done(SimpleNamespace(cluster_id="c"))

    def describe_topics(self, topics, **_):
        answer = SimpleNamespace(partitions=[SimpleNamespace(id=0)], topic_id="t")
        denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        return {name: done(denied if name in self.refused else answer) for name in topics.topic_names}

    def list_offsets(self, request, **_):
        moving = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        found = ListOffsetsResultInfo(7, -1, 0)
        return {where: done(moving if where.topic in self.headless else found) for where in request}


class Held(Topics):
    """A log from 5 to 8 with a transaction open since before its start; no record is of the time that is asked for."""

    def list_offsets(self, request, *, isolation_level=None, **_):
        latest = 3 if isolation_level is IsolationLevel.READ_COMMITTED else 8
        known = {EARLIEST: 5, type(OffsetSpec.latest()): latest}
        offsets = {where: known.get(type(spec), -1) for where, spec in request.items()}
        return {where: done(ListOffsetsResultInfo(o, -1, 0)) for where, o in offsets.items()}


def done(answer):
    future = Future()
    (future.set_exception if isinstance(answer, Exception) else future.set_result)(answer)
    return future


def test_a_topic_that_is_refused_or_headless_hides_no_other(admin, monkeypatch):
    monkeypatch.setattr(module, "ELECTION", 0.1)
    asked = admin()
    monkeypatch.setattr(asked, "_admin", Topics(refused=["secret"], headless=["torn"]))
    for whole in (True, False):
        found = asked.describe_each(["orders", "secret", "torn"], whole=whole)
        assert (found["orders"].end, found["orders"].topic_id) == ({0: 7}, "t")
        assert (found["secret"].state, found["torn"].state) == ("permission_denied", "kafka_down")
    with pytest.raises(Stopped):
        asked.describe(["orders", "secret"])


def test_a_topic_is_described_once_a_minute_by_those_who_only_look(admin, monkeypatch):
    """Given looks again and again, then its id is asked for again when it is old, or when the ends say that it is another topic."""
    asked, topics = admin(), Topics()
    monkeypatch.setattr(asked, "_admin", topics)
    described, describe = [], topics.describe_topics

    def counting(found, **options):
        described.append(sorted(found.topic_names))
        return describe(found, **options)

    def look(*names):
        before = len(described)
        asked.describe_each(names, whole=len(described) % 2 == 0)
        return described[before:]

    monkeypatch.setattr(topics, "describe_topics", counting)
    assert look("orders") == [["orders"]]
    assert look("orders", "clicks") == [["clicks"]]
    assert look("orders", "clicks") == []
    monkeypatch.setattr(
        topics,
        "list_offsets",
        lambda request, **_: {each: done(ListOffsetsResultInfo(6, -1, 0)) for each in request},
    )
    assert look("orders") == [["orders"]]
    assert look("orders", "clicks") == [["clicks"]]
    monkeypatch.setattr(module, "_KNOWN_FOR", 0.0)
    assert look("orders") == [["orders"]]


def test_a_topic_that_was_planned_with_is_asked_for_its_end_alone(admin, monkeypatch):
    """Given a topic that was described, when somebody asks whether it is the same, then one request tells how far it goes; of one with other partitions all is asked."""
    asked, held = admin(), Held()
    monkeypatch.setattr(asked, "_admin", held)
    before, listed, list_offsets = asked.describe(["orders"])["orders"], [], held.list_offsets

    def counting(request, **options):
        listed.append(request)
        return list_offsets(request, **options)

    monkeypatch.setattr(held, "list_offsets", counting)
    assert asked.still(before) == replace(before, end={0: 8})
    assert len(listed) == 1
    assert asked.still(replace(before, log_start={0: 5, 1: 0})) == before
    assert len(listed) == 4


def test_no_end_lies_below_the_log_start(admin, monkeypatch):
    """Given an open transaction whose first records were deleted, then a load from the end expects none of them."""
    asked = admin()
    monkeypatch.setattr(asked, "_admin", Held())
    topic = asked.describe(["orders"])["orders"]
    assert (topic.log_start, topic.end, topic.high_watermark) == ({0: 5}, {0: 5}, {0: 8})
    assert asked.offsets_at("orders", [0], 1) == {0: 5}
    assert asked.describe_each(["orders"], whole=False)["orders"].end == {0: 3}


def test_a_wrong_password_is_told_as_such_until_a_request_is_answered(admin):
    asked = admin(KafkaError.BROKER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE)
    for code in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN):
        asked._remember(KafkaError(code))
    with pytest.raises(Stopped):
        asked.clock("orders", [0])
    asked._admin.codes, codes = [], asked._admin.codes
    asked.clock("orders", [0])
    asked._admin.codes = codes
    with pytest.raises(Outage):
        asked.clock("orders", [0])


def test_another_fault_is_an_outage_at_once(admin):
    asked = admin(KafkaError.BROKER_NOT_AVAILABLE)
    with pytest.raises(Outage):
        asked.offsets_at("orders", [0], 0)
    assert asked._admin.codes == []
    assert TopicPartition("orders", 0) in asked._admin.list_offsets(
        {TopicPartition("orders", 0): OffsetSpec.latest()}
    )


@pytest.mark.parametrize("milliseconds", [-1, -2, -62_135_596_800_000])
def test_a_time_before_1970_is_the_earliest_offset_and_no_word_of_the_protocol(admin, milliseconds):
    assert admin().offsets_at("orders", [0], milliseconds) == {0: 3}
    assert admin().offsets_at("orders", [0], 0) == {0: 7}


class Dated(Broker):
    """Ends at 7; its first record since any time is at 0 in partition 0, and there is none in partition 1."""

    def list_offsets(self, request, **_):
        return {
            where: done(ListOffsetsResultInfo(7 if isinstance(spec, LATEST) else -where.partition, -1, 0))
            for where, spec in request.items()
        }


def test_a_partition_without_a_record_since_then_begins_at_its_end(admin, monkeypatch):
    """Given a time after the last record of one partition and before the first of another, then one begins at
    its end, the other at 0."""
    asked = admin()
    monkeypatch.setattr(asked, "_admin", Dated())
    assert asked.offsets_at("orders", [0, 1], 5) == {0: 0, 1: 7}


class Growing(Broker):
    """A record comes after the first question."""

    def __init__(self):
        self.asked = 0

    def list_offsets(self, request, **_):
        self.asked += 1
        end = 7 if self.asked == 1 else 8
        found = lambda spec: end if isinstance(spec, LATEST) else 7 if end == 8 else -1  # noqa: E731
        return {where: done(ListOffsetsResultInfo(found(spec), -1, 0)) for where, spec in request.items()}


def test_a_record_that_comes_while_a_time_is_looked_up_is_not_skipped(admin, monkeypatch):
    """Given a partition without a record since then, and one that comes now, then the load begins before it."""
    asked = admin()
    monkeypatch.setattr(asked, "_admin", Growing())
    assert asked.offsets_at("orders", [0], 5) == {0: 7}


def test_an_outage_says_why_the_client_cannot_connect(monkeypatch):
    """Given a port where nobody listens, then the client's own error is told, which it keeps until it is polled."""
    monkeypatch.setattr(module, "TIMEOUT", 2)
    with pytest.raises(Outage, match="Connection refused"):
        KafkaAdmin("main", {"bootstrap.servers": "127.0.0.1:1"}).cluster_id()


class Slow(Topics):
    """A cluster that gives no answer for 10 s as often as `in_vain` says; `asked`: how often it was asked."""

    def __init__(self, clock, in_vain):
        super().__init__()
        self.clock, self.in_vain, self.asked = clock, in_vain, 0

    def describe_cluster(self, **_):
        self.asked += 1
        if self.asked > self.in_vain:
            return super().describe_cluster()
        self.clock[0] += 10
        return done(KafkaException(KafkaError(KafkaError._TIMED_OUT)))


@pytest.fixture
def slow(admin, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda _: None))

    def make(in_vain):
        made = admin()
        monkeypatch.setattr(made, "_admin", Slow(clock, in_vain))
        return made, made._admin

    return make


@pytest.mark.parametrize("of_a_batch", [False, True])
def test_one_slow_answer_fails_no_table_of_many(slow, of_a_batch):
    """Given a cluster that does not answer once, be it a table or a batch before that asks, when tables are asked for side by side, then all are told of their topics."""
    made, cluster = slow(in_vain=1)
    if of_a_batch:
        with pytest.raises(Outage):
            made.describe(["orders"])
    with ThreadPoolExecutor(4) as tables:
        found = list(tables.map(lambda _: made.describe(["orders"], one_of_many=True), range(8)))
    assert [each["orders"].end for each in found] == [{0: 7}] * 8
    assert cluster.asked == 9


def test_a_cluster_that_gave_no_answer_twice_rests_for_as_long_as_it_took_and_is_believed_once_it_answers(
    slow,
):
    """Given asks that took 10 s in vain, when many tables are asked for, then two ask, and the others are told so for 10 s; not after an answer."""
    made, cluster = slow(in_vain=4)

    def ask(**options):
        made.describe(["orders"], **options)

    for _ in range(5):
        with pytest.raises(Outage):
            ask(one_of_many=True)
    assert (cluster.asked, cluster.clock) == (2, [120])
    cluster.clock[0] = 129.9
    with pytest.raises(Outage):
        ask(one_of_many=True)
    assert cluster.asked == 2
    cluster.clock[0] = 130
    for _ in range(5):
        with pytest.raises(Outage):
            ask(one_of_many=True)
    assert cluster.asked == 3, "it was down when it was asked last"
    with pytest.raises(Outage):
        ask()
    ask()
    ask(one_of_many=True)
    assert cluster.asked == 6


def test_a_client_that_is_lost_is_gone_at_once_and_the_next_one_is_another(tmp_path):
    """Given a cluster that does not answer, when a sensor makes its client anew at each tick, then no threads of the earlier ones are left."""
    lake = lake_in(tmp_path, ORDERS)
    client = lake.kafka("main")
    known = ref(client)
    assert lake.kafka("main") is client
    del client
    lake.lose_kafka("main")
    assert known() is None
    lake.lose_kafka("main")
    assert isinstance(lake.kafka("main"), KafkaAdmin)
