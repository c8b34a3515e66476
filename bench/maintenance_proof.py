"""Hundreds of microbatches with upserts, maintained meanwhile; then every offset, the map and time travel are checked.

    tidemark services up
    python bench/maintenance_proof.py --batches 300

The same as tests/spark/proof/test_maintenance_meanwhile.py, longer, with what it costs over time.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlparse

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
import lakehouse as made_for_tests
from changes import Changes, Upkeep

from tidemark.services.stack import Stack

MAINTENANCE = {"compaction": {"min_input_files": 4}, "snapshots": {"max_age": "30s", "min_keep": 20}}
MERGE_EVERY, MAINTAIN_EVERY, TELL_EVERY = 6, 15, 30


def prove(lakehouse: made_for_tests.Lakehouse, batches: int) -> None:
    """Run, and tell every so often what a batch and a plan cost by now."""
    changes = Changes(lakehouse, maintenance=MAINTENANCE)
    upkeep = Upkeep(changes)
    took = 0.0
    for batch in range(1, batches + 1):
        changes.send()
        if batch % MAINTAIN_EVERY == 0:
            upkeep.start()
        began = time.perf_counter()
        changes.ingest()
        took += time.perf_counter() - began
        if batch % MERGE_EVERY == 0:
            changes.merge()
        if batch % TELL_EVERY == 0:
            table = changes.append.iceberg()
            began = time.perf_counter()
            files = len(list(table.scan().plan_files()))
            planning = (time.perf_counter() - began) * 1000
            size = Path(urlparse(table.metadata_location).path).stat().st_size / 1024
            print(
                f"{batch:>5} batches: {took / TELL_EVERY:.2f} s each, {files} files, planned in {planning:.0f} ms, "
                f"{len(table.metadata.snapshots)} snapshots, metadata.json {size:.0f} KiB",
                flush=True,
            )
            took = 0.0
    upkeep.end()
    changes.ingest()
    changes.merge()
    verdict = changes.hold()
    conflicts = sum(each.numbers.get("conflicts", 0) for each in upkeep.gains)
    print(
        f"{verdict.rows} rows and {verdict.quarantined} in quarantine, each offset once; {len(changes.model)} keys; "
        f"{upkeep.acted('compaction')} compactions and {upkeep.acted('snapshot_expiry')} expiries of tables, "
        f"{conflicts:.0f} conflicts"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=300)
    batches = parser.parse_args().batches
    status = Stack(Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))).status()
    with tempfile.TemporaryDirectory() as folder:
        for lakehouse in made_for_tests.lakehouse(status, Path(folder)):
            prove(lakehouse, batches)


if __name__ == "__main__":
    main()
