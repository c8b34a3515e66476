"""Rule: a step of the tour that goes wrong says so; it never ends the tour with an error of its own."""

import io
import sys
from types import SimpleNamespace

from rich.console import Console

import tidemark.cli.demo.tour as tour_module
from tidemark.cli.demo.tour import Tour


def test_a_command_without_an_answer_is_a_step_that_went_wrong(monkeypatch):
    """Given a machine so busy that a command takes too long, then the tour shows that and goes on."""
    monkeypatch.setattr(tour_module, "PATIENCE", 1)
    stage = SimpleNamespace(dagster=SimpleNamespace(environment=dict))
    tour = Tour(stage, None, None, Console(file=io.StringIO(), width=100))
    answer = tour.run([sys.executable, "-c", "import time; time.sleep(30)"])
    assert answer.returncode != 0
    assert "this machine is busy, or too small" in tour.console.file.getvalue()
    monkeypatch.setattr(tour_module, "PATIENCE", 30)
    assert tour.run([sys.executable, "-c", "print('well')"]).stdout == "well\n"
