"""`tidemark report --json` prints one document, or one error."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark.cli.main import app

PLATFORM = """
kafka: {main: {bootstrap.servers: "127.0.0.1:1"}}
schema_registry: {main: {url: "http://127.0.0.1:1"}}
catalog: {name: lake, type: sql, uri: "sqlite:////nowhere.db", warehouse: "file:///nowhere"}
spark: {remote: "sc://127.0.0.1:1"}
"""


def test_a_page_that_cannot_be_written_is_the_only_thing_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a place that is no folder, when the report is asked for as JSON and as a page, then there is one error, and it is bad use."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "orders.yaml").write_text("topic: orders\n")
    (tmp_path / "platform.yaml").write_text(PLATFORM)
    monkeypatch.setattr("tidemark.cli.report.reviews", lambda *_: [])
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(tmp_path / "contracts"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    told = CliRunner().invoke(app, ["report", "--json", "--out", "taken"])
    assert told.exit_code == 2
    assert "taken cannot hold the page" in json.loads(told.stdout)["error"]["message"]
