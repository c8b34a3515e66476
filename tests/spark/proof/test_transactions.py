"""Rule: aborted records never arrive, committed ones always do, and open ones wait."""

from datetime import UTC, datetime, timedelta

from tidemark.cli.status import seen
from tidemark.engine.look.status import judge


def test_thirty_percent_aborted_transactions_leave_exactly_the_committed_rows(lakehouse):
    topic = lakehouse.cluster.topic("payments", 3)
    committed = []
    for number in range(10):
        ids = range(number * 100, number * 100 + 100)
        aborted = number in {2, 5, 9}
        with topic.transaction(abort=aborted) as transaction:
            transaction.send(ids)
        committed += [] if aborted else list(ids)
    table = lakehouse.table(topic)
    outcome = table.run()
    assert outcome.state == "fresh"
    assert table.ids() == committed
    assert table.holds_everything().rows == 700


def test_a_topic_that_ends_in_aborted_records_is_still_caught_up(lakehouse):
    topic = lakehouse.cluster.topic("payments")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    with topic.transaction(abort=True) as transaction:
        transaction.send(range(10, 20))
    outcome = table.run()
    assert (outcome.state, outcome.rows.read) == ("fresh", 0)
    assert table.ledger["next"] == {"0": 21}
    assert table.run().commits == 0
    table.holds_everything()


def test_an_open_transaction_holds_its_records_back_and_nothing_else(lakehouse):
    topic = lakehouse.cluster.topic("payments", 2)
    topic.send(range(10))
    table = lakehouse.table(topic)

    def state(*, later=timedelta(0)):
        [facts] = seen(lakehouse.lake, [table.contract], lakehouse.home)
        return judge(facts, poll=timedelta(seconds=5), now=datetime.now(UTC) + later).state

    with topic.transaction() as transaction:
        transaction.send([10])
        transaction.producer.flush(30)
        topic.send([20, 21, 22, 23])
        table.run()
        assert table.ids() == [*range(10), 21, 23]
        table.holds_everything()
        assert state() == "fresh"
        assert state(later=timedelta(minutes=2)) == "transaction_open"
    assert table.run().state == "fresh"
    assert state(later=timedelta(minutes=2)) == "fresh"
    assert table.ids() == [*range(11), 20, 21, 22, 23]
    table.holds_everything()
