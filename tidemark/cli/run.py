"""`tidemark run`: ingest for some tables, then their merges, in this process, until all have caught up."""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import dagster as dg
import typer
from rich.table import Table as RichTable

from assets.names import BY_TAG, OUTCOME, REASON_TAG, table_key
from assets.runs.snapshot_ids import ids_as_numbers
from jobs.ingest import INGEST
from jobs.upsert import MERGE
from tidemark.cli.border import FINDING, INTERRUPTED
from tidemark.cli.choice import chosen_both
from tidemark.cli.contracts import load_contracts
from tidemark.cli.dry_run import foretell
from tidemark.cli.in_dagster import dagster_instance, execute, interrupted
from tidemark.cli.output import console, number, print_json, show_error, state_text
from tidemark.cli.progress import watching
from tidemark.cli.status import seen, statuses_of
from tidemark.cli.unrun import OutcomeJson, as_append, as_outcome, unless_paused
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import Outage, Refused, TidemarkError
from tidemark.domain.outcome import Outcome
from tidemark.domain.states import State
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import places
from tidemark.engine.login import login_name
from tidemark.engine.look.run_outcome import outcome_of

_NOTHING_SEEN: frozenset[State] = frozenset({"kafka_down", "catalog_down"})
"""States in which a look finds no ends, or not what is published."""
_CUT_OFF = "it was interrupted"


def run(tables: Sequence[str], by: str, reason: str, *, dry_run: bool, as_json: bool) -> None:
    """Print one outcome per table; exit code 1 when any stopped, or is paused while its records wait."""
    configuration = load_contracts()
    contracts, upserts = chosen_both(configuration, tables)
    if dry_run:
        foretell(Lake(configuration), contracts, upserts, as_json=as_json)
        return
    tags = _signed(by, reason)
    run_ids = [str(uuid.uuid4()), str(uuid.uuid4())]
    outcomes: list[OutcomeJson] = []
    cut_off = False
    with dagster_instance() as instance, watching(configuration, contracts, as_json=as_json):
        if contracts:
            keys = [table_key(each.table) for each in contracts]
            result = execute(instance, INGEST, run_id=run_ids[0], assets=keys, tags=tags)
            told, why, cut_off = _told_of(result)
            if why:
                untold = [each for each in contracts if each.table not in told]
                told |= _not_caught_up(configuration, untold, run_ids[0], why)
            outcomes += [told.get(each.table) or _nothing_to_do(each.table) for each in contracts]
        if cut_off:
            outcomes += [_unmerged(table, _CUT_OFF) for table in upserts]
        elif upserts:
            merge = partial(
                execute, instance, MERGE, run_id=run_ids[1], assets=[*map(table_key, upserts)], tags=tags
            )
            merged, cut_off = _merged(configuration, upserts, merge, outcomes)
            outcomes += merged
    if as_json:
        print_json(outcomes)
    else:
        _show(outcomes, run_ids[0] if contracts else run_ids[1])
    if cut_off:
        raise typer.Exit(INTERRUPTED)
    with suppress(Exception, KeyboardInterrupt):  # what the run has to say is said
        _remember(configuration, contracts, outcomes)
    if any(each["error"] for each in outcomes):
        raise typer.Exit(FINDING)


def _merged(
    configuration: Configuration,
    upserts: Mapping[str, UpsertTable],
    merge: Callable[[], dg.ExecuteInProcessResult],
    ingested: Sequence[OutcomeJson],
) -> tuple[list[OutcomeJson], bool]:
    """Outcomes of upsert tables, and whether it was interrupted: be it before a step, what was `ingested` is told."""
    told: Mapping[str, OutcomeJson] = {}
    above = {each["table"]: each for each in ingested}
    try:
        told, why, cut_off = _told_of(merge())
        untold = [] if why else [each.append for table, each in upserts.items() if table not in told]
        above |= _looked_at(configuration, [each for each in untold if each.table not in above])
    except KeyboardInterrupt:
        why, cut_off = _CUT_OFF, True
    outcomes = [
        told.get(table) or (_unmerged(table, why) if why else as_append(table, above[each.append.table]))
        for table, each in upserts.items()
    ]
    return outcomes, cut_off


def _signed(by: str, reason: str) -> dict[str, str]:
    """Who runs tables and why, as tags of the Dagster runs; a user without a login name need not say who."""
    if not by:
        with suppress(Refused):
            by = login_name()
    return {tag: said for tag, said in ((BY_TAG, by), (REASON_TAG, reason)) if said}


def _remember(
    configuration: Configuration, contracts: Sequence[Contract], outcomes: Sequence[OutcomeJson]
) -> None:
    """Since when the records of tables that stopped wait: without a sensor nobody else has seen them."""
    stopped = {each["table"] for each in outcomes if each["error"] and each["state"] not in _NOTHING_SEEN}
    behind = [each for each in contracts if each.table in stopped]
    if behind:
        seen(Lake(configuration), behind, places(os.environ).home)


def _told_of(result: dg.ExecuteInProcessResult) -> tuple[dict[str, OutcomeJson], str | None, bool]:
    """Outcomes by table, why there are no more if it ended early, and whether the run was interrupted."""
    cut_off = interrupted(result)
    why = _CUT_OFF if cut_off else ended_early(result.all_events)
    return told_by(result.all_events), why, cut_off


def _nothing_to_do(table: str) -> OutcomeJson:
    """Of a table that is not there, and a whole run has no word of: an empty topic without a schema."""
    return Outcome(table, state="fresh").as_json()


def _looked_at(configuration: Configuration, contracts: Sequence[Contract]) -> Mapping[str, OutcomeJson]:
    """By table, of append tables that were not run: as `tidemark status` says it."""
    home = places(os.environ).home
    found = statuses_of(Lake(configuration), contracts, home, ask_dagster=True) if contracts else []
    clusters = {each.table: each.cluster for each in contracts}
    return {each.table: as_outcome(each, clusters[each.table]) for each in found}


def _unmerged(table: str, why: str) -> OutcomeJson:
    """Of an upsert table without a word in a run that was cut off."""
    error = _unfinished(table, "everything was merged", why)
    return Outcome(table, state="failed", error=error).as_json()


def told_by(events: Sequence[dg.DagsterEvent]) -> dict[str, OutcomeJson]:
    """Outcomes by table, from the materializations and the failures of a run."""
    return {outcome["table"]: outcome for event in events for outcome in _told(event)}


def _told(event: dg.DagsterEvent) -> Iterator[OutcomeJson]:
    if event.is_step_materialization:
        outcome = event.materialization.metadata.get(OUTCOME)
        if outcome is not None:
            waits = event.materialization.metadata.get("lag_records")
            yield unless_paused(ids_as_numbers(outcome.value), waits.value if waits else 0)
    elif event.is_step_failure and event.step_failure_data.user_failure_data:
        stopped = event.step_failure_data.user_failure_data.metadata.get("tidemark/outcomes")
        if stopped is not None:
            yield from ids_as_numbers(stopped.value)


def ended_early(events: Sequence[dg.DagsterEvent]) -> str | None:
    """Why a run may have left tables without a word; None when it came to its end, be it that it names what stopped."""
    named = False
    for event in events:
        if not event.is_step_failure:
            continue
        if not any(True for _ in _told(event)):
            error = event.step_failure_data.error
            return (error.cause or error).message.strip() if error else "it was cut off"
        named = True
    if named or any(event.event_type is dg.DagsterEventType.RUN_SUCCESS for event in events):
        return None
    return next((event.message or "" for event in events if event.is_run_failure), None) or "it was cut off"


def _not_caught_up(
    configuration: Configuration, contracts: Sequence[Contract], run_id: str, why: str
) -> dict[str, OutcomeJson]:
    """Of a run that ended without a word about tables, they know themselves what it did, as far as they answer."""
    lake, found, silent = Lake(configuration), dict[str, OutcomeJson](), False
    for contract in contracts:
        error = _unfinished(contract.table, "it had caught up", why)
        outcome = Outcome(contract.table, state="failed", error=error)
        try:
            outcome = outcome if silent else outcome_of(lake, contract, run_id, error)
        except Outage:  # the next one would wait as long
            silent = True
        except TidemarkError:
            pass
        found[contract.table] = outcome.as_json()
    return found


def _unfinished(table: str, before: str, why: str) -> dict[str, Any]:
    """The error of a table in a run that was cut off."""
    return {
        "kind": "Unfinished",
        "message": f"{table}: the run ended before {before}: {why}",
        "next_step": f"tidemark run {table}",
        "state": "failed",
        "table": table,
    }


def _show(outcomes: Sequence[OutcomeJson], run_id: str) -> None:
    table = RichTable(
        "table", "state", "commits", "read", "written", "quarantined", "tombstones", "s", box=None
    )
    for outcome in outcomes:
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
    errors = (each["error"] for each in outcomes if each["error"])
    for error in {each["message"]: each for each in errors}.values():
        show_error(error["message"], error.get("next_step", ""), error.get("safe", ""))
