"""Rule: on an object store tables are loaded, maintained and told of as on a disk."""

import oracle
import pytest
from elsewhere import spark_with
from object_store import BUCKET, Store, on_store

from tidemark.domain.maintenance import compaction
from tidemark.engine.lane import catch_up
from tidemark.engine.maintain.maintain import maintain

SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 1}}


@pytest.fixture(scope="module")
def spark_on_s3(tmp_path_factory, always_stopped):
    home = tmp_path_factory.mktemp("s3")
    with always_stopped(home), spark_with("aws", home) as remote:
        yield remote


@pytest.fixture
def store():
    made = Store()
    yield made
    made.stop()


@pytest.fixture
def lakehouse(stack, spark_on_s3, store, tmp_path):
    made = on_store(stack, spark_on_s3, store, tmp_path)
    yield made
    made.kill_runs()
    made.close()


@pytest.mark.long
def test_a_table_on_an_object_store_is_maintained_and_an_outage_moves_nothing(lakehouse, store, monkeypatch):
    """Given microbatches, old strange files and snapshots nobody needs, when maintained, then every row and only what is needed is left; when the store is away, then `store_down`, and the next run continues."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 1)
    topic = lakehouse.cluster.topic("bucket", 4)
    table = lakehouse.table(topic, maintenance=SOON, quarantine={"fail": 1})
    topic.send_raw([(None, b"poison", 0)])
    for batch in range(4):
        topic.send(range(batch * 10, batch * 10 + 10))
        outcome = table.run()
        assert outcome.state == "fresh", outcome.error
    store.grow_old(9)
    data = f"{table.iceberg().location()}/data"
    assert data.startswith(f"s3://{BUCKET}/")
    store.put(f"{data}/old.parquet", days_old=4)
    store.put(f"{data}/young.parquet")
    planned = maintained(lakehouse, table, dry_run=True)
    assert planned["orphan_files"].plan["files"] == [f"{data}/old.parquet"]
    assert planned["orphan_files"].numbers["orphan_bytes"] == len(b"nobody's")
    before = manifest_lists(store)
    done = maintained(lakehouse, table)
    assert done["compaction"].acted
    assert done["snapshot_expiry"].numbers["files_deleted"] > 0
    assert done["orphan_files"].numbers["files_deleted"] == 1
    assert len(manifest_lists(store) & before) < len(before) / 2
    left = {key.rpartition("/")[2] for key in store.listed()}
    assert "young.parquet" in left
    assert "old.parquet" not in left
    assert table.ids() == list(range(40))

    topic.send(range(40, 50))
    location = table.iceberg().metadata_location
    monkeypatch.setattr(catch_up, "RETRIES", 0)
    store.stop()
    assert table.run().state == "store_down"
    error = next(maintain(lakehouse.lake, table.contract, ("orphan_files",))).error
    assert error["state"] == "store_down"
    store.start()
    assert table.run().state == "fresh"
    assert oracle.ledgers(table.iceberg())[-1]["from"] != {}
    assert table.iceberg().metadata_location != location
    assert table.ids() == list(range(50))
    table.holds_everything()


def manifest_lists(store):
    """One per snapshot that is not expired."""
    return {key for key in store.listed() if "/metadata/snap-" in key}


def maintained(lakehouse, table, **how):
    found = [g for g in maintain(lakehouse.lake, table.contract, **how) if g.table == table.name]
    assert not [each for each in found if each.error], found
    return {each.kind: each for each in found}
