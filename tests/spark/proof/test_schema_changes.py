"""Rule: records that the table cannot hold yet wait; nothing before them does, and nothing is lost behind them."""

from topics import ORDER, order

from tidemark.engine.ingest.plan import MANY_VERSIONS, Limits, make_plan

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


def test_of_many_versions_those_that_come_are_decoded(lakehouse):
    """Given a subject of twenty versions, each with a field more, when old and new ones come, then every record lands,
    and a batch is prepared for no more of them than the newest and those of the batch before."""
    topic = lakehouse.cluster.topic("versions")
    versions = []
    for n in range(20):
        fields = [{"name": f"c{k}", "type": "string", "default": f"d{k}"} for k in range(n)]
        versions.append({**ORDER, "fields": [*ORDER["fields"], *fields]})
        topic.use(versions[-1])
    ids = {}
    for n in (0, 19, 5):
        topic.use(versions[n])
        ids[n] = topic.schema_id
        topic.send_raw([(b"k", topic.encode({**order(n), **{f"c{k}": "x" for k in range(n)}}), 0)])
    table = lakehouse.table(topic)
    assert table.run().error is None
    rows = {r["id"]: (r["c4"], r["c18"]) for r in table.iceberg().scan().to_arrow().to_pylist()}
    assert rows == {0: ("d4", "d18"), 19: ("x", "x"), 5: ("x", "d18")}
    topic.send_raw([(b"k", topic.encode({**order(6), **{f"c{k}": "x" for k in range(5)}}), 0)])
    plan = make_plan(lakehouse.lake, table.contract, "test", Limits())
    assert len(plan.decoding().writers) == MANY_VERSIONS // 2 + 2
    assert {ids[0], ids[5], ids[19]} <= set(plan.decoding().writers)
    table.run()
    table.holds_everything()
