"""Rule: the board shows the contracts as they are on disk, and says when they cannot be read."""

import pytest
from rich.console import Console
from rich.text import Text

from tidemark.cli.demo.board import Board
from tidemark.engine.access import kafka
from tidemark.engine.config.configuration import load_from_environment

PLATFORM = """
kafka: {main: {bootstrap.servers: "127.0.0.1:1"}}
schema_registry: {main: {url: "http://127.0.0.1:1"}}
catalog: {type: sql, uri: "sqlite:///HOME/catalog.db", warehouse: "file://HOME/lake"}
spark: {remote: "sc://127.0.0.1:1"}
"""


@pytest.fixture
def contracts(tmp_path, monkeypatch):
    """An empty folder of contracts, on services of which none answers."""
    (tmp_path / "platform.yaml").write_text(PLATFORM.replace("HOME", str(tmp_path)))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(tmp_path / "contracts"))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kafka, "TIMEOUT", 0.1)
    (tmp_path / "contracts").mkdir()
    return tmp_path / "contracts"


def test_the_board_follows_the_contracts_on_disk(contracts):
    board = Board(load_from_environment())

    def shown():
        out = Console(width=200)
        board.refresh()
        with out.capture() as said:
            out.print(board.render({}, Text()))
        return said.get()

    assert "→ lake." not in shown()
    (contracts / "orders.yaml").write_text("topic: orders\n")
    assert "orders → lake.orders" in shown()
    lake = board.lake
    (contracts / "clicks.yaml").write_text("topic: clicks\ntarget_leg: 1m\n")
    said = shown()
    assert f"{contracts / 'clicks.yaml'}:2: target_leg: " in said
    assert "did you mean target_lag" in said
    assert "orders → lake.orders" in said, "what is known goes on"
    assert board.lake is lake, "connections are kept"
    (contracts / "clicks.yaml").write_text("topic: clicks\n")
    said = shown()
    assert "clicks → lake.clicks" in said
    assert "clicks.yaml" not in said


@pytest.mark.parametrize("width", [80, 200])
def test_a_board_of_many_tables_ends_with_what_it_leaves_out(contracts, width):
    for number in range(60):
        (contracts / f"orders{number}.yaml").write_text(f"topic: orders{number}\n")
    board = Board(load_from_environment())
    (contracts / "clicks.yaml").write_text("topic: clicks\ntarget_leg: 1m\n")
    board.refresh()
    out = Console(width=width)
    with out.capture() as said:
        out.print(board.render({}, Text("where the UI is\nand how to stop"), height=20))
    lines = said.get().splitlines()
    assert len(lines) < 20
    assert lines[-2:] == ["where the UI is", "and how to stop"]
    assert " more, 0 of them fresh: tidemark status" in said.get()
    assert "did you mean target_lag" in said.get().replace("\n", " ")
