"""Rule: a consumer group can be told what is published, for lag tools; it is written and never read."""


def test_lag_tools_see_what_is_published(lakehouse):
    """Given a contract that names a group, when batches are published, then the group stands where the ledger does; one that was moved by hand changes nothing."""
    topic = lakehouse.cluster.topic("lagtools", 2)
    topic.send(range(30))
    table = lakehouse.table(topic, ingest={"commit_to_group": "seen-{table}"})
    admin, group = lakehouse.lake.kafka("main"), f"seen-{table.name}"
    lakehouse.commit_group(group, topic.name, {0: 7, 1: 7})
    table.run()
    assert admin.group_offsets(group, topic.name, [0, 1]) == {
        int(p): o for p, o in table.ledger["next"].items()
    }
    admin.commit_group(group, topic.name, {0: 0, 1: 0})
    topic.send(range(30, 40))
    table.run()
    assert table.ids() == list(range(40))
    assert admin.group_offsets(group, topic.name, [0, 1]) == {
        int(p): o for p, o in table.ledger["next"].items()
    }
