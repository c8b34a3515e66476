"""Rule: `tidemark demo --script` shows all of it from nothing, says so, and leaves nothing running."""

import os
import subprocess

import psutil
import pytest
from command_line import TIDEMARK

WAIT = 1500
STEPS = 7
"""First rows, and the six that have a number."""


@pytest.mark.long
@pytest.mark.timeout(WAIT + 120)
def test_the_tour_goes_right_from_an_empty_home_and_nothing_runs_afterwards(tmp_path):
    """Given nothing but the repository, when the tour runs by itself, then every step says right, the pack is written, all processes are gone."""
    home = tmp_path / "home"
    ours = ("TIDEMARK_", "DAGSTER_", "no_proxy", "NO_PROXY")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    told = subprocess.run(
        [TIDEMARK, "demo", "--script"],
        env={**environ, "TIDEMARK_HOME": str(home), "COLUMNS": "200", "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    said = told.stdout.splitlines()
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-4000:]
    assert [line for line in said if line.startswith("WRONG")] == []
    assert len([line for line in said if line.startswith("right: ")]) == STEPS
    assert "Traceback" not in told.stdout + told.stderr
    assert "shop.orders" in (home / "review" / "index.html").read_text(encoding="utf-8")
    assert processes_of(str(home)) == []


def processes_of(home):
    """Whatever still runs and names the home in its words or its environment."""
    found = []
    for each in psutil.process_iter():
        try:
            words = [*each.cmdline(), *each.environ().values()]
        except psutil.Error:
            continue
        if each.pid != os.getpid() and any(home in word for word in words):
            found.append(each.cmdline())
    return found
