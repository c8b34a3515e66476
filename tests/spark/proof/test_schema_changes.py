"""Rule: records that the table cannot hold yet wait; nothing before them does, and nothing is lost behind them."""

from topics import ORDER, order

OTHER = {
    **ORDER,
    "fields": [
        {**f, "type": ["string", "boolean"]} if f["name"] == "customer" else f for f in ORDER["fields"]
    ],
}
"""The registry finds it compatible, but a string column cannot hold it."""


def other_order(number):
    return {**order(number), "customer": True}


def test_a_batch_ends_before_the_first_record_that_the_table_does_not_cover(lakehouse):
    """Given an incompatible writer in mid-topic, when run, then what came before is published and the rest waits."""
    topic = lakehouse.cluster.topic("evolving", 2)
    topic.send(range(20))
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(20, 30))
    topic.use(OTHER)
    topic.send_raw((b"k", topic.encode(other_order(n)), n % 2) for n in range(30, 40))
    outcome = table.run()
    assert outcome.state == "schema_review"
    assert outcome.rows.written == 10
    assert table.ids() == list(range(30))
    table.holds_everything(caught_up=False)
    head = table.head
    assert table.run().state == "schema_review"
    assert table.head == head
    assert table.branches == set()


def test_one_partition_with_a_parked_schema_does_not_hold_up_the_others(lakehouse):
    topic = lakehouse.cluster.topic("evolving", 2)
    topic.send(range(20))
    table = lakehouse.table(topic)
    table.run()
    old = topic.schema
    topic.use(OTHER)
    topic.send_raw([(b"k", topic.encode(other_order(20)), 0)])
    topic.use(old)
    topic.send(range(30, 40), partition=1)
    outcome = table.run()
    assert outcome.state == "schema_review"
    assert table.ids() == [*range(20), *range(30, 40)]
    table.holds_everything(caught_up=False)
