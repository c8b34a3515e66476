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
from pydantic import ConfigDict, TypeAdapter

from assets.last_runs import errors_of
from assets.names import table_key, table_of
from jobs.operations import OF_VERB
from sensors.cursor import Moment
from tidemark.domain.alerts import Alert, message, stopped
from tidemark.domain.config.units import counted

AT_ONCE = 50
AGAIN = 24 * 3600.0
"""Seconds after which a table that stopped and is tried again and again, to no avail, is told once more."""
APART = 3600.0
"""Seconds between two failures after which the second is another one: a stopped table is tried every ten minutes."""
_TIMEOUT = 10.0


@dataclass(slots=True)
class Cursor:
    """`since`: when the last told run had failed; `checked`: when the last looked at check was evaluated.

    `red`: the checks that are red, each with a digest of what was told about it. `stopped`: the same of tables that
    runs stopped at, with the times of the failure that was told and of the last one.
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
    for record in records:
        at = record.update_timestamp.replace(tzinfo=UTC).timestamp()
        cursor.since = max(cursor.since, at)
        yield from _of_run(instance, record.dagster_run, cursor, at)


def _of_run(instance: dg.DagsterInstance, run: DagsterRun, cursor: Cursor, at: float) -> Iterator[Alert]:
    """What its failed steps tell, or that there were none."""
    failures = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for each in failures:
        event = each.event_log_entry.dagster_event
        if event is not None:
            yield from _of_step(instance, run, event, cursor, at)
    if not failures:
        yield Alert(run.job_name, "the run failed before any step did", run_id=run.run_id)


def _of_step(
    instance: dg.DagsterInstance, run: DagsterRun, event: dg.DagsterEvent, cursor: Cursor, at: float
) -> Iterator[Alert]:
    """One alert per table that stopped, unless it was told already; for any other failure one for the run."""
    errors = errors_of(event)
    for table, error in errors.items():
        subject = run.job_name if table == OF_VERB else table
        alert = stopped(error.get("table") or subject, error, run.run_id)
        if table == OF_VERB or _is_news(instance, alert, cursor, at):
            yield alert
    if not errors:
        data = event.step_failure_data
        what = data.user_failure_data.description if data.user_failure_data else None
        yield Alert(run.job_name, what or (data.error.message if data.error else "failed"), run_id=run.run_id)


def _is_news(instance: dg.DagsterInstance, alert: Alert, cursor: Cursor, at: float) -> bool:
    """Whether a table stopped otherwise than it was told of within a day, or has got on in between."""
    mark = _digest(alert.state, _figureless(alert.what))
    known, told, last = cursor.stopped.get(alert.subject, ("", 0.0, 0.0))
    if known == mark and at - told < AGAIN and at - last < APART:
        newest = instance.get_latest_materialization_event(table_key(alert.subject))
        if newest is None or newest.timestamp <= last:
            cursor.stopped[alert.subject] = (mark, told, at)
            return False
    cursor.stopped[alert.subject] = (mark, at, at)
    return True


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
    return re.sub(r"\d[\d.,:]*", "#", text)


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
