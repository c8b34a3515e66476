"""Rules of what is told of a table, and of a look at upsert tables."""

from threading import Barrier
from types import SimpleNamespace

import pytest
from commits import NOON, one_commit

from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.outcome import Outcome
from tidemark.engine.access import kafka
from tidemark.engine.access import lake as lake_module
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.table_state import TableState
from tidemark.engine.lane import catch_up as catch_up_module
from tidemark.engine.lane import upsert_work
from tidemark.engine.lane.append_work import AppendWork
from tidemark.engine.lane.catch_up import RETRIES, drained, summarise
from tidemark.engine.lane.upsert_work import UpsertWork
from tidemark.engine.merge.pair import Pair


def test_what_a_run_did_names_partitions_that_did_not_move_too():
    """Given two partitions, when records came in one alone, then the outcome says of both where it began and where it ended."""
    ledger = Ledger(cluster_id=None, topic_id="id", topic="orders", next={0: 5, 1: 7})
    end = {0: 5, 1: 7}
    lake = SimpleNamespace(
        state=lambda table: TableState(table=table, exists=True, head=1, ledger=ledger),
        topic=lambda _, **__: Topic("orders", None, "id", {0: 0, 1: 0}, end, end),
        kafka=lambda _: SimpleNamespace(clock=lambda *_: NOON),
    )
    commit = one_commit(from_={0: 2}, next=end)
    contract = Contract.model_validate({"topic": "orders", "table": "shop.orders"})
    done = Outcome("shop.orders", "fresh").plus(commit)
    found = summarise(lake, contract, done).as_json()
    assert (found["state"], found["from"], found["next"]) == ("fresh", {"0": 2, "1": 7}, {"0": 5, "1": 7})


def test_a_batch_is_tried_again_through_an_outage_but_not_where_the_topic_ends(monkeypatch):
    """Given a cluster that answers a batch at the last retry, when a table is drained, then others follow; one that does not say where the topic ends is told at once."""
    slept, begun = [], []
    monkeypatch.setattr(catch_up_module.time, "sleep", slept.append)
    down = Outage("kafka_down", "shop.orders", "no answer")
    commit = one_commit(next={0: 5})
    answers = iter([*[down] * RETRIES, commit, None])

    def batch(goal):
        begun.append(goal)
        answer = next(answers)
        if answer is down:
            raise down
        return answer

    def nobody():
        raise down

    lake = SimpleNamespace(waited_for={})
    done = drained(lake, "shop.orders", lambda: {0: 5}, batch, lambda: False)
    assert (done.commits, done.error, slept, begun) == (1, None, [1, 2, 4], [{0: 5}] * 5)
    lost = drained(lake, "shop.orders", nobody, batch, lambda: False)
    assert (lost.commits, lost.error["state"], slept, len(begun)) == (0, "kafka_down", [1, 2, 4], 5)


def test_a_table_that_has_reached_its_goal_is_not_planned_again(monkeypatch):
    """Given batches of which the second reaches where the topic ended at the start, then no third is planned."""
    begun = []

    def batch(_lake, contract, _run_id, *, goal, **_):
        begun.append(goal)
        following = {0: 3 * len(begun), 1: 2}
        return one_commit(contract.table, next=following)

    monkeypatch.setattr(catch_up_module, "microbatch", batch)
    topic = SimpleNamespace(end={0: 5, 1: 2})
    lake = SimpleNamespace(waited_for={}, topic=lambda _contract, **_: topic)
    contract = Contract.model_validate({"topic": "orders", "table": "shop.orders"})
    assert catch_up_module.catch_up(lake, contract, "run").commits == 2
    assert begun == [topic.end] * 2


def test_a_catalog_that_is_down_is_waited_for_by_one_table_for_all_until_it_answers(lake, monkeypatch):
    """Given many upsert tables and a dead catalog, when a run by hand merges them, then the waits of one are enough; after an answer one waits again. One table's own store is waited for by each."""
    slept = []
    monkeypatch.setattr(catch_up_module.time, "sleep", slept.append)

    def never(state):
        def batch(_goal):
            raise Outage(state, "shop.orders", "no answer")

        return batch

    def drain(batch):
        return drained(lake, "shop.orders", lambda: None, batch, lambda: False).error

    assert {drain(never("catalog_down"))["state"] for _ in range(5)} == {"catalog_down"}
    assert slept == [1, 2, 4]
    assert drain(lambda _goal: None) is None
    drain(never("catalog_down"))
    assert slept == [1, 2, 4] * 2
    for _ in range(2):
        drain(never("store_down"))
    assert slept == [1, 2, 4] * 4


@pytest.mark.parametrize("takes", [0, 30])
def test_a_spark_server_that_is_down_is_waited_for_once_though_tables_between_are_level(
    lake, monkeypatch, takes
):
    """Given Spark that is gone, or answers nothing for 30 s, when tables with and without records are run by hand, then the waits of one are enough until a batch is published."""
    clock, slept = [100.0], []
    time = SimpleNamespace(monotonic=lambda: clock[0], perf_counter=lambda: clock[0], sleep=slept.append)
    monkeypatch.setattr(catch_up_module, "time", time)
    commit = one_commit(next={0: 5})

    def busy(_goal):
        clock[0] += takes
        raise Outage("spark_down", "shop.orders", "no answer")

    for batch in [busy, lambda _goal: None] * 3:
        drained(lake, "shop.orders", lambda: None, batch, lambda: False)
    assert slept == [1, 2, 4]
    answers = iter([commit, None])
    drained(lake, "shop.orders", lambda: None, lambda _goal: next(answers), lambda: False)
    drained(lake, "shop.orders", lambda: None, busy, lambda: False)
    assert slept == [1, 2, 4] * 2


def test_a_registry_that_is_down_is_waited_for_once_though_tables_between_need_none(lake, monkeypatch):
    """Given a registry that is gone, when tables that need it and others that publish are run by hand, then the waits of one are enough."""
    slept = []
    monkeypatch.setattr(catch_up_module.time, "sleep", slept.append)
    commit = one_commit(next={0: 5})

    def down(_goal):
        raise Outage("registry_down", "shop.orders", "no answer")

    for _ in range(3):
        drained(lake, "shop.orders", lambda: None, down, lambda: False)
        answers = iter([commit, None])
        drained(lake, "shop.carts", lambda: None, lambda _goal, left=answers: next(left), lambda: False)
    assert slept == [1, 2, 4]


def test_a_cluster_that_does_not_answer_is_asked_once_more_for_all_tables_of_a_run(lake, monkeypatch):
    """Given a dead cluster, when a run has looked and tells of many tables, or many are begun by hand, then one waits for it again; a batch asks in earnest."""
    monkeypatch.setattr(kafka, "TIMEOUT", 2)
    asked = []

    class Counting(KafkaAdmin):
        def cluster_id(self):
            asked.append(self.cluster)
            return super().cluster_id()

    monkeypatch.setattr(lake_module, "KafkaAdmin", Counting)
    work = AppendWork(lake, "run", ())
    contracts = [lake.configuration.contracts[0].model_copy(update={"table": f"shop.t{n}"}) for n in range(5)]
    with pytest.raises(Outage) as raised:
        work.look("main", ["orders"])
    served = Outcome("shop.orders", "fresh", error=raised.value.as_json())
    told = [
        *(work.summarise(each, served) for each in contracts),
        *(work.catch_up(each) for each in contracts),
    ]
    assert ({each.state for each in told}, asked) == ({"kafka_down"}, ["main"] * 2)
    assert [each.error["table"] for each in told[5:]] == [each.table for each in contracts]
    with pytest.raises(Outage):
        lake.topic(contracts[0])
    assert asked == ["main"] * 3


def test_a_look_reads_several_upsert_tables_at_once_and_tells_of_each(monkeypatch):
    """Given two upsert tables, one without its ledger and one whose append table is yet to be loaded, when a run looks, then neither read waits for the other."""
    keys = {name: {"table": f"shop.{name}_current", "keys": ["id"]} for name in "ab"}
    upserts = [
        Contract.model_validate({"topic": name, "table": f"shop.{name}", "upsert": keys[name]})
        for name in keys
    ]
    meeting, lost = Barrier(2, timeout=10), Stopped("ledger_missing", "shop.a_current", "")

    def read(_lake, current):
        meeting.wait()
        if current.append.table == "shop.a":
            raise lost
        return Pair(current, None, TableState(table=current.contract.table, exists=False), Struct(()))

    monkeypatch.setattr(upsert_work, "read_pair", read)
    lake = SimpleNamespace(configuration=SimpleNamespace(contracts=upserts))
    assert UpsertWork(lake, "run", ()).look("main", ["shop.a", "shop.b"]) == {"shop.a": lost}
