"""Rule: maintenance may die at any line; the table is right, ingest is not held up, and someone else takes over."""

import os
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

import pytest
from lakehouse import Run
from topics import order
from waiting import until

from tidemark.domain.maintenance import compaction
from tidemark.engine.maintain.foreign_retention import is_aside
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.table import lease as maintenance_lease
from tidemark.engine.table.lease import LEASE
from tidemark.engine.verify.reconcile import reconcile

SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 1}}
FOREIGN = "history.expire.max-ref-age-ms"
DAY_MS = 86_400_000


@pytest.fixture
def eager(monkeypatch):
    """What the maintenance that takes over does, as the one that is killed."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    monkeypatch.setattr(compaction, "MANY_MANIFESTS", 2)


STAGES = {
    "writing": {"in the middle": True},
    "compaction": {
        "compaction_planned": False,
        "in the middle": True,
        "compacted": True,
        "manifests_rewritten": True,
    },
    "expiry": {"expiry_planned": False, "retention_aside": True, "expired": True, "orphans_listed": False},
}
"""Where maintenance dies, and whether it then holds its lease."""


@pytest.mark.parametrize(
    ("format_version", "stages"),
    [
        (2, "writing"),
        *(pytest.param(n, each, marks=pytest.mark.long) for n in (2, 3) for each in ("compaction", "expiry")),
    ],
)
def test_maintenance_killed_at_any_stage_is_continued(lakehouse, eager, monkeypatch, format_version, stages):
    """Given microbatches, when maintenance dies at each of its stages while a batch comes in, then nothing is lost, its lease keeps others away, and ends; what it had moved out of its way is put back."""
    topic = lakehouse.cluster.topic("upkeep", 2)
    table = lakehouse.table(topic, maintenance=SOON, format_version=format_version)
    sent = feed(topic, table, 0)
    lakehouse.spark().sql(f"ALTER TABLE {table.name} CREATE TAG audit")
    lakehouse.spark().sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{FOREIGN}' = '{400 * DAY_MS}')")
    strange = Path(urlparse(table.iceberg().location()).path) / "data" / "old.parquet"
    for point, held in STAGES[stages].items():
        sent = feed(topic, table, sent)
        strange.write_bytes(b"nobody's")
        os.utime(strange, (time.time() - 4 * 86_400,) * 2)
        sent = killed(lakehouse, topic, table, sent, point)
        if held:
            assert "another maintenance holds it" in maintained(table)["snapshot_expiry"].reason
        with much_later(monkeypatch):
            maintained(table, "compaction", "snapshot_expiry", "orphan_files")
        metadata = table.iceberg().metadata
        assert table.ids() == list(range(sent)), f"killed at {point}"
        assert not [name for name in metadata.refs if name.startswith("tidemark_maintenance_")]
        assert not is_aside(metadata)
        assert metadata.properties[FOREIGN] == str(400 * DAY_MS)
        assert "audit" in metadata.refs
        assert not strange.exists()
    assert table.run().state == "fresh"
    table.holds_everything()


@pytest.mark.parametrize(
    "point", [pytest.param("retention_noted", marks=pytest.mark.long), "retention_deleted"]
)
def test_retention_killed_at_any_stage_is_continued(lakehouse, monkeypatch, point):
    """Given rows beyond their retention, when the maintenance that deletes them dies, then the next one ends it, and no offset counts as a gap in between."""
    topic = lakehouse.cluster.topic("aging", 1)
    table = lakehouse.table(topic, maintenance=SOON, retention={"append": "30d"})
    old = int(time.time() * 1000) - 40 * DAY_MS
    producer = topic._new_producer()
    for n in range(10):
        producer.produce(topic.name, topic.encode(order(n)), str(n).encode(), 0, timestamp=old)
    producer.flush(30)
    sent = feed(topic, table, 10)
    sent = killed(lakehouse, topic, table, sent, point)
    assert reconcile(lakehouse.lake, table.contract).sound
    with much_later(monkeypatch):
        maintained(table)
    assert table.ids() == list(range(10, sent))
    assert table.run().state == "fresh"
    assert reconcile(lakehouse.lake, table.contract).sound


def feed(topic, table, sent, batches=2):
    """Microbatches of ten; how many records there are then."""
    for _ in range(batches):
        topic.send(range(sent, sent + 10))
        sent += 10
        outcome = table.run()
        assert outcome.error is None, outcome.error
    return sent


def killed(lakehouse, topic, table, sent, point):
    """Maintenance in a process of its own, SIGKILLed at `point` while a batch comes in; as `feed`."""
    at = "compaction_planned" if point == "in the middle" else point
    run = Run.start(lakehouse, [table.name], pause_at=at, environment={"HEADLESS": "maintain"})
    run.reaches_its_pause()
    if point == "in the middle":
        run.release()
        until(lambda: any("maintenance_" in name for name in table.iceberg().metadata.refs), "the lease")
    else:
        sent = feed(topic, table, sent, batches=1)
    run.kill()
    if point == "in the middle":
        time.sleep(1)  # the server goes on with what the dead client began
        sent = feed(topic, table, sent, batches=1)
    return sent


@contextmanager
def much_later(monkeypatch):
    """When every lease of the dead has ended."""
    real = time.time
    with monkeypatch.context() as later:
        later.setattr(maintenance_lease.time, "time", lambda: real() + 2 * LEASE.total_seconds())
        yield


def maintained(table, *kinds):
    chosen = kinds or ("compaction", "snapshot_expiry")
    found = [g for g in maintain(table.lakehouse.lake, table.contract, chosen) if g.table == table.name]
    assert not [each for each in found if each.error], found
    return {each.kind: each for each in found}
