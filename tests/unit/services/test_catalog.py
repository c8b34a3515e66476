"""Without a server: the one SQLite file as PyIceberg sees it."""

import sqlite3

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from tidemark.services.catalog import NAME, LocalCatalog


def test_a_home_with_a_space_in_its_name_holds_its_own_warehouse(tmp_path):
    home = tmp_path / "my home"
    local = LocalCatalog(home)
    local.create()
    catalog = load_catalog(NAME, **local.pyiceberg())
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", schema=pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": [1, 2]}))
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
