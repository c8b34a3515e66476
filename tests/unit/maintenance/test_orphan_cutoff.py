"""A file that a running stage may be writing is no orphan, however short `older_than` is."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from pyiceberg.table.refs import SnapshotRefType

from tidemark.domain.config.contract import Orphans
from tidemark.engine.maintain.orphans import cutoff

NOW = datetime(2026, 1, 10, tzinfo=UTC)
DAY_MS = 86_400_000


def ms(at):
    return int(at.timestamp() * 1000)


def metadata(branch_made):
    """A table whose head is five days old; one attempt branched off it at `branch_made`."""
    head = NOW - timedelta(days=5)
    refs = {
        "main": SimpleNamespace(snapshot_ref_type=SnapshotRefType.BRANCH, snapshot_id=1, max_ref_age_ms=None)
    }
    if branch_made:
        age = DAY_MS + ms(branch_made) - ms(head)
        refs["tidemark_x_a"] = SimpleNamespace(
            snapshot_ref_type=SnapshotRefType.BRANCH, snapshot_id=1, max_ref_age_ms=age
        )
    snapshot = SimpleNamespace(snapshot_id=1, parent_snapshot_id=None, timestamp_ms=ms(head), summary=None)
    return SimpleNamespace(snapshots=[snapshot], refs=refs, current_snapshot_id=1)


@pytest.mark.parametrize(
    ("older_than", "branch_made", "before"),
    [
        (timedelta(days=3), None, NOW - timedelta(days=3)),
        (timedelta(hours=1), None, NOW - timedelta(days=1, minutes=1)),
        (timedelta(days=3), NOW - timedelta(hours=23), NOW - timedelta(days=3)),
        (timedelta(hours=1), NOW - timedelta(days=3), NOW - timedelta(days=1, minutes=1)),
    ],
)
def test_the_cutoff(older_than, branch_made, before):
    assert cutoff(metadata(branch_made), Orphans(older_than=older_than), NOW) == before
