"""How the last run of each table ended, as Dagster's records say it: hints for those who tell how tables stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
from dagster import DagsterEvent, DagsterEventType, DagsterRunStatus, RunRecord, RunsFilter

from assets.names import table_key, table_of
from assets.runs.loaded import loaded_before
from assets.runs.statuses import ended_at
from assets.runs.stopped import stopped_of
from tidemark.domain.cadence.lag import Sighting
from tidemark.domain.states import State
from tidemark.engine.look.status import Hint

LOOK_BACK = 100
"""Ended runs that are looked at for tables whose newest run has not ended; what lies further back gives no hint."""
_DONE = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]
INTERRUPTED = "DagsterExecutionInterruptedError"
"""What a step fails of that was asked to end."""
DIED = (
    "The process of this run died before its work was done: it was killed, ran out of memory, or the machine stopped. "
    "Not lost: what it had published stays; what it had not is done again, for a table itself says how far it is. "
    "Next: nothing; the next run goes on from there. If runs die often, look at the memory of this machine."
)
_OUTSIDE = "This run has been marked as failed from outside the execution context."
"""All that Dagster says of a run whose process its code server has seen die."""


def hints_of(
    instance: dg.DagsterInstance, tables: Sequence[str], sightings: Mapping[str, Sequence[Sighting]]
) -> dict[str, Hint]:
    """Hints by table; `sightings` as the sensors' cursors have them."""
    ends, loaded = last_runs(instance, tables), loaded_before(instance, tables)
    return {
        table: replace(
            ends.get(table, Hint()), loaded=table in loaded, sightings=tuple(sightings.get(table, ()))
        )
        for table in tables
    }


def last_runs(instance: dg.DagsterInstance, tables: Sequence[str]) -> dict[str, Hint]:
    """How and when the newest ended run of each table ended.

    Dagster knows the newest run of an asset, however long ago it was; if that one goes on, or a sensor has told of the
    asset since, the one before it counts.
    """
    known = instance.get_asset_records([table_key(table) for table in tables])
    newest: dict[str, set[str]] = {}
    for each in known:
        if run_id := each.asset_entry.last_run_id:
            newest.setdefault(run_id, set()).add(table_of(each.asset_entry.asset_key))
    records: list[RunRecord] = []
    if newest:
        records += instance.get_run_records(RunsFilter(run_ids=sorted(newest), statuses=_DONE))
    if len(records) < len(newest) or sum(map(len, newest.values())) < len(known):
        records += instance.get_run_records(RunsFilter(statuses=_DONE), limit=LOOK_BACK)
    found: dict[str, Hint] = {}
    for record in sorted(records, key=lambda each: -(each.end_time or 0)):
        at = ended_at(record)
        chosen = record.dagster_run.asset_selection
        own = newest.get(record.dagster_run.run_id, set())
        of_run = {table_of(key) for key in chosen} & set(tables) if chosen else own
        for table, state, error in _ends(instance, record, of_run - found.keys()):
            why, remedy = error.get("message", ""), error.get("next_step", "")
            found[table] = Hint(stopped=state, at=at, why=why, remedy=remedy)
    return found


def _ends(
    instance: dg.DagsterInstance, record: RunRecord, tables: Iterable[str]
) -> list[tuple[str, State | None, Mapping[str, Any]]]:
    """A run that went well has stopped nothing: one that was executed again has its parent's tags.

    Tables whose step one that was executed again from its failure left out ended in the run before.
    """
    run = record.dagster_run
    if run.is_success or not tables:
        return [(table, None, {}) for table in tables]
    own = _steps(instance, run.run_id)
    tables = [each for each in tables if each in own]
    stopped = stopped_of(run.tags)
    if not stopped and not _ended_by_others(instance, run.run_id):
        stopped = dict.fromkeys([each for each in tables if not own[each]], "failed")
    failures = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    events = [each.event_log_entry.dagster_event for each in failures]
    said = {table: error for event in events for table, error in errors_of(event).items()}
    return [(table, stopped.get(table), said.get(table, {})) for table in tables]


def unfinished(instance: dg.DagsterInstance, run_id: str, tables: Iterable[str]) -> set[str]:
    """Those of the tables whose own step in a run that failed did not end well: others are no fault of theirs."""
    return {table for table, well in _steps(instance, run_id).items() if not well} & set(tables)


def _steps(instance: dg.DagsterInstance, run_id: str) -> dict[str, bool]:
    """By each table that a run was to fill: whether its step ended well."""
    planned, well = DagsterEventType.ASSET_MATERIALIZATION_PLANNED, DagsterEventType.STEP_SUCCESS
    logged = instance.all_logs(run_id, of_type={planned, well})
    events = [each.dagster_event for each in logged if each.dagster_event]
    steps = {each.step_key for each in events if each.event_type == well}
    return {table_of(each.asset_key): each.step_key in steps for each in events if each.asset_key}


def errors_of(event: DagsterEvent | None) -> dict[str, Mapping[str, Any]]:
    """What a step that failed says about each table (or verb): the JSON of its error."""
    data = event.step_failure_data if event else None
    metadata = data.user_failure_data.metadata if data and data.user_failure_data else {}
    return {
        table: value.value
        for table, value in metadata.items()
        if isinstance(value.value, dict) and "message" in value.value
    }


def why_step(event: DagsterEvent) -> str:
    """What a step failed of: its own words, else those of the exception that Dagster's is about."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    return (data.error.cause or data.error).message.strip() if data.error else "failed"


def why_run(instance: dg.DagsterInstance, run_id: str) -> str:
    """What a run failed of in which no step did."""
    says, error = _failure(instance, run_id)
    if says == DIED:
        error = error or _why_not_begun(instance, run_id)
    return error or says or "the run failed before any step did"


def _ended_by_others(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether the run was asked to end, as when Dagster itself is stopped, or was killed: no fault of its tables."""
    says, error = _failure(instance, run_id)
    return says == DIED or INTERRUPTED in error


def _failure(instance: dg.DagsterInstance, run_id: str) -> tuple[str, str]:
    """The words with which a run was failed, and the exception that it failed of, where there is one."""
    found = instance.get_records_for_run(run_id, of_type=DagsterEventType.RUN_FAILURE, limit=1).records
    event = found[0].event_log_entry.dagster_event if found else None
    error = getattr(event.event_specific_data, "error", None) if event else None
    says = (event.message or "") if event else ""
    return DIED if says == _OUTSIDE else says, error.message.strip() if error else ""


def _why_not_begun(instance: dg.DagsterInstance, run_id: str) -> str:
    """What kept the process of a run from its work, if it could tell: definitions that cannot be loaded, say."""
    if instance.get_records_for_run(run_id, of_type=DagsterEventType.RUN_START, limit=1).records:
        return ""
    told = instance.get_records_for_run(run_id, of_type=DagsterEventType.ENGINE_EVENT).records
    events = (each.event_log_entry.dagster_event for each in reversed(told))
    errors = (getattr(event.event_specific_data, "error", None) for event in events if event)
    error = next((each for each in errors if each), None)
    return (error.cause or error).message.strip() if error else ""
