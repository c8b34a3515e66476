"""Parsed metadata is used again for the very same file alone, and is bounded."""

import gzip
import json
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyiceberg.table.snapshots
import pyiceberg.table.update
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.types import StringType

from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.maintenance.snapshot_keep import LEDGER_ROOM
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.metadata_files import MetadataFiles, _parsed, _parsed_on, commit
from tidemark.engine.config.configuration import load
from tidemark.engine.table.branch import ref_at

ROWS = pa.table({"id": [1]})


@dataclass
class Metadata:
    snapshots: list[Snapshot]


def of(snapshots, ledger=""):
    summary = Summary(Operation.APPEND, **{LEDGER_PROPERTY: ledger})
    return Metadata(
        [
            Snapshot(snapshot_id=n, timestamp_ms=0, manifest_list="m", summary=summary)
            for n in range(snapshots)
        ]
    )


def test_only_the_newest_file_of_a_table_is_known():
    files, old, new = MetadataFiles(), of(1), of(2)
    assert files.keep("a/1.json", old) is old
    assert files.find("a/1.json") is old
    files.keep("a/2.json", new)
    assert (files.find("a/1.json"), files.find("a/2.json"), files.find("b/2.json")) == (None, new, None)


def test_tables_that_were_looked_at_longest_ago_make_room():
    files = MetadataFiles(room=100)
    for name in "abc":
        files.keep(f"{name}/1.json", of(20))
    files.find("a/1.json")
    files.keep("d/1.json", of(20))
    assert [name for name in "abcd" if files.find(f"{name}/1.json")] == ["a", "c", "d"]
    files.keep("e/1.json", of(1000))
    assert [name for name in "abcde" if files.find(f"{name}/1.json")] == ["e"], (
        "the next look asks for it again"
    )


def test_snapshots_with_long_ledgers_take_more_room():
    """Given a table of 500 partitions, then as many of its snapshots as another's keep less of others in memory."""
    files = MetadataFiles(room=100)
    files.keep("a/1.json", of(20))
    files.keep("b/1.json", of(20, "x" * 400))
    files.keep("c/1.json", of(3, "x" * 45_000))
    assert [name for name in "abc" if files.find(f"{name}/1.json")] == ["b", "c"]


def test_tables_whose_ledgers_fill_their_room_leave_others_theirs():
    """Given two tables of 500 partitions with as many snapshots as maintenance leaves them, then a third stays known beside them."""
    files, ledger = MetadataFiles(), "x" * 45_500
    files.keep("a/1.json", of(2000))
    for name in "bc":
        files.keep(f"{name}/1.json", of(2 * LEDGER_ROOM // len(ledger), ledger))
    assert [name for name in "abc" if files.find(f"{name}/1.json")] == ["a", "b", "c"]


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    """That of a lake; PyIceberg reads as it came until the lake opens it."""
    monkeypatch.setattr(FromInputFile, "table_metadata", staticmethod(_parsed))
    platform = tmp_path / "platform.yaml"
    platform.write_text(
        "kafka: {default: {bootstrap.servers: 'h:1'}}\nspark: {remote: 'sc://h:1'}\n"
        f"catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db', warehouse: 'file://{tmp_path}'}}\n"
    )
    catalog = Lake(load(platform, tmp_path / "contracts", environ={}, home=tmp_path)).catalog
    catalog.create_namespace("n")
    catalog.create_table("n.t", ROWS.schema).append(ROWS)
    yield catalog
    catalog.close()


@pytest.fixture
def opened(monkeypatch):
    """Locations of the metadata files that were opened."""
    found, new_input = [], PyArrowFileIO.new_input

    def counted(self, location):
        file = new_input(self, location)
        plain = file.open
        file.open = lambda *args, **options: found.append(location) or plain(*args, **options)
        return file

    monkeypatch.setattr(PyArrowFileIO, "new_input", counted)
    return found


def test_a_file_is_parsed_once_and_what_was_committed_here_never(catalog, opened):
    table = catalog.load_table("n.t")
    head = table.metadata.current_snapshot_id
    opened.clear()
    commit(table, (), (ref_at("mine", "branch", head),))
    assert catalog.load_table("n.t").metadata == table.metadata
    assert [name for name in opened if name.endswith(".metadata.json")] == []


def test_a_commit_leaves_the_metadata_before_it_as_it_was_and_copies_no_snapshot(catalog):
    table = catalog.load_table("n.t")
    before, text = table.metadata, table.metadata.model_dump_json()
    commit(table, (), (ref_at("mine", "branch", before.current_snapshot_id),))
    table.append(ROWS)
    assert before.model_dump_json() == text
    assert [each.snapshot_id for each in before.snapshots] == [
        each.snapshot_id for each in table.metadata.snapshots[:-1]
    ]
    assert all(old is kept for old, kept in zip(before.snapshots, table.metadata.snapshots, strict=False))
    assert catalog.load_table("n.t").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("legacy", ["false", "true"])
def test_what_is_written_is_all_of_it_and_a_snapshot_is_dumped_once(catalog, monkeypatch, legacy):
    """Given a table of several snapshots, when commits add branches, then each file says what a whole dump says, and no snapshot is dumped again."""
    monkeypatch.setenv("PYICEBERG_LEGACY_CURRENT_SNAPSHOT_ID", legacy)
    catalog.load_table("n.t").append(ROWS)
    table, dumped, dump = catalog.load_table("n.t"), [], Snapshot.model_dump_json
    monkeypatch.setattr(
        Snapshot, "model_dump_json", lambda self, **o: dumped.append(self.snapshot_id) or dump(self, **o)
    )
    for number in range(3):
        commit(table, (), (ref_at(f"b{number}", "branch", table.metadata.current_snapshot_id),))
        written = Path(table.metadata_location.removeprefix("file://")).read_text()
        whole = json.loads(table.metadata.model_dump_json(exclude_none=legacy == "false"))
        assert json.loads(written) == whole
    assert bool(dumped) == (legacy == "false")
    assert len(dumped) == len(set(dumped))
    assert set(dumped) <= {each.snapshot_id for each in table.metadata.snapshots}


def test_a_snapshot_is_found_wherever_it_lies(catalog):
    table = catalog.load_table("n.t")
    for _ in range(3):
        table.append(ROWS)
    found = table.metadata.snapshots
    assert [table.metadata.snapshot_by_id(each.snapshot_id) for each in found] == found
    assert table.metadata.snapshot_by_id(7) is None
    assert list(ancestors(table.metadata, found[2].snapshot_id)) == found[2::-1]
    cut = table.metadata.model_copy(update={"snapshots": found[1:]})
    assert list(ancestors(cut, found[3].snapshot_id)) == found[:0:-1]
    assert list(ancestors(cut, 7)) == list(ancestors(cut, None)) == []


def test_what_another_process_committed_is_read(catalog, opened, tmp_path):
    catalog.load_table("n.t")
    other = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    other.load_table("n.t").append(ROWS)
    other.close()
    opened.clear()
    assert len(catalog.load_table("n.t").metadata.snapshots) == 2
    assert catalog.load_table("n.t").metadata.current_snapshot().summary["total-records"] == "2"
    assert len([name for name in opened if name.endswith(".metadata.json")]) == 1


@pytest.mark.parametrize("version", ["1", "2"])
def test_of_another_process_commit_only_what_is_new_is_parsed(catalog, tmp_path, version):
    """Given metadata that this process knows, when another has added snapshots and a column, then all of it is as a whole parse finds it, and the known snapshots are the very same objects."""
    catalog.create_table("n.u", ROWS.schema, properties={"format-version": version}).append(ROWS)
    known = catalog.load_table("n.u").metadata.snapshots
    other = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    table = other.load_table("n.u")
    table.append(ROWS)
    with table.update_schema() as schema:
        schema.add_column("more", StringType())
    other.close()
    found = catalog.load_table("n.u")
    whole = _parsed(found.io.new_input(found.metadata_location))
    assert found.metadata == whole
    assert found.metadata.model_dump_json() == whole.model_dump_json()
    assert [each is old for each, old in zip(found.metadata.snapshots, known, strict=False)] == [True]
    assert len(found.metadata.snapshots) == 2
    packed = found.metadata_location.replace(".metadata.json", ".gz.metadata.json")
    Path(packed.removeprefix("file://")).write_bytes(gzip.compress(whole.model_dump_json().encode()))
    assert _parsed_on(found.io.new_input(packed), {}) == whole


def test_a_table_of_the_same_name_is_another(catalog):
    before = catalog.load_table("n.t").metadata.table_uuid
    catalog.drop_table("n.t")
    catalog.create_table("n.t", ROWS.schema)
    assert catalog.load_table("n.t").metadata.table_uuid != before


@pytest.mark.parametrize("hours", [-1, 1])
def test_logs_go_forward_whatever_the_clocks_of_those_who_committed_said(catalog, monkeypatch, hours):
    """Given a table that a clock which is an hour wrong has committed to, when another is right again, then no file holds a log that goes back, or one that ends after the file was written: Java would not read it."""
    table = catalog.load_table("n.t")
    table.append(ROWS)
    with monkeypatch.context() as wrong:
        now = time.time() + hours * 3600
        wrong.setattr(pyiceberg.table.snapshots, "time", SimpleNamespace(time=lambda: now))
        wrong.setattr(pyiceberg.table.update, "datetime_to_millis", lambda _: int(now * 1000))
        table.append(ROWS)
        files = [table.metadata_location]
    table.append(ROWS)
    files.append(table.metadata_location)
    for file in files:
        found = json.loads(Path(file.removeprefix("file://")).read_text())
        for log in ("snapshot-log", "metadata-log"):
            times = [*(each["timestamp-ms"] for each in found[log]), found["last-updated-ms"]]
            assert times == sorted(times), log
    assert abs(found["last-updated-ms"] / 1000 - time.time()) < 60, "else Spark cannot write for an hour"
