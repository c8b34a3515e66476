"""`tidemark run`: the ingest job for some tables, in this process, until they have caught up."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import typer
from rich.table import Table as RichTable

from assets.names import table_key
from jobs.ingest import INGEST
from tidemark.cli.border import FINDING, INTERRUPTED
from tidemark.cli.choice import chosen
from tidemark.cli.in_dagster import dagster_instance, execute
from tidemark.cli.output import console, number, print_json, show_error, state_text
from tidemark.cli.progress import watching
from tidemark.engine.configuration import load_from_environment

Outcomes = dict[str, Mapping[str, Any]]


def run(tables: Sequence[str], *, as_json: bool) -> None:
    """Print one outcome per table (CONTRACT.md); exit code 1 when any stopped."""
    configuration = load_from_environment()
    contracts = chosen(configuration, tables)
    run_id = str(uuid.uuid4())
    with dagster_instance() as instance, watching(configuration, contracts, as_json=as_json):
        result = execute(
            instance, INGEST, run_id=run_id, assets=[table_key(each.table) for each in contracts]
        )
        interrupted = instance.get_run_by_id(run_id).status == dg.DagsterRunStatus.CANCELED  # type: ignore[union-attr]
    outcomes = outcomes_of(result.all_events, [each.table for each in contracts])
    if as_json:
        print_json(list(outcomes.values()))
    else:
        _show(outcomes, run_id)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(each["error"] for each in outcomes.values()):
        raise typer.Exit(FINDING)


def outcomes_of(events: Sequence[dg.DagsterEvent], tables: Sequence[str]) -> Outcomes:
    """The outcome of every table, from the materializations and the failures of a run."""
    found = {each["table"]: each for event in events for each in _told(event)}
    why = next(
        (_failure(event) for event in events if event.is_failure and _failure(event)), "it was cut off"
    )
    return {table: found.get(table) or _unknown(table, why) for table in tables}


def _told(event: dg.DagsterEvent) -> Iterator[Mapping[str, Any]]:
    if event.is_step_materialization:
        outcome = event.materialization.metadata.get("tidemark/outcome")
        if outcome is not None:
            yield outcome.value  # type: ignore[misc]
    elif event.is_step_failure and event.step_failure_data.user_failure_data:
        stopped = event.step_failure_data.user_failure_data.metadata.get("tidemark/outcomes")
        if stopped is not None:
            yield from stopped.value  # type: ignore[misc]


def _failure(event: dg.DagsterEvent) -> str:
    error = event.step_failure_data.error if event.is_step_failure else None
    cause = error.cause or error if error else None
    return cause.message.strip() if cause else (event.message or "")


def _unknown(table: str, why: str) -> Mapping[str, Any]:
    """A run that ended without a word about a table; the table itself knows how far it came."""
    rows = dict.fromkeys(("read", "written", "quarantined", "tombstones", "skipped"), 0)
    error = {
        "kind": "Unfinished",
        "state": "failed",
        "message": f"the run ended before it could say what became of {table}: {why}",
        "next_step": f"tidemark run {table}",
    }
    return {
        "table": table,
        "state": "failed",
        "commits": 0,
        "rows": rows,
        "from": {},
        "next": {},
        "snapshot_id": None,
        "seconds": 0.0,
        "error": error,
    }


def _show(outcomes: Outcomes, run_id: str) -> None:
    table = RichTable(
        "table", "state", "commits", "read", "written", "quarantined", "tombstones", "s", box=None
    )
    for outcome in outcomes.values():
        rows = outcome["rows"]
        counts = (number(rows[fate]) for fate in ("read", "written", "quarantined", "tombstones"))
        table.add_row(
            outcome["table"],
            state_text(outcome["state"]),
            number(outcome["commits"]),
            *counts,
            f"{outcome['seconds']:.1f}",
        )
    out = console()
    out.print(table)
    out.print(f"Dagster run {run_id}", style="dim")
    for outcome in outcomes.values():
        if outcome["error"]:
            show_error(outcome["error"]["message"], outcome["error"].get("next_step", ""))
