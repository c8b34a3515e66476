"""A file that a running stage may be writing, or another table names, is no orphan, however short `older_than` is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.refs import SnapshotRefType
from pyspark.errors import PySparkException

from tidemark.domain.config.contract import Orphans
from tidemark.domain.errors import Overtaken
from tidemark.engine.maintain import orphans
from tidemark.engine.maintain.orphans import VANISHED, _listed, cutoff

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


class Listing:
    """Spark as `_listed` asks it: each answer is rows or what the listing failed with."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.call = lambda *words: " ".join(words)

    def spark(self):
        return SimpleNamespace(sql=lambda _: SimpleNamespace(collect=self.collect))

    def collect(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_listing_that_lost_a_file_to_a_commit_is_made_again(monkeypatch):
    """Given old metadata that a commit deletes while it is listed, then the listing is repeated; any other error is told."""
    monkeypatch.setattr(orphans, "PAUSE", 0.01)
    gone = PySparkException(f"ls: cannot access '00020.metadata.json': {VANISHED}")
    lake = Listing(gone, gone, [{"orphan_file_location": "a"}])
    assert _listed(lake, "shop.orders", NOW) == ["a"]
    with pytest.raises(PySparkException, match="disk full"):
        _listed(Listing(PySparkException("disk full"), []), "shop.orders", NOW)
    with pytest.raises(Overtaken):
        _listed(Listing(*[gone] * 9), "shop.orders", NOW)


def test_a_table_of_any_namespace_in_the_same_folder_is_noticed_and_each_is_asked_once(tmp_path, monkeypatch):
    """Given a table that lies in another's folder, as one does that was renamed, and one that cannot be read, when orphans of several tables are looked for, then the neighbour is named, and every table was loaded once."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    lake = SimpleNamespace(catalog=catalog, locations={})
    columns = pa.schema([("id", pa.int64())])
    for name in ("shop.orders", "sales.orders", "shop.clicks", "marts.broken"):
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
    for name in ("shop.orders", "shop.clicks"):
        catalog.create_table(name, columns)
    catalog.create_table("sales.orders", columns, location=f"file://{tmp_path}/shop/orders")
    broken = catalog.create_table("marts.broken", columns).metadata_location
    Path(broken.removeprefix("file://")).unlink()
    ours = [catalog.load_table(name) for name in ("shop.orders", "shop.clicks")]
    asked, load_table = [], catalog.load_table
    monkeypatch.setattr(catalog, "load_table", lambda name: asked.append(name) or load_table(name))
    assert [orphans._neighbour(lake, each) for each in ours] == ["sales.orders", None]
    assert sorted(each for each in asked if each != "marts.broken") == [
        "sales.orders",
        "shop.clicks",
        "shop.orders",
    ]


def test_a_store_has_one_name_in_all_its_spellings():
    assert orphans._folder("s3a://lake/wf/u/inner/").startswith(orphans._folder("s3://lake/wf/u"))
    assert orphans._folder("file:///w/a") == "file:///w/a/"
    assert orphans._folder("/w/a/") == "/w/a/"
