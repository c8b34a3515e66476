"""`run --dry-run` says what a run would read, from the catalog and the topics' offsets alone."""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access import kafka
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.table_state import PAUSED

PLATFORM = """
kafka: {{main: {{bootstrap.servers: "127.0.0.1:1"}}}}
schema_registry: {{main: {{url: "http://127.0.0.1:1"}}}}
catalog: {{name: lake, type: sql, uri: "sqlite:///{home}/catalog.db", warehouse: "file://{home}"}}
spark: {{remote: "sc://127.0.0.1:{port}"}}
"""
ROW = pa.table({"id": pa.array([1], pa.int64())})
NOTHING = {"read": 0, "written": 0, "quarantined": 0, "tombstones": 0, "skipped": 0}


@pytest.fixture
def spark() -> Iterator[socket.socket]:
    """Who listens where Spark would, and is never asked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: socket.socket) -> Path:
    """Topics with offsets up to 10 and 4, of which shop.orders has read up to 3; shop.new has never been loaded."""
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for name, more in {"orders": "upsert: {keys: [id]}\n", "new": ""}.items():
        said = f"topic: {name}\ntable: shop.{name}\nvalue: {{format: json, fields: {{id: bigint}}}}\n{more}"
        (contracts / f"{name}.yaml").write_text(said)
    platform = PLATFORM.format(home=tmp_path, port=spark.getsockname()[1])
    (tmp_path / "platform.yaml").write_text(platform)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(contracts))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)  # no broker is there
    monkeypatch.setattr(KafkaAdmin, "describe_each", _topics)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", start={0: 1}, next={0: 3})
    table = catalog.create_table("shop.orders", ROW.schema)
    table.append(ROW, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    return tmp_path


def _topics(_admin: KafkaAdmin, names: Sequence[str], **_options: object) -> Mapping[str, Topic]:
    return {each: Topic(each, "c", "t", {0: 2, 1: 0}, {0: 10, 1: 4}, {0: 10, 1: 4}) for each in names}


def _told(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    told = CliRunner().invoke(app, ["run", "--dry-run", *words, "--json"])
    return told.exit_code, {each["table"]: each for each in json.loads(told.stdout)}


def _files(home: Path) -> set[Path]:
    return {each for each in home.rglob("*") if each.is_file()}


def test_a_dry_run_says_what_would_be_read_and_does_nothing(home: Path) -> None:
    """Given a table that lags, its upsert table that was never merged and a new table, when they are run dry, then each has where it would begin and end, and no file was written."""
    before = _files(home)
    code, found = _told()
    assert (code, list(found)) == (0, ["shop.new", "shop.orders", "shop.orders_current"])
    ends = {"0": 10, "1": 4}
    places = {table: (each["from"], each["next"]) for table, each in found.items()}
    assert places == {
        "shop.new": ({"0": 2, "1": 0}, ends),
        "shop.orders": ({"0": 3, "1": 0}, ends),
        "shop.orders_current": ({"0": 1, "1": 0}, ends),
    }
    assert all(
        (each["commits"], each["rows"], each["error"]) == (0, NOTHING, None) for each in found.values()
    )
    assert _files(home) == before
    shown = CliRunner().invoke(app, ["run", "--dry-run"])
    assert (shown.exit_code, "nothing was read or written" in shown.stdout) == (0, True)
    assert [line.split()[-1] for line in shown.stdout.splitlines()[1:4]] == ["12", "11", "13"]


def test_an_upsert_table_alone_would_merge_what_its_append_table_has() -> None:
    code, found = _told("shop.orders_current")
    assert (code, list(found)) == (0, ["shop.orders_current"])
    assert (found["shop.orders_current"]["from"], found["shop.orders_current"]["next"]) == (
        {"0": 1},
        {"0": 3},
    )


def test_a_dry_run_of_a_table_that_is_paused_is_a_finding_and_reads_nothing(home: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    with catalog.load_table("shop.orders").transaction() as change:
        change.set_properties({PAUSED: "ada"})
    code, found = _told("shop.orders")
    orders, current = found["shop.orders"], found["shop.orders_current"]
    assert (code, orders["state"], orders["error"]["state"]) == (1, "paused", "paused")
    assert orders["from"] == orders["next"] == {"0": 3, "1": 0}
    assert (current["next"], current["error"]) == ({"0": 3, "1": 0}, None)


def test_a_dry_run_says_that_a_run_would_wait_for_spark(spark: socket.socket) -> None:
    spark.close()
    code, found = _told("shop.new")
    assert (code, found["shop.new"]["error"]["state"]) == (1, "spark_down")
    assert found["shop.new"]["from"] == found["shop.new"]["next"] == {"0": 2, "1": 0}


def test_where_no_load_can_begin_a_dry_run_says_so_as_a_run_would(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a new table that begins where a consumer group is, which has committed nothing, then that is its error."""
    monkeypatch.setattr(KafkaAdmin, "group_offsets", lambda *_: {})
    contract = home / "contracts" / "new.yaml"
    contract.write_text(contract.read_text() + "ingest: {start: {consumer_group: old}}\n")
    code, found = _told("shop.new")
    assert (code, found["shop.new"]["state"], found["shop.new"]["from"]) == (1, "misconfigured", {})
    assert "consumer group old has committed nothing" in found["shop.new"]["error"]["message"]
    told = CliRunner().invoke(app, ["status", "shop.new", "--json"])
    [stands] = json.loads(told.stdout)
    assert (stands["state"], stands["lag_records"]) == ("misconfigured", None)
