"""Rule: records that the table cannot hold yet wait; nothing before them does, and nothing is lost behind them."""

from topics import ORDER, order

WITH_NOTE = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}
PARKED = {"schema_review", "schema_unsupported"}


def test_a_batch_ends_before_the_first_record_that_the_table_does_not_cover(lakehouse):
    """Given a change that the contract wants reviewed in mid-topic, when run, then what came before is published and the rest waits."""
    topic = lakehouse.cluster.topic("evolving", 2)
    topic.send(range(20))
    table = lakehouse.table(topic, schema_changes={"add_column": "review"})
    table.run()
    topic.send(range(20, 30))
    topic.use(WITH_NOTE)
    topic.send_raw((b"k", topic.encode({**order(n), "note": "x"}), n % 2) for n in range(30, 40))
    outcome = table.run()
    assert outcome.state in PARKED
    assert outcome.rows.written == 10
    assert table.ids() == list(range(30))
    table.holds_everything(caught_up=False)
    head = table.head
    assert table.run().state in PARKED
    assert table.head == head
    assert table.branches == set()


def test_one_partition_with_a_parked_schema_does_not_hold_up_the_others(lakehouse):
    topic = lakehouse.cluster.topic("evolving", 2)
    topic.send(range(20))
    table = lakehouse.table(topic, schema_changes={"add_column": "review"})
    table.run()
    old = topic.schema
    topic.use(WITH_NOTE)
    topic.send_raw([(b"k", topic.encode({**order(20), "note": "x"}), 0)])
    topic.use(old)
    topic.send(range(30, 40), partition=1)
    outcome = table.run()
    assert outcome.state in PARKED
    assert table.ids() == [*range(20), *range(30, 40)]
    table.holds_everything(caught_up=False)
