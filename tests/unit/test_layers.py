"""Imports point down only, and tidemark knows nothing of Dagster (pyproject.toml, tool.importlinter)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_layers_hold() -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--config", ROOT / "pyproject.toml"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
