"""Rule: maintenance may die at any line; the table is right, ingest is not held up, and someone else takes over."""

import time

import pytest
from lakehouse import Run, until

from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.table import lease as maintenance_lease

SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 1}}
HELD = {"compacted", "in the middle"}


@pytest.mark.parametrize("point", ["compaction_planned", "compacted", "in the middle", "expired"])
def test_maintenance_killed_at_any_stage_is_continued(lakehouse, monkeypatch, point):
    """Given eight microbatches, when maintenance dies at `point` while a batch comes in, then nothing is lost, its lease keeps others away, and ends."""
    topic = lakehouse.cluster.topic("upkeep", 2)
    table = lakehouse.table(topic, maintenance=SOON)
    for batch in range(8):
        topic.send(range(batch * 10, batch * 10 + 10))
        assert table.run().state == "fresh"
    at = "compaction_planned" if point == "in the middle" else point
    run = Run.start(lakehouse, [table.name], pause_at=at, environment={"HEADLESS": "maintain"})
    run.reaches_its_pause()
    if point == "in the middle":
        run.release()
        until(lambda: "tidemark_maintenance_1" in table.iceberg().metadata.refs, "the lease")
    else:
        topic.send(range(80, 90))
        assert table.run().rows.written == 10
    run.kill()
    if point in HELD:
        assert "another maintenance holds it" in _maintained(table)["snapshot_expiry"].reason
    if point == "in the middle":
        time.sleep(1)  # the server goes on with what the dead client began
        topic.send(range(80, 90))
        assert table.run().error is None
    real = time.time
    monkeypatch.setattr(maintenance_lease.time, "time", lambda: real() + 3600)
    assert _maintained(table)["snapshot_expiry"].error is None
    monkeypatch.undo()
    assert table.run().state == "fresh"
    assert table.ids() == list(range(90))
    table.holds_everything()
    assert not [name for name in table.iceberg().metadata.refs if name.startswith("tidemark_maintenance_")]


def _maintained(table):
    kinds = ("compaction", "snapshot_expiry")
    found = [g for g in maintain(table.lakehouse.lake, table.contract, kinds) if g.table == table.name]
    assert not [each for each in found if each.error], found
    return {each.kind: each for each in found}
