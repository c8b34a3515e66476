"""One tick of the OpenLineage sensor: runs that changed since the cursor, as activities of their tables."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

import dagster as dg
from dagster import DagsterEventType, DagsterRun, DagsterRunStatus, RunRecord
from pydantic import ConfigDict

from assets.names import is_ours, table_about, table_of
from assets.runs.last_runs import errors_of, why_run, why_step
from resources.lake import LakeResource, unreadable
from sensors.changed_runs import change_of, changed, changed_at, recent
from sensors.cursor import Moment, cursor_of
from tidemark.domain.errors import ConfigurationError
from tidemark.domain.secrets import redact_text
from tidemark.engine.config import discovery
from tidemark.engine.openlineage import Activity, Source, Speaker

AT_ONCE = 20
"""Runs of one tick; each may stand for many tables."""
BUDGET_SECONDS = 20.0
"""Of one tick: Dagster cuts one off after 60, and what it has told is not remembered then."""
_REFUSED = {400, 413, 422}
"""Answers that would be the same at every tick."""
_KINDS = {"ingest": "ingest", "merge": "upsert", "build": "dbt", "maintain": "maintenance"}
"""What is done to a table, by the first word of the step that does it."""
_ENDS: Mapping[DagsterRunStatus, str] = {
    DagsterRunStatus.SUCCESS: "COMPLETE",
    DagsterRunStatus.FAILURE: "FAIL",
    DagsterRunStatus.CANCELED: "ABORT",
}


@dataclass(slots=True)
class Cursor:
    """`since`: when the last told run had changed. `begun`: runs whose START was told and whose end was not.

    `told`: events that were sent of `telling`, a run and its status, when the time of a tick was over.
    `late`: those of the last minute before `since`, and of later, that were told, with the time of the change.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    since: Moment
    begun: list[str] = field(default_factory=list)
    telling: str = ""
    told: int = 0
    late: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        """For the sensor's cursor."""
        late = recent(self.late, self.since)
        return json.dumps({**asdict(self), "begun": self.begun[-1000:], "late": late})


def tell(context: dg.SensorEvaluationContext, resource: LakeResource) -> dg.SkipReason:
    """Send what is new, oldest first. An event that cannot be sent is tried again at the next tick.

    So is one that the endpoint refuses, until it takes another one in the same tick: else all is refused, not this one.
    """
    cursor = cursor_of(Cursor, context.cursor, Cursor)
    before, now = cursor.to_json(), datetime.now(UTC).timestamp()
    try:
        configuration = resource.configuration
    except ConfigurationError as error:
        return dg.SkipReason(unreadable(error))
    speaker = Speaker(configuration.platform, configuration.contracts, discovery.read(resource.places.home))
    sent, refusal, until = 0, "", time.monotonic() + BUDGET_SECONDS
    try:
        while not sent and time.monotonic() < until and (found := _changed(context.instance, cursor)):
            for record in found:
                run = record.dagster_run
                telling = change_of(run)
                begin = cursor.told if cursor.telling == telling else 0
                activities = _activities(context, record, begun=run.run_id in cursor.begun)
                for number, activity in enumerate(islice(activities, begin, None), begin + 1):
                    if time.monotonic() > until:
                        slow = f"{sent} events sent; the endpoint is slow, the others follow"
                        return dg.SkipReason(_none_taken(refusal) if refusal and not sent else slow)
                    refused = _send(context, speaker, activity)
                    sent, refusal = sent + (not refused), refused or refusal
                    cursor.telling, cursor.told = telling, number
                _move(cursor, record, now)
    except Exception as error:  # noqa: BLE001 - whatever a transport raises: lineage waits, nothing else does
        says = redact_text(f"{type(error).__name__}: {error}")
        context.log.warning("OpenLineage cannot be told, it is tried again: %s", says)
        return dg.SkipReason(f"{sent} events sent; then the endpoint failed: {says}"[:500])
    finally:
        context.update_cursor(before if refusal and not sent else cursor.to_json())
    if refusal and not sent:
        return dg.SkipReason(_none_taken(refusal))
    return dg.SkipReason(f"{sent} events sent")


def _none_taken(refusal: str) -> str:
    return f"the endpoint takes no event, they are tried again: {refusal}"[:500]


def _send(context: dg.SensorEvaluationContext, speaker: Speaker, activity: Activity) -> str:
    """What the endpoint has against the event itself, which is logged, for others wait behind it; else nothing."""
    try:
        speaker.tell(activity)
    except Exception as error:
        answer = getattr(error, "response", None)
        if getattr(answer, "status_code", None) not in _REFUSED:
            raise
        says = redact_text(f"{type(error).__name__}: {error} {getattr(answer, 'text', '')}".strip())
        told = (activity.table, activity.run_id, says)
        context.log.warning("OpenLineage takes no event of %s in run %s: %s", *told)
        return says
    return ""


def _changed(instance: dg.DagsterInstance, cursor: Cursor) -> list[RunRecord]:
    """Runs that started or ended and are not told."""
    return changed(instance, [DagsterRunStatus.STARTED, *_ENDS], cursor.since, cursor.late, AT_ONCE)


def _move(cursor: Cursor, record: RunRecord, now: float) -> None:
    run = record.dagster_run
    cursor.late[change_of(run)] = changed_at(record)
    cursor.since = max(cursor.since, min(changed_at(record), now))
    if run.status is DagsterRunStatus.STARTED and run.run_id not in cursor.begun:
        cursor.begun.append(run.run_id)
    elif run.status in _ENDS and run.run_id in cursor.begun:
        cursor.begun.remove(run.run_id)


def _activities(context: dg.SensorEvaluationContext, record: RunRecord, *, begun: bool) -> Iterator[Activity]:
    """START (unless told) and the end of each table that the run had planned."""
    run = record.dagster_run
    ended = run.status in _ENDS
    done = _materialized(context.instance, run) if ended else {}
    steps = _planned(context.instance, run)
    errors = _errors(context.instance, run, steps) if run.status is DagsterRunStatus.FAILURE else {}
    started = datetime.fromtimestamp(record.start_time or record.create_timestamp.timestamp(), UTC)
    for key in steps:
        first = _activity(context, run, key, steps[key], started)
        if first is None:
            continue
        if not begun:
            yield first
        if ended:
            at = datetime.fromtimestamp(record.end_time or started.timestamp(), UTC)
            yield _end(replace(first, at=at), run, done.get(key), errors.get(key))


def _end(
    activity: Activity, run: DagsterRun, event: dg.AssetMaterialization | None, error: str | None
) -> Activity:
    """A table that was materialized, or did not fail, is complete, whatever became of the others of its run."""
    if event is None:
        state = "COMPLETE" if run.status is DagsterRunStatus.FAILURE and error is None else _ENDS[run.status]
        return replace(activity, state=state, error=error)  # type: ignore[arg-type]
    figures = {name: value.value for name, value in event.metadata.items() if isinstance(value.value, int)}
    return replace(activity, state="COMPLETE", rows=figures.get("rows_written"), bytes=figures.get("bytes"))


def _activity(
    context: dg.SensorEvaluationContext, run: DagsterRun, key: dg.AssetKey, step: str | None, at: datetime
) -> Activity | None:
    """The START of one asset; None for those that are no data of their own (`schema/…`, the review pack).

    One that has left the definitions since the run was made is told as well, but nothing is known of its inputs.
    """
    repository = context.repository_def
    served = repository is not None and repository.asset_graph.has(key)
    node = repository.asset_graph.get(key) if repository is not None and served else None
    kind = _KINDS.get((step or "").partition("_")[0])
    if kind is None or (node is None and not is_ours(run)):
        return None
    table = table_about(key)
    made = Activity(kind, table, run.run_id, run.job_name, "START", at)
    if kind == "maintenance":
        return replace(made, step=".".join(key.path[3:]), inputs=(table,))
    parents = node.parent_keys if node is not None else frozenset[dg.AssetKey]()
    return replace(made, inputs=tuple(sorted((_source(each) for each in parents), key=str)))


def _source(key: dg.AssetKey) -> Source:
    return (key.path[1], ".".join(key.path[2:])) if key.path[0] == "kafka" else table_of(key)


def _planned(instance: dg.DagsterInstance, run: DagsterRun) -> dict[dg.AssetKey, str | None]:
    """What the run was to make, each with its step."""
    planned = _events(instance, run, DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    steps = {each.asset_key: each.step_key for each in planned if each.asset_key}
    return {key: steps[key] for key in sorted(steps, key=str)}


def _materialized(
    instance: dg.DagsterInstance, run: DagsterRun
) -> dict[dg.AssetKey, dg.AssetMaterialization]:
    records = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION).records
    return {
        each.asset_key: each.asset_materialization
        for each in records
        if each.asset_key is not None and each.asset_materialization is not None
    }


def _errors(
    instance: dg.DagsterInstance, run: DagsterRun, steps: Mapping[dg.AssetKey, str | None]
) -> dict[dg.AssetKey, str]:
    """What each asset failed of in a run that failed; without those whose step ended well or names others alone."""
    failures = {each.step_key: each for each in _events(instance, run, DagsterEventType.STEP_FAILURE)}
    well = {each.step_key for each in _events(instance, run, DagsterEventType.STEP_SUCCESS)}
    cut_off = why_run(instance, run.run_id) if set(steps.values()) - failures.keys() - well else ""
    tables, found = {table_about(key) for key in steps}, dict[dg.AssetKey, str]()
    for key, step in steps.items():
        if step in failures:
            named, table = errors_of(failures[step]), table_about(key)
            if table in named:
                found[key] = str(named[table]["message"])
            elif not named or named.keys() - tables:
                found[key] = why_step(failures[step])
        elif step not in well:
            found[key] = cut_off
    return found


def _events(instance: dg.DagsterInstance, run: DagsterRun, kind: DagsterEventType) -> list[dg.DagsterEvent]:
    records = instance.get_records_for_run(run.run_id, of_type=kind).records
    return [event for each in records if (event := each.event_log_entry.dagster_event)]
