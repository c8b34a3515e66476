"""Rule: whatever another process publishes in the middle of a run or an act, each goes on from what the table then says."""

import pytest
from topics import ORDER, order

import tidemark.engine.ingest.plan as planning

WITH_NOTE = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}],
}


@pytest.fixture
def meanwhile(monkeypatch):
    """`meanwhile(module, name, act)`: the next call of that function finds `act` done just before it."""

    def once(module, name, act):
        found = getattr(module, name)

        def wrapped(*args, **kwargs):
            monkeypatch.setattr(module, name, found)
            act()
            return found(*args, **kwargs)

        monkeypatch.setattr(module, name, wrapped)

    return once


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
