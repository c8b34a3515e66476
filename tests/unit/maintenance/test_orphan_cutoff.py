"""A file that a running stage may be writing, or another table names, is no orphan, however short `older_than` is."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError, RESTError, ServerError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.refs import SnapshotRefType
from pyspark.errors import PySparkException

from tidemark.domain.config.contract import Orphans
from tidemark.domain.errors import Overtaken
from tidemark.engine.access import metadata_files
from tidemark.engine.access.metadata_files import MetadataFiles
from tidemark.engine.maintain import orphans
from tidemark.engine.maintain.orphans import VANISHED, _listed, cutoff, remove_orphans
from tidemark.engine.table.folder import give_up

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
def test_an_orphan_is_older_than_any_attempt_that_may_still_write(older_than, branch_made, before):
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


COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setattr(metadata_files, "_FILES", MetadataFiles())
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    return SimpleNamespace(catalog=catalog, locations={}, folder=f"file://{tmp_path}")


def made(lake, name, location=None):
    lake.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    place = f"{lake.folder}/{location}" if location else None
    return lake.catalog.create_table(name, COLUMNS, location=place)


def broken(lake, name):
    """A table whose metadata file is gone, as after the restore of a catalog from a backup, and was never read here."""
    Path(made(lake, name).metadata_location.removeprefix("file://")).unlink()
    metadata_files._FILES = MetadataFiles()


def test_a_table_of_any_namespace_in_the_same_folder_is_noticed_and_each_is_asked_once(lake, monkeypatch):
    """Given a table that lies in another's folder, as one does that was renamed, and one that cannot be read, when orphans of several tables are looked for, then the neighbour is named, and every table was loaded once."""
    ours = [made(lake, name) for name in ("shop.orders", "shop.clicks", "shop.views")]
    made(lake, "sales.orders", "shop/orders")
    made(lake, "deep.down.clicks", "shop/clicks/inner")
    broken(lake, "marts.broken")
    asked, load_table = [], lake.catalog.load_table
    monkeypatch.setattr(lake.catalog, "load_table", lambda name: asked.append(name) or load_table(name))
    found = [orphans._neighbour(lake, each) for each in ours]
    assert found == [
        "sales.orders lies in the same folder: move it",
        "deep.down.clicks lies in the same folder: move it",
        None,
    ]
    loaded = [each for each in asked if each != "marts.broken"]
    assert sorted(loaded) == ["deep.down.clicks", "sales.orders", "shop.clicks", "shop.orders", "shop.views"]


def test_a_table_that_cannot_be_read_and_may_lie_in_the_folder_keeps_its_files(lake):
    """Given one that had this name before, one whose name this one had, or one of the same namespace, when it cannot be read, then nothing is removed."""
    orders, clicks = made(lake, "shop.orders"), made(lake, "web.clicks", "site/clicks")
    broken(lake, "crm.bought")
    assert orphans._neighbour(lake, orders) is None
    give_up(lake.catalog, "shop.orders", "crm.bought")
    assert orphans._neighbour(lake, orders) == "crm.bought cannot be read, and may lie in the same folder"
    assert orphans._neighbour(lake, clicks) is None
    broken(lake, "site.clicks")
    assert orphans._neighbour(lake, clicks) == "site.clicks cannot be read, and may lie in the same folder"
    broken(lake, "shop.views")
    assert orphans._neighbour(lake, orders) == "shop.views cannot be read, and may lie in the same folder"


def test_namespaces_that_are_others_or_gone_meanwhile_hold_no_neighbour(lake, monkeypatch):
    """Given a catalog that lets nobody list another's namespace, one that is dropped as it is looked into, or no nested ones, then orphans are looked for; not when its own does not answer."""
    ours = made(lake, "shop.orders")
    made(lake, "sales.orders", "shop/orders")
    list_tables = lake.catalog.list_tables
    for namespace, answer in (
        ("theirs", ForbiddenError("no rights")),
        ("glue", type("AccessDeniedException", (Exception,), {})()),
        ("gone", NoSuchNamespaceError("gone")),
        ("flat", BadRequestError("nested namespaces are not supported")),
    ):
        lake.catalog.create_namespace(namespace)
        denied = {(namespace,): answer}

        def answers(space, denied=denied):
            if space in denied:
                raise denied[space]
            return list_tables(space)

        monkeypatch.setattr(lake.catalog, "list_tables", answers)
        assert orphans._neighbour(lake, ours) == "sales.orders lies in the same folder: move it"
        denied["shop",] = answer
        with pytest.raises(type(answer)):
            orphans._neighbour(lake, ours)
    denied["theirs",] = RESTError("500")
    with pytest.raises(RESTError):
        orphans._neighbour(lake, made(lake, "marts.orders"))


def test_a_table_that_alone_does_not_answer_keeps_no_orphans_of_others(lake, monkeypatch):
    """Given another namespace's table, when loading it fails at all times, then orphans go; not when it fails once and lies in the folder, is of the same namespace, or nothing answers."""
    monkeypatch.setattr(orphans, "PAUSE", 0.01)
    ours, near = made(lake, "shop.orders"), made(lake, "marts.daily")
    made(lake, "sales.orders", "shop/orders")
    fails, load_table = {"sales.orders": 99}, lake.catalog.load_table

    def answers(identifier):
        if fails.get(identifier, 0) > 0:
            fails[identifier] -= 1
            raise ServerError("500")
        return load_table(identifier)

    monkeypatch.setattr(lake.catalog, "load_table", answers)
    assert orphans._neighbour(lake, ours) is None
    fails["sales.orders"] = 1
    assert orphans._neighbour(lake, ours) == "sales.orders lies in the same folder: move it"
    made(lake, "marts.weekly")
    fails["marts.weekly"] = 99
    assert orphans._neighbour(lake, near) == "marts.weekly cannot be read, and may lie in the same folder"
    fails["shop.orders"] = 99
    with pytest.raises(ServerError):
        orphans._neighbour(lake, ours)


@pytest.mark.parametrize("spelled", ["file:{}", "{}", "file://{}"])
def test_a_table_in_the_same_folder_is_noticed_however_its_location_is_spelled(lake, tmp_path, spelled):
    """Given tables that lie in each other's folder under another spelling of their places, then nothing is removed."""
    ours = made(lake, "shop.orders")
    inner = lake.catalog.create_table("shop.inner", COLUMNS, spelled.format(f"{tmp_path}/shop/orders/inner"))
    made(lake, "sales.orders", "shop/orders/inner/most")
    assert orphans._neighbour(lake, ours) == "shop.inner lies in the same folder: move it"
    assert orphans._neighbour(lake, inner) == "sales.orders lies in the same folder: move it"


@pytest.mark.parametrize(
    ("inner", "outer", "lies"),
    [
        ("s3a://lake/wf/u/inner/", "s3://lake/wf/u", True),
        ("abfs://lake@wf/u/inner", "abfss://lake@wf//u/", True),
        ("hdfs:///wf/u", "hdfs://host/wf/u", True),
        ("s3://other/wf/u", "s3://lake/wf/u", False),
        ("s3://lake/wf/u2", "s3://lake/wf/u", False),
        ("s3://lake/wf", "s3://lake/wf/u", False),
        ("file:/wf/u:2", "/wf/u", False),
        ("/wf/u:2/v", "file:///wf/u:2", True),
    ],
)
def test_a_folder_is_in_another_by_store_and_path(inner, outer, lies):
    assert orphans._may_lie_in(inner, outer) == lies


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_time_for_orphans_is_spent_on_removing_them(lake, monkeypatch, dry_run):
    """Given more orphans than there is time for, then those go that it was enough for, and the reason says so; a dry run takes the sizes of all."""
    table, clock = made(lake, "shop.orders"), SimpleNamespace(now=0.0)
    table.append(pa.table({"id": [1]}))
    folder = Path(table.location().removeprefix("file://"))
    files = [folder / f"data/nobodys_{n}.parquet" for n in range(10)]
    for each in files:
        each.write_bytes(b"12345")
    files[0].unlink()

    def new_input(self, location):
        clock.now += "nobodys" in location
        return looked_at(self, location)

    looked_at = PyArrowFileIO.new_input
    monkeypatch.setattr(orphans, "PARALLEL", 1)
    monkeypatch.setattr(orphans, "_neighbour", lambda *_: None)
    monkeypatch.setattr(orphans, "_listed", lambda *_: [f"file://{each}" for each in files])
    monkeypatch.setattr(orphans, "lease", lambda *_: nullcontext())
    monkeypatch.setattr(orphans, "time", SimpleNamespace(monotonic=lambda: clock.now, perf_counter=int))
    monkeypatch.setattr(PyArrowFileIO, "new_input", new_input)
    gain = remove_orphans(lake, "shop.orders", Orphans(), until=5.5, dry_run=dry_run)
    left = [each.exists() for each in files]
    if dry_run:
        assert left == [False] + [True] * 9
        assert (gain.numbers["files_deleted"], gain.numbers["orphan_bytes"]) == (0, 45)
    else:
        assert left == [False] * 6 + [True] * 4
        assert (gain.numbers["files_deleted"], gain.numbers["orphan_bytes"]) == (5, 25)
    assert ("its time was up after 6 of them" in gain.reason) != dry_run
