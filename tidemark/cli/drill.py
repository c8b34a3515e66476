"""`tidemark drill`: failure rehearsal on a scratch topic and table, with a scorecard."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.table import Table as RichTable

from tidemark.cli.border import FINDING
from tidemark.cli.change import launched
from tidemark.cli.output import console, print_json
from tidemark.engine.login import login_name


def drill(scenarios: Sequence[str], cluster: str, signed: Mapping[str, Any], *, as_json: bool) -> None:
    """Exit code 1 when a scenario failed."""
    asked = {
        **signed,
        "by": signed["by"] or login_name(),
        "scenarios": list(scenarios),
        "cluster": cluster,
    }
    operation, config, _ = launched("drill", asked, as_json=as_json)
    card = operation["arguments"]
    if as_json:
        print_json({**card, "run_id": operation["run_id"], "launchpad": config})
    else:
        console().print(_plan(card) if card["dry_run"] else _scorecard(card))
    if not card.get("passed", True):
        raise typer.Exit(FINDING)


def _plan(card: Mapping[str, Any]) -> RichTable:
    table = RichTable("scenario", "what happens", box=None, pad_edge=False)
    for each in card["scenarios"]:
        table.add_row(each["scenario"], each["does"])
    return table


def _scorecard(card: Mapping[str, Any]) -> RichTable:
    headings = ("scenario", "verdict", "noticed as", "detected", "recovered", "detail")
    table = RichTable(*headings, box=None, pad_edge=False)
    for each in card["scenarios"]:
        verdict = "skipped" if each["skipped"] else "passed" if each["passed"] else "FAILED"
        times = (_seconds(each[name]) for name in ("detected_seconds", "recovered_seconds"))
        table.add_row(each["scenario"], verdict, each["noticed_as"], *times, each["detail"])
    table.caption = f"on {card['topic']}, which is gone again; {card['seconds']} s in all"
    return table


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"
