"""`tidemark where` for topics that several contracts read, or none; no service runs."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access import kafka
from tidemark.engine.access.lake import Lake
from tidemark.engine.config import discovery
from tidemark.engine.verify.where import MOST

PLATFORM = """
kafka: {main: {bootstrap.servers: "127.0.0.1:1"}, other: {bootstrap.servers: "127.0.0.1:1"}}
schema_registry: {main: {url: "http://127.0.0.1:1"}, other: {url: "http://127.0.0.1:1"}}
catalog: {name: lake, type: sql, uri: "sqlite:///%s/catalog.db", warehouse: "file://%s"}
spark: {remote: "sc://127.0.0.1:1"}
"""
PARTITIONS = {"main": 2, "other": 6}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for cluster in PARTITIONS:
        said = f"topic: orders\ncluster: {cluster}\ntable: {cluster}.orders\nvalue: {{format: json}}\n"
        (contracts / f"{cluster}.yaml").write_text(said)
    (tmp_path / "platform.yaml").write_text(PLATFORM % (tmp_path, tmp_path))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(contracts))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _topic(_lake: Lake, contract: Contract, **_options: object) -> Topic:
    ends = dict.fromkeys(range(PARTITIONS[contract.cluster]), 0)
    return Topic(contract.topic, "c", "t", ends, ends, ends)


def test_a_partition_that_only_one_cluster_has_is_looked_for_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a topic of one name on two clusters, when a record is asked for in a partition that one of them has, then its table answers; where neither has it, both are named."""
    monkeypatch.setattr(Lake, "topic", _topic)
    told = CliRunner().invoke(app, ["where", "orders", "5:0", "--json"])
    assert (told.exit_code, [each["table"] for each in json.loads(told.stdout)]) == (0, ["other.orders"])
    assert "topic orders of cluster main has partitions [0, 1], not 5" in told.stderr
    nowhere = CliRunner().invoke(app, ["where", "orders", "6:0", "--json"])
    error = json.loads(nowhere.stdout)["error"]
    assert (nowhere.exit_code, error["kind"], error["next_step"]) == (2, "Refused", "name one of these")
    assert all(f"of cluster {each} has" in error["message"] for each in PARTITIONS)


def test_the_cluster_of_a_topic_that_only_one_has_goes_without_saying(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lake, "topic", _topic)
    (home / "contracts" / "other.yaml").unlink()
    told = CliRunner().invoke(app, ["where", "orders", "5:0", "--json"])
    assert json.loads(told.stdout)["error"]["message"] == "topic orders has partitions [0, 1], not 5"


def test_a_topic_that_a_pattern_leaves_out_is_told_with_its_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a pattern that would put two topics into one table, when commands begin, then stderr says which topic is left out, stdout stays one document; who asks for a record of it reads why."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)  # no broker is there
    for each in (home / "contracts").iterdir():
        each.unlink()
    (home / "contracts" / "all.yaml").write_text("topics: '^(?P<name>[a-z]+)-?$'\ntable: shop.{name}\n")
    topics = {each: {"partitions": 1} for each in ("orders", "orders-")}
    discovery.update(home / "home", lambda seen: seen.with_topics("main", topics))
    why = "topic orders- is left out: "
    for words in (["status"], ["plan"], ["where", "orders", "0:0"]):
        told = CliRunner().invoke(app, [*words, "--json"])
        assert [each["table"] for each in json.loads(told.stdout)] == ["shop.orders"]
        assert why in told.stderr
    assert "table shop.orders (topic orders-) is also made by" in told.stderr
    told = CliRunner().invoke(app, ["where", "orders-", "0:0", "--json"])
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["kind"], error["message"][: len(why)]) == (2, "Refused", why)


def test_a_record_that_is_nested_deep_is_shown_without_its_depth(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a quarantined record with lists in lists, when it is asked for, then the cause is shown, and JSON has the depth."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)  # no broker is there
    (home / "contracts" / "other.yaml").unlink()
    _quarantined(home, [b"[" * 600 + b"]" * 600])
    words = ["where", "orders", "--key", "k"]
    (found,) = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert str(found["record"]["decoded"]).startswith("[" * 600)
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0
    assert "cause: undecodable" in shown.stdout
    assert "decoded: nested too deep" in shown.stdout


def test_of_a_key_with_many_records_is_told_how_many_are_not_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given more records of a key than are told, then stderr says of how many; not where all are there."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)  # no broker is there
    (home / "contracts" / "other.yaml").unlink()
    _quarantined(home, [b"x"] * MOST)
    words = ["where", "orders", "--key", "k", "--json"]
    told = CliRunner().invoke(app, words)
    assert (len(json.loads(told.stdout)), "of this key" in told.stderr) == (MOST, False)
    _quarantined(home, [b"x"])
    told = CliRunner().invoke(app, words)
    assert len(json.loads(told.stdout)) == MOST
    assert f"main.orders: the newest {MOST} of {MOST + 1} records of this key" in told.stderr


def _quarantined(home: Path, values: list[bytes]) -> None:
    """Records of main.orders, all of offset 0 and key `k`, that wait in its quarantine; the table itself has another."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace_if_not_exists("main")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    place = {"topic": "orders", "epoch": 0, "partition": 0, "offset": 0, "timestamp": at, "schema_id": 0}
    held = {"cause": "undecodable", "detail": "a list", "quarantined_at": at}
    marks = {"run_id": "r", "batch_id": "b", "resolved_by": "", "resolved_at": at}
    kept = pa.Table.from_pylist([{**place, "key": b"k", "value": b"", **held, **marks}]).schema
    rows = [{**place, "key": b"k", "value": each, **held, "run_id": "r", "batch_id": "b"} for each in values]
    quarantine = catalog.create_table_if_not_exists("main.orders_quarantine", kept)
    quarantine.append(pa.Table.from_pylist(rows, kept))
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", start={0: 0}, next={0: 1})
    row = pa.Table.from_pylist([{"_kafka": {**place, "offset": 1, "key": b"", "tombstone": False}}])
    made = catalog.create_table_if_not_exists("main.orders", row.schema)
    made.append(row, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
