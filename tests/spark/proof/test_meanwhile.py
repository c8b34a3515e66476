"""Rule: whatever another process publishes in the middle of a run or an act, each goes on from what the table then says."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pyarrow as pa
import pytest
from dying import dying_at
from topics import ORDER, order

import tidemark.engine.ingest.plan as planning
import tidemark.engine.ingest.quarantine as quarantining
import tidemark.engine.look.tables as looking
import tidemark.engine.operate.accept as accepting
import tidemark.engine.operate.quarantine_causes as noting
import tidemark.engine.table.branch as branches
import tidemark.engine.verify.reconcile as reconciling
from tidemark.domain.errors import Overtaken
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.look.status import lag_of, table_state_of
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature
from tidemark.engine.table.settle import settle
from tidemark.engine.verify.reconcile import reconcile

ADA = Signature("ada", "a test")

WITH_NOTE = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}],
}


def test_records_that_wait_for_a_review_say_so_when_another_run_publishes_all_beside_them(
    lakehouse, meanwhile
):
    """Given a partition that begins with an uncovered record, when another run publishes what the other partition has, then this one stops as well and does not count as caught up."""
    topic = lakehouse.cluster.topic("beside", 2)
    topic.send(range(4))
    table = lakehouse.table(topic, schema_changes={"add_column": "review"})
    table.run()
    topic.send([5])
    topic.use(WITH_NOTE)
    topic.send_raw([(b"6", topic.encode({**order(6), "note": "new"}), 0)])
    states = []
    meanwhile(planning, "pause_point", lambda: states.append(table.run().state))
    outcome = table.run()
    assert (states, table.ids()) == (["schema_review"], [0, 1, 2, 3, 5])
    assert (outcome.state, outcome.lag_records) == ("schema_review", 1)


@pytest.mark.parametrize("empty", [False, True])
def test_an_earlier_rollback_takes_nothing_from_a_quarantine_that_was_made_after_it(
    lakehouse, meanwhile, empty
):
    """Given a rollback of a table whose quarantine is not there, or has never held a row, when a run meets the first bad record and another begins just before its receipt, then that record stays in quarantine."""
    topic = lakehouse.cluster.topic("rewound", 1)
    topic.send(range(4))
    table = lakehouse.table(topic, quarantine={"fail": 1.0})
    table.run()
    target = table.head
    topic.send(range(4, 8))
    table.run()
    if empty:
        quarantining.ensure(lakehouse.lake, table.contract)
    rollback(lakehouse.lake, table.contract, Target(target), ADA)
    resume(lakehouse.lake, table.contract, ADA)
    topic.send_raw([(b"bad", b"no magic byte", 0)])
    ledger = lakehouse.lake.state(table.name).ledger
    meanwhile(quarantining, "pause_point", lambda: settle(lakehouse.lake, table.contract, ledger))
    assert table.run().rows.quarantined == 1
    assert (table.ids(), table.causes()) == (list(range(8)), {"no_magic_byte": 1})
    table.holds_everything()


@pytest.mark.parametrize("resolves", ["record-gap", "new-epoch"])
def test_an_acceptance_never_takes_the_place_of_what_a_receipt_still_asks_for(
    lakehouse, meanwhile, monkeypatch, resolves
):
    """Given a replay that dies between receipt and quarantine while an acceptance is on its way, then that is overtaken, and the next one carries out first what the receipt asks for."""
    topic = lakehouse.cluster.topic("replaced", 1)
    topic.send([0, -1, 1])
    rules = {"quality": [{"column": "id", "check": "in_range", "min": 0}], "quarantine": {"fail": 1.0}}
    assert lakehouse.table(topic, **rules).run().rows.quarantined == 1
    table = lakehouse.table(topic, quarantine={"fail": 1.0})
    topic.send([2, 3])
    if resolves == "record-gap":
        topic.delete_records({0: 4})
    else:
        topic.recreate(1)

    def replayed():
        with dying_at(monkeypatch, "published"):
            replay_quarantine(lakehouse.open_lake(), table.contract, Selection(), ADA)

    meanwhile(accepting, "settle_and_take_back", replayed)
    with pytest.raises(Overtaken):
        accept(lakehouse.lake, table.contract, resolves, ADA)
    accept(lakehouse.lake, table.contract, resolves, ADA)
    table.run()
    again = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments
    assert (table.causes(), again["moved"]) == ({}, 0)
    assert table.ledger["revision"] == 1, "by which marts know of the replay, in the next epoch too"
    assert reconcile(lakehouse.lake, table.contract).sound
    assert table.ids() == ([-1, 0, 1, 3] if resolves == "record-gap" else [-1, 0, 1])


def test_what_an_acceptance_has_counted_in_quarantine_no_attempt_at_work_takes_back(lakehouse, meanwhile):
    """Given a batch whose bad record is in quarantine, when Kafka deletes all of it and the gap is accepted before its receipt, then the batch is overtaken, and that record stays where it is counted."""
    topic = lakehouse.cluster.topic("counted", 1)
    topic.send_raw([(b"bad", b"no magic byte", 0)])
    topic.send(range(2))
    table = lakehouse.table(topic, quarantine={"fail": 1.0})
    table.run()
    topic.send_raw([(b"bad", b"no magic byte", 0)])
    topic.send(range(2, 4))
    told = []

    def accepted():
        topic.delete_records({0: 6})
        told.append(accept(lakehouse.open_lake(), table.contract, "record-gap", ADA).arguments)

    meanwhile(quarantining, "pause_point", accepted)
    outcome = table.run()
    assert (outcome.error, outcome.commits) == (None, 0)
    assert [each["kept_in_quarantine"] for each in told] == [{"0": 1}]
    assert [(each["start"], each["end"]) for each in table.ledger["gaps"]] == [(4, 6)]
    assert (table.ids(), table.causes()) == ([0, 1], {"no_magic_byte": 2})
    assert reconcile(lakehouse.lake, table.contract).sound


@pytest.mark.parametrize(
    "start", ["earliest", "latest", pytest.param("2030-01-01T00:00:00Z", marks=pytest.mark.long)]
)
def test_of_two_first_loads_at_once_none_finds_a_topic_that_goes_back(lakehouse, meanwhile, start):
    """Given records that come, and a run that makes the table and reads them, after this run has looked at the topic, then this one goes on and finds no offset regressed."""
    topic = lakehouse.cluster.topic("twins", 1)
    topic.send(range(5))
    table = lakehouse.table(topic, ingest={"start": start})
    states = []

    def first():
        topic.send(range(5, 10))
        states.append(table.run().state)
        topic.send(range(10, 12))

    meanwhile(planning, "read_schemas", first)
    outcome = table.run()
    assert (states, outcome.state, outcome.error) == (["fresh"], "lagging", None)
    assert table.run().state == "fresh"
    assert table.ids() == (list(range(12)) if start == "earliest" else [10, 11])


def test_a_reconciliation_beside_the_ingest_finds_no_topic_that_goes_back(lakehouse, meanwhile):
    """Given records that come and are published while a reconciliation begins, then it is sound."""
    topic = lakehouse.cluster.topic("counted", 1)
    topic.send(range(5))
    table = lakehouse.table(topic)
    table.run()

    def more():
        topic.send(range(5, 10))
        table.run()

    meanwhile(reconciling, "_together", more)
    found = reconcile(lakehouse.lake, table.contract)
    assert (found.sound, found.records) == (True, 10)


def test_a_reconciliation_beside_a_rewrite_and_an_expiry_is_overtaken(lakehouse):
    """Given a table that somebody rewrites and expires while its topic is counted, when its rows are read, then it is no failure of the table, and the next look finds all."""
    topic = lakehouse.cluster.topic("expired_beside", 1)
    topic.send(range(4))
    table = lakehouse.table(topic)
    table.run()

    def rewritten(_done, _all):
        topic.send(range(4, 8))
        table.run()
        old = "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
        for call in (
            f"rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))",
            f"expire_snapshots(table => '{table.name}', {old})",
        ):
            lakehouse.spark().sql(f"CALL lake.system.{call}")

    with pytest.raises(Overtaken, match="main moved"):
        reconcile(lakehouse.lake, table.contract, rewritten)
    assert reconcile(lakehouse.lake, table.contract).sound


def test_a_look_beside_the_ingest_finds_no_topic_that_goes_back(lakehouse, meanwhile, monkeypatch):
    """Given records that come and are published between the look at the topic and that at the table, then the table is fresh."""
    topic = lakehouse.cluster.topic("looked", 1)
    topic.send(range(5))
    table = lakehouse.table(topic)
    table.run()
    described, topics = Event(), looking._topics

    def first(*asked):
        found = topics(*asked)
        described.set()
        return found

    def more():
        assert described.wait(30)
        topic.send(range(5, 10))
        table.run()

    monkeypatch.setattr(looking, "_topics", first)
    meanwhile(looking, "_table", more)
    [facts] = looking.look(lakehouse.lake, [table.contract], {})
    now = datetime.now(UTC)
    assert (facts.finding, facts.committed) == (None, {0: 10})
    assert table_state_of(facts, lag_of(facts, now), limit=timedelta(minutes=1), now=now) == "fresh"


def test_a_replay_of_the_quarantine_beside_rows_that_come_into_it_is_made_once_more(lakehouse, monkeypatch):
    """Given rows that come into the quarantine while a replay notes today's causes there, then it begins anew and notes them."""
    topic = lakehouse.cluster.topic("crossed", 1)
    topic.send([0, -1, 1])
    ranged = {"quality": [{"column": "id", "check": "in_range", "min": 0}], "quarantine": {"fail": 1.0}}
    assert lakehouse.table(topic, **ranged).run().rows.quarantined == 1
    table = lakehouse.table(topic, quality=[{"sql": "id >= 0"}], quarantine={"fail": 1.0})
    rows = lakehouse.catalog.load_table(table.contract.quarantine_table).scan().to_arrow()
    ended, view = Event(), noting.temp_view

    def comes_in():
        for beyond in range(100, 200):
            offsets = pa.array([beyond], rows.schema.field("offset").type)
            staged = rows.set_column(rows.schema.get_field_index("offset"), "offset", offsets)
            lakehouse.catalog.load_table(table.contract.quarantine_table).append(staged)
            if ended.wait(0.3):
                return

    @contextmanager
    def slow(frame, name):
        monkeypatch.setattr(noting, "temp_view", view)
        sleeps = "reflect('java.lang.Thread', 'sleep', 5000L) IS NOT NULL"
        others = Thread(target=comes_in)
        with view(frame.repartition(1).where(sleeps), name) as made:
            others.start()
            try:
                yield made
            finally:
                ended.set()
                others.join()

    monkeypatch.setattr(noting, "temp_view", slow)
    told = replay_quarantine(lakehouse.lake, table.contract, Selection(), ADA).arguments
    assert (told["moved"], told["causes_changed"], ended.is_set()) == (0, 1, True)
    assert set(table.causes()) == {"quality:in_range", "quality:sql"}


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_branch_whose_making_was_never_answered_does_not_stay(lakehouse, monkeypatch, format_version):
    """Given a catalog that makes the branch of a batch and does not say so, when the attempt fails, then its branch goes too, and the next run is as any other."""
    topic = lakehouse.cluster.topic("unanswered", 1)
    topic.send(range(5))
    table = lakehouse.table(topic, format_version=format_version)
    table.run()
    topic.send(range(5, 10))
    begin, lost = branches._begin, [1]

    def unanswered(*how):
        begin(*how)
        if lost:
            lost.pop()
            raise ConnectionError("the answer was lost")

    monkeypatch.setattr(branches, "_begin", unanswered)
    with pytest.raises(Exception, match="the answer was lost"):
        microbatch(lakehouse.lake, table.contract, "unanswered")
    assert (lost, table.branches) == ([], set())
    assert (table.run().error, table.branches, table.ids()) == (None, set(), list(range(10)))
