"""One run of a lane: what the engine reports goes to Dagster as results, observations and one failure at the end."""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import dagster as dg
import psutil
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION

from assets.checks.drift import drift_evaluation
from assets.checks.ingest import evaluations, merge_evaluations, unchanged_freshness
from assets.checks.repeated import left_planned, newest, repeated, still_failed
from assets.checks.results import StepOutput, as_outputs
from assets.names import DRIFT, FRESHNESS, HEADROOM, STOPPED_TAG, by_schedule, by_sensor, table_key, table_of
from assets.runs.handover import Edits, Handover
from assets.runs.loaded import last_results, opened
from assets.runs.report import failure, observation, quarantine_landed, result, untold
from assets.runs.run_length import run_length_of
from assets.runs.schema import parked_review, run_evolved
from assets.runs.stopped import stopped_of, stopped_tags
from resources.lake import LakeResource
from tidemark.domain.cadence.event_budget import report_period
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.config.upsert import is_upsert_table
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.outcome import Outcome
from tidemark.domain.states import State
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.config.discovery import read, update
from tidemark.engine.config.follow import Followed
from tidemark.engine.lane.serve import LaneWork, Report, catch_up_all, longest_without, serve

MakeWork = Callable[[Lake, str, set[str]], LaneWork]
"""Out of the lake, the run's id, and the tables that were made before."""

OTHERS_FOLLOW = "What follows in this run, as merges and marts of its other tables, is left to their sensors."


@dataclass(frozen=True, slots=True)
class ServedLane:
    """What a run serves: the append tables or the upsert tables of a lane, the pool it holds, and its work."""

    lane: Lane
    contracts: Mapping[str, Contract]
    """By table."""
    pool: str
    make_work: MakeWork


def run_tables(
    context: dg.AssetExecutionContext,
    resource: LakeResource,
    served: ServedLane,
    first_seen: Mapping[str, int] | None = None,
) -> Iterator[StepOutput]:
    """Serve the selected tables, as the sensor wants it or until they have caught up.

    A table in which a run of a sensor or a schedule has nothing to do gets no result: that would build anew
    what depends on it, and every look would be an event.

    `first_seen`: see `IngestConfig`.

    Raises:
        dg.Failure: at the end, naming the tables that stopped.
    """
    contracts = served.contracts
    chosen = [contracts[table] for table in sorted(table_of(key) for key in context.selected_asset_keys)]
    if STOPPED_TAG in context.run.tags:  # of the run that is executed again
        _tell_stopped(context, contracts, {})
    left = {each.table: each for each in chosen}
    stopped: list[Outcome] = []
    idle: list[Outcome] = []
    with (
        opened(resource, context.instance) as lake,
        _told_if_ended(context, lake, left),
        closing(_reports(context, resource, lake, served, chosen, first_seen or {})) as reports,
    ):
        for report in reports:
            outcome, contract = report.outcome, contracts[report.outcome.table]
            if not report.final:
                context.log_event(observation(contract, outcome))
                continue
            left.pop(outcome.table, None)
            changed = _log_evolution(context, lake, contract)
            yield from as_outputs(context, _run_checks(context, contract, outcome))
            _log_quarantined(context, contract, outcome)
            if outcome.stopped:
                stopped.append(outcome)
                context.log.error("%s stopped: %s", outcome.table, outcome.state)
            elif outcome.commits:
                yield from as_outputs(
                    context, _checks_still_failed(context, lake, contract, outcome, changed=changed)
                )
                state = _state(context, lake, contract)
                yield _result(resource.places.home, contract, outcome, state)
            else:
                _log_why_not_loaded(context, contract, outcome)
                idle.append(outcome)
        if stopped or not (by_sensor(context.run) or by_schedule(context.run)):
            # a failed run paints every selected table without a result red: these are well, they had nothing to do
            for each in idle:
                yield from _unchanged(context, resource.places.home, lake, contracts[each.table], each)
    if stopped:
        for contract in chosen:  # their checks in steps that follow are skipped now
            yield from as_outputs(context, left_planned(context.instance, contract, context.run_id))
        _fail(context, contracts, stopped)


def _fail(context: dg.AssetExecutionContext, tables: Collection[str], stopped: Sequence[Outcome]) -> NoReturn:
    """States are in the run's tags, for sensors; what stopped is named also where these cannot be written."""
    with suppress(Exception):
        _tell_stopped(context, tables, {each.table: each.state for each in stopped})
    others = (context.run.asset_selection or set()) - context.selected_asset_keys
    raise failure(stopped, OTHERS_FOLLOW if others else "")


def _tell_stopped(
    context: dg.AssetExecutionContext, tables: Collection[str], stopped: Mapping[str, State]
) -> None:
    """Each lane of a run is a step of its own, which speaks for its own tables."""
    run = context.instance.get_run_by_id(context.run_id)
    tags = run.tags if run else {}
    others = {table: state for table, state in stopped_of(tags).items() if table not in tables}
    context.instance.add_run_tags(context.run_id, stopped_tags({**others, **stopped}, tags))


@contextmanager
def _told_if_ended(
    context: dg.AssetExecutionContext, lake: Lake, left: Mapping[str, Contract]
) -> Iterator[None]:
    """Somebody may end a run that lingers: what it has published is told all the same."""
    try:
        yield
    except (dg.DagsterExecutionInterruptedError, KeyboardInterrupt, GeneratorExit):
        for each in untold(lake, context.instance, left.values(), context.run_id):
            context.log_event(each)
        raise


def _log_why_not_loaded(context: dg.AssetExecutionContext, contract: Contract, outcome: Outcome) -> None:
    """Log why the run does not know how far the table is, where it does not."""
    if outcome.next:
        return
    if outcome.lag_records:
        context.log.info(
            "%s: the run ended before its turn; the next one begins with tables like it", outcome.table
        )
    else:
        context.log.info(
            "%s: no record or schema of %s tells its columns yet: `tidemark plan %s` says what is missing",
            outcome.table,
            contract.topic,
            outcome.table,
        )


def _no_result(table: str) -> dg.MaterializeResult[None]:
    """An output that is no result: without one Dagster would skip all steps that follow, for the other tables too.

    This metadata key keeps Dagster from making an event of it, by which the table would count as loaded.
    """
    return dg.MaterializeResult(
        asset_key=table_key(table), metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
    )


def _log_quarantined(context: dg.AssetExecutionContext, contract: Contract, outcome: Outcome) -> None:
    """Also of a table that stopped after it."""
    if outcome.rows.quarantined:
        context.log_event(quarantine_landed(contract, outcome))


def _run_checks(
    context: dg.AssetExecutionContext, contract: Contract, outcome: Outcome
) -> Iterator[dg.AssetCheckEvaluation]:
    """What the run itself has found out about a table."""
    yield from (merge_evaluations if is_upsert_table(contract) else evaluations)(contract, outcome)
    yield from _still_late(context, contract, outcome)
    yield from parked_review(context.instance, contract, outcome)


def _still_late(
    context: dg.AssetExecutionContext, contract: Contract, outcome: Outcome
) -> Iterator[dg.AssetCheckEvaluation]:
    """The sensor knows since when the records that a run leaves have waited: its last verdict is repeated."""
    if outcome.commits and outcome.lag_records:
        yield from newest(context.instance, contract, [FRESHNESS])


def _unchanged(
    context: dg.AssetExecutionContext, home: Path, lake: Lake, contract: Contract, outcome: Outcome
) -> Iterator[StepOutput]:
    """A result that changes nothing of what Dagster shows; none where the run does not know how far the table is."""
    if not outcome.next:
        yield _no_result(outcome.table)
        return
    if outcome.state == "paused":
        context.log.warning(
            "%s is paused: nothing was read. Next: tidemark resume %s", outcome.table, outcome.table
        )
    level: list[dg.AssetCheckEvaluation] = []
    state = _state(context, lake, contract)
    if state is not None and not outcome.lag_records:
        level.append(unchanged_freshness(contract, state.committed_at))
    yield from as_outputs(context, repeated(context.instance, contract, [each.check_name for each in level]))
    yield from as_outputs(context, level)
    yield _result(home, contract, outcome, state)


def _state(context: dg.AssetExecutionContext, lake: Lake, contract: Contract) -> TableState | None:
    """How a table stands; None where it cannot be read now, which costs neither it nor later tables their result."""
    try:
        return lake.state(contract.table)
    except (Outage, Stopped) as error:
        context.log.warning("%s: how it stands is not known now: %s", contract.table, error)
        return None


def _checks_still_failed(
    context: dg.AssetExecutionContext, lake: Lake, contract: Contract, outcome: Outcome, *, changed: bool
) -> Iterator[dg.AssetCheckEvaluation]:
    """Checks that failed earlier, again: the result would hide them.

    Not headroom where nothing waits, nor drift that was mended.
    """
    mended = [name for name, done in ((HEADROOM, not outcome.lag_records), (DRIFT, changed)) if done]
    yield from still_failed(context.instance, contract, mended)
    if changed and not is_upsert_table(contract):
        yield drift_evaluation(lake, contract)


def _log_evolution(context: dg.AssetExecutionContext, lake: Lake, contract: Contract) -> bool:
    """Tell of schema changes that the run made, as an event of the `schema/…` asset; returns whether it made any."""
    try:
        shown = run_evolved(lake, contract, context.run_id)
    except (Outage, Stopped) as error:
        context.log.warning("%s: whether its schema changed is not known now: %s", contract.table, error)
        return False
    if shown is not None:
        context.log_event(shown)
    return shown is not None


def _reports(
    context: dg.AssetExecutionContext,
    resource: LakeResource,
    lake: Lake,
    served: ServedLane,
    chosen: Sequence[Contract],
    first_seen: Mapping[str, int],
) -> Generator[Report]:
    results, lane = last_results(context.instance, [each.table for each in chosen]), served.lane
    work = served.make_work(lake, context.run_id, set(results))
    if not by_sensor(context.run):
        return catch_up_all(work, longest_without(chosen, results), lane)
    handover, edits = Handover(context.instance, context.run_id, served.pool), _edits(resource, lake, chosen)
    return serve(
        work,
        chosen,
        lane.model_copy(update={"max_run": run_length_of(lane, chosen)}),
        report_every=report_period(lake.platform.report_every, len(lake.configuration.contracts)),
        called_away=lambda: handover() or edits(),
        log=context.log.info,
        first_seen={table: datetime.fromtimestamp(at, UTC) for table, at in first_seen.items()},
        last_results=results,
    )


def _edits(resource: LakeResource, lake: Lake, chosen: Sequence[Contract]) -> Edits:
    followed = Followed(resource.places)
    followed.begin_with(lake.configuration, psutil.Process().create_time())
    return Edits(followed, {each.table: each.digest for each in chosen}, lake.configuration)


def _result(
    home: Path,
    contract: Contract,
    outcome: Outcome,
    state: TableState | None,
) -> dg.MaterializeResult[None]:
    return result(contract, outcome, state, _record_columns(home, contract, state))


def _record_columns(home: Path, contract: Contract, state: TableState | None) -> Struct | None:
    """Writes the columns to the discovery file; returns them where the UI does not show them yet."""
    if state is None or state.columns is None:
        return None
    columns, table = state.columns, contract.table
    topic = (contract.cluster, state.ledger.topic) if state.ledger else ()
    changed = update(home, lambda seen: seen.with_columns(table, columns, state.location, topic))
    return columns if changed or not read(home).shown(table) else None
