"""One tick of the alert sensor: failures since the cursor, as one message."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import dagster as dg
import httpx
from dagster import DagsterEventType, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from pydantic import ConfigDict, TypeAdapter

from assets.last_runs import errors_of, why_run, why_step
from assets.names import LANE_TAG, VERB_TAG, table_key, table_of
from jobs.operations import OF_VERB
from sensors.cursor import Moment
from tidemark.domain.alerts import Alert, message, stopped
from tidemark.domain.config.units import counted

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
    failed (see `_is_news`), with the times of the failure that was told and of the last one.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    since: Moment
    checked: Moment
    red: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, tuple[str, float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str | None) -> "Cursor":
        """What the sensor remembers; nothing, or what cannot be read, means from now on."""
        try:
            return TypeAdapter(cls).validate_json(text or "", strict=True)
        except ValueError:
            now = datetime.now(UTC).timestamp()
            return cls(now, now)

    def to_json(self) -> str:
        """For the sensor's cursor."""
        kept = {table: each for table, each in self.stopped.items() if each[2] > self.since - APART}
        return json.dumps({"since": self.since, "checked": self.checked, "red": self.red, "stopped": kept})


def post(context: dg.SensorEvaluationContext, webhook: str) -> dg.SkipReason:
    """One message for all that is new; while the webhook does not take it, it is tried again at every tick."""
    instance = context.instance
    cursor = Cursor.of(context.cursor)
    found = [*_failed_runs(instance, cursor), *_red_checks(context, cursor)]
    if found:
        try:
            httpx.post(webhook, json=message(found), timeout=_TIMEOUT).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text names the webhook, which is a secret
            return dg.SkipReason(
                f"the webhook did not take {counted(len(found), 'alert')}: {type(error).__name__}; tried again"
            )
    context.update_cursor(cursor.to_json())
    return dg.SkipReason(f"{counted(len(found), 'alert')} posted")


def _failed_runs(instance: dg.DagsterInstance, cursor: Cursor) -> Iterator[Alert]:
    wanted = RunsFilter(
        statuses=[DagsterRunStatus.FAILURE], updated_after=datetime.fromtimestamp(cursor.since, UTC)
    )
    records: list[RunRecord] = list(
        instance.get_run_records(wanted, limit=AT_ONCE, order_by="update_timestamp", ascending=True)
    )
    told = cursor.since - APART
    for record in records:
        changed = record.update_timestamp.replace(tzinfo=UTC).timestamp()
        cursor.since = max(cursor.since, changed)
        at = record.end_time or changed
        if at > told:  # else it is told, and changed because somebody gave it a tag
            yield from _of_run(instance, record.dagster_run, cursor, at)


def _of_run(instance: dg.DagsterInstance, run: DagsterRun, cursor: Cursor, at: float) -> Iterator[Alert]:
    """What its failed steps tell, or the run itself where there are none."""
    failures = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for each in failures:
        event = each.event_log_entry.dagster_event
        if event is not None:
            yield from _of_step(instance, run, event, cursor, at)
    if not failures:
        alert = Alert(run.job_name, why_run(instance, run.run_id), run_id=run.run_id)
        if _is_news(cursor, _again(run), alert, at):
            yield alert


def _of_step(
    instance: dg.DagsterInstance, run: DagsterRun, event: dg.DagsterEvent, cursor: Cursor, at: float
) -> Iterator[Alert]:
    """One alert per table that stopped, or else one for the job, unless it was told already."""
    errors = errors_of(event)
    for table, error in errors.items():
        verb = table == OF_VERB
        alert = stopped(error.get("table") or (run.job_name if verb else table), error, run.run_id)
        got_on = 0.0 if verb else _newest(instance, table)
        if _is_news(cursor, run.run_id if verb else table, alert, at, got_on):
            yield alert
    if not errors:
        step = str(event.step_key)
        job = step if run.job_name == IMPLICIT_ASSET_JOB_NAME else run.job_name
        alert = Alert(job, why_step(event), run_id=run.run_id)
        if _is_news(cursor, f"{_again(run)} {step}", alert, at):
            yield alert


def _again(run: DagsterRun) -> str:
    """What may fail as before: a job's lane, or its choice of assets; of what a person asked for the run alone."""
    if VERB_TAG in run.tags:
        return run.run_id
    chosen = sorted(key.to_user_string() for key in run.asset_selection or ())
    return f"{run.job_name} {run.tags.get(LANE_TAG) or _digest(None, ' '.join(chosen))}"


def _is_news(cursor: Cursor, failed: str, alert: Alert, at: float, got_on: float = 0.0) -> bool:
    """Whether what failed did so otherwise than it was told of within a day, or has got on in between.

    `failed`: the table, the step of a job, or, of what a person asked for, the run.
    """
    mark = _digest(alert.state, _figureless(alert.what))
    known, told, last = cursor.stopped.get(failed, ("", 0.0, 0.0))
    if at <= last:
        return False
    again = known == mark and at - told < AGAIN and at - last < APART and got_on <= last
    cursor.stopped[failed] = (mark, told if again else at, at)
    return not again


def _newest(instance: dg.DagsterInstance, table: str) -> float:
    """When a table last had a result."""
    newest = instance.get_latest_materialization_event(table_key(table))
    return newest.timestamp if newest else 0.0


def _red_checks(context: dg.SensorEvaluationContext, cursor: Cursor) -> Iterator[Alert]:
    """The checks whose newest evaluation is red and says something else than what was told."""
    graph = context.repository_def.asset_graph if context.repository_def else None
    keys = sorted(graph.asset_check_keys, key=str) if graph else []
    there = {key.to_user_string() for key in keys}
    cursor.red = {name: mark for name, mark in cursor.red.items() if name in there}
    newest = context.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    entries = [record.event for record in newest.values() if record.event is not None]
    after = cursor.checked
    for entry in sorted(entries, key=lambda each: each.timestamp):
        event = entry.dagster_event
        if entry.timestamp <= after or event is None or event.event_type_value != "ASSET_CHECK_EVALUATION":
            continue
        cursor.checked = max(cursor.checked, entry.timestamp)
        found = event.asset_check_evaluation_data
        name = found.asset_check_key.to_user_string()
        if found.passed:
            cursor.red.pop(name, None)
            continue
        mark = _mark(found)
        if cursor.red.get(name) != mark:
            cursor.red[name] = mark
            yield _of_check(found)


def _mark(found: dg.AssetCheckEvaluation) -> str:
    """What makes a red check news: another plan, another severity, other words; not other figures."""
    plan = found.metadata.get("plan")
    return _digest(found.severity.value, str(plan.value) if plan else _figureless(found.description or ""))


def _figureless(text: str) -> str:
    """Without what is another one each time: ids of runs and sessions, and figures."""
    return re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d[\d.,:]*", "#", text)


def _digest(kind: str | None, says: str) -> str:
    return hashlib.sha256(f"{kind} {says}".encode()).hexdigest()[:8]


def _of_check(found: dg.AssetCheckEvaluation) -> Alert:
    path = found.asset_key.path
    subject = table_of(found.asset_key, drop=int(path[0] == "schema" and len(path) > 1))
    next_step = found.metadata.get("next")
    figures = ", ".join(f"{name} {value.value}" for name, value in sorted(found.metadata.items())[:6])
    word = "warns" if found.severity is dg.AssetCheckSeverity.WARN else "failed"
    what = f"check {found.check_name} {word}: {found.description or figures}"
    return Alert(subject, what, next_step=str(next_step.value) if next_step else "")
