"""Rule: whatever maintenance does meanwhile, the append table is the topic and the upsert table is the map."""

import oracle
import pytest
from changes import Changes, Upkeep

from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.table.operations import Signature

SOON = {"compaction": {"min_input_files": 2}, "snapshots": {"max_age": "1s", "min_keep": 4}}
ADA = Signature("ada", "a test", "run")
MERGE_EVERY, MAINTAIN_EVERY = 4, 6


@pytest.mark.long
@pytest.mark.parametrize("batches", [18, 60])
def test_microbatches_with_upserts_and_maintenance_meanwhile(lakehouse, batches):
    """Given changes by key and maintenance on schedule, when someone adds a column, rolls back and replays meanwhile, then no row is lost, twice or back, kept snapshots can be read and the ledger is found."""
    made = Changes(lakehouse, maintenance=SOON)
    upkeep = Upkeep(made)
    spark, name = lakehouse.spark(), made.append.name
    for batch in range(1, batches + 1):
        made.send()
        if batch % MAINTAIN_EVERY == 0:
            upkeep.start()
        made.ingest()
        if batch % MERGE_EVERY == 0:
            made.merge()
        if batch == batches // 6:
            spark.sql(f"ALTER TABLE {name} CREATE TAG audit")
            rows = spark.sql(f"SELECT count(*) AS n FROM {name} VERSION AS OF 'audit'").collect()[0]["n"]
        if batch == batches // 4:
            spark.sql(f"ALTER TABLE {name} ADD COLUMN note string AFTER v")
        if batch == batches // 2:
            undone = oracle.ledgers(made.append.iceberg())[-2]["snapshot_id"]
            spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {undone})").collect()
        if batch == batches * 2 // 3:
            replay_range(lakehouse.lake, made.append.contract, 0, 0, 10, ADA)
    upkeep.end()
    made.ingest()
    made.merge()
    assert upkeep.acted("compaction") >= 2
    assert upkeep.acted("snapshot_expiry") >= 2
    made.hold()
    again = spark.sql(f"SELECT count(*) AS n FROM {name} VERSION AS OF 'audit'").collect()[0]["n"]
    assert again == rows
    assert len(made.append.iceberg().metadata.snapshots) < batches, "the metadata stays small"
