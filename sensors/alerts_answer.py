"""One tick of the alert sensor: failures since the cursor, as one message."""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import dagster as dg
import httpx
from dagster import DagsterEventType, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from pydantic import ConfigDict

from assets.names import LANE_TAG, RECEIPT, VERB_TAG, is_ours, table_about, table_key
from assets.runs.last_runs import INTERRUPTED, LOOK_BACK, errors_of, why_run, why_step
from jobs.operations import OF_VERB
from sensors.changed_runs import LATE, change_of, changed, changed_at, recent
from sensors.cursor import Moment, cursor_of
from tidemark.domain.alerts import Alert, digest, figureless, message, news_of, stopped
from tidemark.domain.config.units import counted
from tidemark.domain.states import OUTAGES, STATES

AT_ONCE = 50
AGAIN = 24 * 3600.0
"""Seconds after which what is tried again and again, to no avail, is told once more."""
APART = 3600.0
"""Seconds between two failures after which the second is another one: what stopped is tried again within minutes."""
_TIMEOUT = 10.0


@dataclass(slots=True)
class Cursor:
    """`since`: when the last told run had failed; `checked`: when the last looked at check was evaluated.

    `red`: the checks that are red, each with a digest of what was told about it. `stopped`: the same of what
    failed (see `_again`) at a step, with the times of the failure that was told and of the last one.
    `late`: the runs of the last minute before `since`, and of later, that were looked at.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    since: Moment
    checked: Moment
    red: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        """For the sensor's cursor."""
        kept = {table: each for table, each in self.stopped.items() if each[2] > self.since - APART}
        return json.dumps({**asdict(self), "stopped": kept, "late": recent(self.late, self.since)})


def post(context: dg.SensorEvaluationContext, webhook: str) -> dg.SkipReason:
    """One message for all that is new; while the webhook does not take it, it is tried again at every tick."""
    instance = context.instance
    cursor = cursor_of(Cursor, context.cursor, lambda now: Cursor(now, now))
    now = datetime.now(UTC).timestamp()
    found = [*_failed_runs(instance, cursor, now), *_red_checks(context, cursor, now)]
    if found:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each address, and this one is a secret
        try:
            httpx.post(webhook, json=message(found), timeout=_TIMEOUT).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as error:  # also a proxy's: SOCKS
            # its text names the webhook, which is a secret
            return dg.SkipReason(
                f"the webhook did not take {counted(len(found), 'alert')}: {type(error).__name__}; tried again"
            )
    context.update_cursor(cursor.to_json())
    return dg.SkipReason(f"{counted(len(found), 'alert')} posted")


def _failed_runs(instance: dg.DagsterInstance, cursor: Cursor, now: float) -> Iterator[Alert]:
    records = changed(instance, [DagsterRunStatus.FAILURE], cursor.since, cursor.late, AT_ONCE)
    told = cursor.since - APART
    for record in records:
        cursor.late[change_of(record.dagster_run)] = changed_at(record)
        cursor.since = max(cursor.since, min(changed_at(record), now))
        at = record.end_time or changed_at(record)
        # else it is told, and changed because somebody gave it a tag, or of another project on this instance
        if at > told and is_ours(record.dagster_run):
            yield from _of_run(instance, record.dagster_run, cursor, at, now)


def _of_run(
    instance: dg.DagsterInstance, run: DagsterRun, cursor: Cursor, at: float, now: float
) -> Iterator[Alert]:
    """What failed otherwise than it was told of within a day, or has got on in between.

    It failed `at`, by the clock of its machine, which may be ahead: what is kept is no later than `now`.
    """
    for table, step, alert in _failures(instance, run):
        failed = f"{_again(run, table)} {step}"
        mark = digest(alert.state, "" if alert.state in OUTAGES else figureless(alert.what))
        known, told, last = cursor.stopped.get(failed, ("", 0.0, 0.0))
        if at <= last:
            continue
        lasts = known == mark and at - told < AGAIN and at - last < APART
        again = lasts and not _got_on(instance, run, table, last)
        cursor.stopped[failed] = (mark, told if again else min(at, now), min(at, now))
        if not again:
            yield alert


def _failures(instance: dg.DagsterInstance, run: DagsterRun) -> Iterator[tuple[str, str, Alert]]:
    """By table, or `OF_VERB` for none, and step: one per table that a step names, or for the step, or for the run."""
    records = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for event in filter(None, (each.event_log_entry.dagster_event for each in records)):
        if INTERRUPTED in why_step(event):
            continue  # Dagster was stopped: no fault of anything, and the next run goes on
        step = str(event.step_key)
        job = step if run.job_name == IMPLICIT_ASSET_JOB_NAME else run.job_name
        for table, error in (errors_of(event) or {OF_VERB: {"message": why_step(event)}}).items():
            subject = str(error.get("table") or (job if table == OF_VERB else table))
            yield table, step, stopped(subject, error, run.run_id)
    if not records:
        yield OF_VERB, "", Alert(run.job_name, why_run(instance, run.run_id), run_id=run.run_id)


def _again(run: DagsterRun, table: str) -> str:
    """What may fail as before: a table, a job's lane, or its choice; of what a person asked for the run alone."""
    if VERB_TAG in run.tags:
        return run.run_id
    if table != OF_VERB:
        return table
    chosen = sorted(key.to_user_string() for key in run.asset_selection or ())
    return f"{run.job_name} {run.tags.get(LANE_TAG) or digest(None, ' '.join(chosen))}"


def _got_on(instance: dg.DagsterInstance, run: DagsterRun, table: str, since: float) -> bool:
    """Whether a table that the run was to fill has had a result since, or else all that the run was for went well."""
    whole = frozenset[dg.AssetKey]()  # as Dagster stores that a job was launched without a choice
    chosen = run.asset_selection or whole
    if table_key(table) in chosen:
        newest = instance.get_latest_materialization_event(table_key(table))
        made = newest.asset_materialization if newest else None
        if newest is None or made is None or _made_at(made, newest.timestamp) <= since:
            return False
        rows = made.metadata.get("dagster/row_count")
        return rows is None or rows.value != 0  # a table is made before its first batch
    wanted = RunsFilter(
        job_name=run.job_name,
        statuses=[DagsterRunStatus.SUCCESS],
        updated_after=datetime.fromtimestamp(since, UTC),
    )
    records = instance.get_run_records(wanted, limit=LOOK_BACK)
    served = [each.dagster_run.asset_selection or whole for each in records if (each.end_time or 0) > since]
    return whole in served or bool(chosen and chosen <= whole.union(*served))


def _made_at(made: dg.AssetMaterialization, told: float) -> float:
    """When what a result is of was published: for a run that could not tell, a later one does, or a tick."""
    if RECEIPT not in made.metadata:
        return told
    committed = made.metadata.get("committed_at")
    return committed.value if isinstance(committed, dg.TimestampMetadataValue) else 0.0


def _red_checks(context: dg.SensorEvaluationContext, cursor: Cursor, now: float) -> Iterator[Alert]:
    """The checks whose newest evaluation is red and says something else than what was told."""
    graph = context.repository_def.asset_graph if context.repository_def else None
    keys = sorted(graph.asset_check_keys, key=str) if graph else []
    there = {key.to_user_string() for key in keys}
    cursor.red = {name: mark for name, mark in cursor.red.items() if name in there}
    newest = context.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    entries = [record.event for record in newest.values() if record.event is not None]
    after = cursor.checked - LATE  # what was told of those before is in `red`
    for entry in sorted(entries, key=lambda each: each.timestamp):
        event = entry.dagster_event
        if entry.timestamp <= after or event is None or event.event_type_value != "ASSET_CHECK_EVALUATION":
            continue
        cursor.checked = max(cursor.checked, min(entry.timestamp, now))
        found = event.asset_check_evaluation_data
        name = found.asset_check_key.to_user_string()
        if found.passed:
            cursor.red.pop(name, None)
            continue
        plan = found.metadata.get("plan")
        mark = news_of(found.severity.value, found.description or "", str(plan.value) if plan else None)
        if cursor.red.get(name) != mark:
            cursor.red[name] = mark
            yield _of_check(found)


def _of_check(found: dg.AssetCheckEvaluation) -> Alert:
    said = {name: str(each.value) for name, each in sorted(found.metadata.items())}
    word = "warns" if found.severity is dg.AssetCheckSeverity.WARN else "failed"
    error, _, remedy = said.get("error", "").partition("\nNext: ")  # of a check that could not look
    figures = ", ".join(f"{name} {value}" for name, value in list(said.items())[:6])
    what = f"check {found.check_name} {word}: {found.description or error or figures}"
    state = next((each for each in STATES if error and each == said.get("state")), None)
    return Alert(table_about(found.asset_key), what, state, said.get("next") or remedy)
