"""Rule: Spark may die under whatever it does; what was published stays, nothing else moves, and the next server goes on.

One server dies for four tables, and in the last file of its folder: its successor is slow at first.
"""

import threading

from backlogs import BACKLOG, goes_on, until_it_writes, with_backlog
from lakehouse import Run
from replayable import sound, with_replayable

from tidemark.engine.lane import catch_up
from tidemark.engine.maintain.maintain import maintain

SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 1}}


def test_spark_dies_under_maintenance_a_replay_and_a_batch(lakehouse, monkeypatch):
    """Given maintenance that holds its lease, a replay behind its receipt and a batch in mid write, when the Spark server dies, then the lease is given back, the replay has taken place, another table's run moves nothing, and all four go on once there is a server."""
    monkeypatch.setattr(catch_up, "RETRIES", 1)  # a run tries once more, not for seven seconds
    elsewhere = lakehouse.open_lake()
    upkept, recovered, loading = compactable(lakehouse), with_replayable(lakehouse), with_backlog(lakehouse)
    patient = lakehouse.table(lakehouse.cluster.topic("patient", 2))
    patient.topic.send(range(20))
    patient.run(lake=elsewhere)
    patient.topic.send(range(20, 40))
    before = patient.iceberg().metadata_location

    upkeep = Run.start(lakehouse, [upkept.name], pause_at="compacted", environment={"HEADLESS": "maintain"})
    replay = recovered.act({"verb": "replay", "quarantine": True}, pause_at="published")
    upkeep.reaches_its_pause()
    replay.reaches_its_pause()
    assert upkept.branches == {"tidemark_maintenance_1"}
    outcomes = []
    batch = threading.Thread(target=lambda: outcomes.append(loading.run()))
    with until_it_writes(loading):
        batch.start()
    lakehouse.kill("spark")

    assert patient.run(lake=elsewhere).state == "spark_down"
    assert patient.iceberg().metadata_location == before
    upkeep.release()
    replay.release()
    found = {each["kind"]: each for each in upkeep.result() if each["table"] == upkept.name}
    assert found["snapshot_expiry"]["error"]["state"] == "spark_down"
    assert upkept.branches == set(), "the next maintenance need not wait"
    assert replay.result()[0]["arguments"]["moved"] == 6
    batch.join(300)
    assert not batch.is_alive(), "the run did not end"
    assert outcomes[0].state == "spark_down", outcomes[0].error
    elsewhere.close()
    lakehouse.close()
    lakehouse.heal()

    sound(recovered, rows=46, waiting=1)
    assert recovered.causes()["schema_not_allowed"] == 6, "the marks are still to be made"
    recovered.run()
    assert recovered.causes() == {"no_magic_byte": 1}
    assert recovered.holds_everything().quarantined == 1
    goes_on(loading)
    assert loading.holds_everything().rows == BACKLOG + 10
    goes_on(patient)
    assert patient.ids() == list(range(40))
    patient.holds_everything()
    gained = maintain(lakehouse.lake, upkept.contract, ("snapshot_expiry",))
    assert [each.acted for each in gained if each.table == upkept.name] == [True]
    assert upkept.ids() == list(range(30))


def compactable(lakehouse):
    """Three microbatches, and more snapshots than are kept."""
    table = lakehouse.table(lakehouse.cluster.topic("upkept", 2), maintenance=SOON)
    for first in (0, 10, 20):
        table.topic.send(range(first, first + 10))
        assert table.run().error is None
    return table
