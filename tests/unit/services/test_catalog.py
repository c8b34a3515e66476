"""Without a server: the one SQLite file as PyIceberg sees it."""

import shutil
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tidemark.domain.errors import Refused
from tidemark.services.catalog import NAME, LocalCatalog


def with_a_table(home: Path) -> Table:
    """The table a.t of a new home; two rows."""
    local = LocalCatalog(home)
    local.create()
    catalog = load_catalog(NAME, **local.pyiceberg())
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", schema=pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": [1, 2]}))
    return table


def test_a_home_with_a_space_in_its_name_holds_its_own_warehouse(tmp_path):
    home = tmp_path / "my home"
    table = with_a_table(home)
    assert table.scan().to_arrow().num_rows == 2
    assert list((home / "warehouse").rglob("*.parquet"))


def test_readers_go_on_while_somebody_commits(tmp_path):
    local = LocalCatalog(tmp_path)
    local.create()
    local.create()
    with sqlite3.connect(local.file) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_spark_and_pyiceberg_are_told_of_the_same_catalog(tmp_path):
    local = LocalCatalog(tmp_path)
    spark, pyiceberg = local.spark(), local.pyiceberg()
    assert spark["spark.sql.catalog.lake.warehouse"] == pyiceberg["warehouse"]
    assert str(local.file) in spark["spark.sql.catalog.lake.uri"]
    assert str(local.file) in pyiceberg["uri"]
    assert spark["spark.sql.catalog.lake.cache-enabled"] == "false"


@pytest.mark.parametrize("put", [shutil.copytree, shutil.move])
def test_a_home_that_was_copied_or_moved_is_refused_by_the_place_where_it_was_made(tmp_path, put):
    """Given a home's files in another place, with its catalog, whose tables lie in the first, then that is named."""
    made, other = tmp_path / "warehouse" / "made", tmp_path / "other"
    with_a_table(made)
    put(made, other)
    with pytest.raises(Refused, match=f"{other} was made at {made}") as told:
        LocalCatalog(other).create()
    assert "move it back" in told.value.next_step


def test_a_copy_that_was_used_before_is_refused_too(tmp_path):
    """Given a copy whose newest metadata was written beside the original's, then the older files that both have tell."""
    made, other = tmp_path / "made", tmp_path / "other"
    with_a_table(made)
    shutil.copytree(made, other)
    load_catalog(NAME, **LocalCatalog(other).pyiceberg()).load_table("a.t").append(pa.table({"x": [3]}))
    with pytest.raises(Refused, match=f"was made at {made}"):
        LocalCatalog(other).create()


def test_a_home_is_its_own_by_whatever_path(tmp_path):
    """Given a link to a home, or one that was put where it had been, then its tables are its own."""
    made, link, moved = tmp_path / "made", tmp_path / "link", tmp_path / "moved"
    with_a_table(made)
    link.symlink_to(made)
    LocalCatalog(link).create()
    made.rename(moved)
    made.symlink_to(moved)
    LocalCatalog(moved).create()
    assert load_catalog(NAME, **LocalCatalog(moved).pyiceberg()).load_table("a.t").scan().count() == 2


def test_tables_from_elsewhere_are_no_sign_of_a_copy(tmp_path):
    """Given tables of another home, of its name or another, and of a warehouse that is none's, then nothing is refused."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    table, own = with_a_table(theirs), with_a_table(ours)
    shutil.copytree(theirs / "warehouse", tmp_path / "warehouse")
    catalog = load_catalog(NAME, **LocalCatalog(ours).pyiceberg())
    catalog.register_table("a.u", table.metadata_location)
    catalog.rename_table("a.t", "a.before")
    catalog.register_table("a.t", table.metadata_location)
    elsewhere = table.metadata_location.replace(str(theirs), str(tmp_path))
    catalog.register_table("a.v", elsewhere)
    LocalCatalog(ours).create()
    assert catalog.load_table("a.before").metadata_location == own.metadata_location
