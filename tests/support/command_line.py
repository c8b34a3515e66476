"""`tidemark …` as another program calls it, for a test's lakehouse."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import headless

TIDEMARK = str(Path(sys.executable).with_name("tidemark"))


def cli(lakehouse, *words, **environment):
    """(exit code, what `--json` printed); nothing that looks like a traceback may show."""
    stem = lakehouse.contracts.parent / f"cli-{time.monotonic_ns()}"
    output, log = stem.with_suffix(".out"), stem.with_suffix(".log")
    told = headless.command([*words, "--json"], environ(lakehouse, **environment), output, log)
    out, _ = told.communicate(180)
    errors = log.read_text(encoding="utf-8")
    assert "Traceback" not in errors, errors
    return told.returncode, json.loads(out)


def environ(lakehouse, **more):
    places = {"TIDEMARK_HOME": str(lakehouse.home), "TIDEMARK_CONTRACTS": str(lakehouse.contracts)}
    return {**os.environ, **places, **more}


def dagster_runs(lakehouse, table):
    """Status of the Dagster runs that had `table`, newest first."""
    program = (
        "import json, sys; from dagster import DagsterInstance; i = DagsterInstance.get(); "
        "print(json.dumps([r.status.value for r in i.get_runs(limit=20) "
        "if any('.'.join(k.path) == sys.argv[1] for k in r.asset_selection or [])]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, table],
        env=environ(lakehouse, DAGSTER_HOME=str(lakehouse.home / "dagster")),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(told.stdout.splitlines()[-1])
