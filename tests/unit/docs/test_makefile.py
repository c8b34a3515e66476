"""Rule: `make` works wherever the tools that it calls lie, and whatever they are elsewhere."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="a wheel is tested without it")
REPOSITORY = Path(__file__).parents[3]
UV = """#!/bin/sh
echo "uv $* path=$PYTHONPATH home=$PYTHONHOME project=$UV_PROJECT_ENVIRONMENT"
if [ "$1" = sync ]; then mkdir -p .venv/bin && echo '#!/bin/sh' >.venv/bin/python && chmod +x .venv/bin/python; fi
"""


@pytest.fixture
def clone(tmp_path):
    """The Makefile in a folder of its own, beside a `uv` that says how it is called and makes a `python` that does nothing."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(REPOSITORY / name, folder)
    _program(tmp_path / "bin" / "uv", UV)
    return folder


def _program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make(folder, *words, tools=None, **environment):
    """The lines that it says; what `make test` tells its own calls is none of theirs."""
    environ = {name: each for name, each in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environ["PATH"] = f"{tools or folder.parent / 'bin'}{os.pathsep}{environ['PATH']}"
    told = subprocess.run(
        ["make", *words],
        cwd=folder,
        env={**environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


def test_a_uv_below_a_folder_with_a_space_is_called(tmp_path):
    uv = tmp_path / "Ada Lovelace" / "uv"
    _program(uv, "#!/bin/sh\n")
    told = make(REPOSITORY, "--dry-run", "--always-make", "check", "demo", "bench-quick", tools=uv.parent)
    calls = [line for line in told if str(uv) in line]
    assert len(calls) >= 10
    assert [line for line in calls if f'"{uv}" ' not in line] == []


def test_what_a_terminal_has_for_another_python_or_spark_is_not_handed_on(clone):
    """Given settings for a Spark and a uv of one's own, when the demo is made, then none of it reaches the environment in .venv."""
    foreign = {
        "PYTHONPATH": "/opt/spark/python",
        "PYTHONHOME": "/opt/python",
        "UV_PROJECT_ENVIRONMENT": "/opt/venv",
    }
    told = make(clone, "demo", **foreign)
    assert [line for line in told if "tidemark demo" in line] != []
    assert [
        line for line in told if line.startswith("uv") and not line.endswith("path= home= project=")
    ] == []


def synced(folder):
    """How often the environment is made or completed before the demo."""
    return sum(line.startswith("uv sync") for line in make(folder, "demo", CDPATH=".:/"))


def test_an_environment_that_has_moved_or_lost_its_python_is_made_anew(clone):
    """Given a clone whose folder is moved, or whose Python is gone, when the demo is made, then the scripts with the old paths go, once; a stamp that was touched by hand counts as made here."""
    assert [synced(clone), synced(clone)] == [1, 0]
    clone = clone.rename(clone.with_name("moved to here"))
    old = clone / ".venv" / "bin" / "tidemark"
    _program(old, "#!/nowhere/python\n")
    assert [synced(clone), synced(clone), old.exists()] == [1, 0, False]
    _program(old.with_name("python"), "#!/nowhere/python\n")
    assert [synced(clone), synced(clone)] == [1, 0]
    (clone / ".venv" / ".runnable").write_text("")
    assert synced(clone) == 0


@pytest.mark.parametrize("python", [None, "#!/nowhere/python\n", "#!/bin/sh\nexit 1\n"])
def test_clean_removes_an_environment_that_does_not_run(clone, python):
    (clone / ".venv").mkdir()
    if python:
        _program(clone / ".venv" / "bin" / "python", python)
    assert "What may run of the stack was not stopped." in make(clone, "clean")
    assert not (clone / ".venv").exists()
    assert not any("not stopped" in line for line in make(clone, "clean"))
