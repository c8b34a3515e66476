"""`tidemark plan` answers per table: what one table waits for hides no other's plan."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark.cli.main import app

PLATFORM = """
kafka: {main: {bootstrap.servers: "127.0.0.1:1"}}
schema_registry: {main: {url: "http://127.0.0.1:1"}}
catalog: {name: lake, type: sql, uri: "sqlite:///%s/catalog.db", warehouse: "file://%s"}
spark: {remote: "sc://127.0.0.1:1"}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "known.yaml").write_text(
        "topic: known\ntable: shop.known\nvalue: {format: json, fields: {id: bigint}}\n"
    )
    (contracts / "asks.yaml").write_text("topic: asks\ntable: shop.asks\n")
    (tmp_path / "platform.yaml").write_text(PLATFORM % (tmp_path, tmp_path))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(contracts))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_plan_of_a_table_is_shown_though_another_s_registry_is_down() -> None:
    """Given two tables of which one needs a registry that does not answer, when all are planned, then the other's plan is there, the one has its state, and it is a finding."""
    told = CliRunner().invoke(app, ["plan", "--json"])
    assert told.exit_code == 1
    found = {each["table"]: each for each in json.loads(told.stdout)}
    assert (found["shop.known"]["verdict"], found["shop.known"].get("error")) == ("apply", None)
    asks = found["shop.asks"]
    assert (asks["verdict"], asks["changes"], asks["error"]["state"]) == (None, [], "registry_down")
    shown = CliRunner().invoke(app, ["plan"])
    assert "shop.known: apply" in shown.stdout
    assert "registry_down" in shown.stderr


def test_where_no_plan_can_be_made_each_table_says_why() -> None:
    told = CliRunner().invoke(app, ["plan", "shop.asks", "--json"])
    (asks,) = json.loads(told.stdout)
    assert (told.exit_code, asks["table"], asks["verdict"]) == (1, "shop.asks", None)
    assert asks["error"]["state"] == "registry_down"


def test_the_plan_says_which_file_set_each_value(home: Path) -> None:
    """Given an owner from the folder's defaults, when the table is planned, then that file is named with its line, and what is built in is not."""
    (home / "contracts" / "_defaults.yaml").write_text("owners: {data: team:sales}\n")
    (found,) = json.loads(CliRunner().invoke(app, ["plan", "shop.known", "--json"]).stdout)
    assert found["origins"]["owners.data"].endswith("contracts/_defaults.yaml:1")
    assert found["origins"]["value.format"].endswith("contracts/known.yaml:3")
    assert "target_lag" not in found["origins"]
    shown = CliRunner().invoke(app, ["plan", "shop.known"], env={"COLUMNS": "400"})
    assert "_defaults.yaml" in shown.stdout
