"""`tidemark …` as another program calls it, for a test's lakehouse."""

import json
import os
import sys
import time
from pathlib import Path
from unittest.mock import patch

import headless
from dagster import DagsterInstance

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
    home = str(lakehouse.home / "dagster")
    with patch.dict(os.environ, DAGSTER_HOME=home), DagsterInstance.from_config(home) as instance:
        found = instance.get_runs(limit=20)
    had = [run for run in found if any(".".join(key.path) == table for key in run.asset_selection or [])]
    return [run.status.value for run in had]
