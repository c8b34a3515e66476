"""Rule: `make` works wherever the tools that it calls lie."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.skipif(shutil.which("make") is None, reason="a wheel is tested without it")
def test_a_uv_below_a_folder_with_a_space_is_called(tmp_path):
    uv = tmp_path / "Ada Lovelace" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    path = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"
    command = ["make", "--dry-run", "--always-make", "check", "demo", "bench-quick"]
    told = subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    calls = [line for line in told.stdout.splitlines() if str(uv) in line]
    assert len(calls) >= 10
    assert [line for line in calls if f'"{uv}" ' not in line] == []
