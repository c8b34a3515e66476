"""One run of a lane: what the engine reports goes to Dagster as results, observations and one failure at the end."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import dagster as dg

from assets.evolution import run_evolved
from assets.handover import Handover
from assets.names import SENSOR, STOPPED_TAG, TRIGGER_TAG, table_key, table_of
from assets.quality import evaluations, ingest_checks, merge_evaluations
from assets.report import failure, observation, quarantine_landed, result
from resources.lake import LakeResource
from tidemark.domain.cadence.events import report_period, run_length
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.lake import Lake
from tidemark.engine.alive import alive
from tidemark.engine.config.discovery import read, update
from tidemark.engine.lane.append_work import LakeWork
from tidemark.engine.lane.serve import Report, catch_up_all, serve
from tidemark.engine.lane.upsert_work import MergeWork

TableWork = LakeWork | MergeWork
MakeWork = Callable[[Lake, str, set[str], Event], TableWork]


def run_tables(
    context: dg.AssetExecutionContext,
    resource: LakeResource,
    lane: Lane,
    contracts: Mapping[str, Contract],
    pool: str,
    make_work: MakeWork | None = None,
    first_seen: Mapping[str, int] | None = None,
) -> Iterator[dg.MaterializeResult[None]]:
    """Serve the selected tables, as the sensor wants it or until they have caught up.

    `make_work`: by default append tables are ingested. `first_seen`: see `IngestConfig`.

    Raises:
        dg.Failure: at the end, naming the tables that stopped.
    """
    chosen = [contracts[table] for table in sorted(table_of(key) for key in context.selected_asset_keys)]
    stopped: list[Outcome] = []
    idle: list[Outcome] = []
    with (
        alive(resource.places.home, context.run_id),
        resource.open() as lake,
        closing(
            _reports(context, lake, lane, chosen, pool, make_work or LakeWork, first_seen or {})
        ) as reports,
    ):
        for report in reports:
            outcome, contract = report.outcome, contracts[report.outcome.table]
            if report.final:
                _show_evolution(context, lake, contract)
            if not report.final:
                context.log_event(observation(contract, outcome))
                continue
            judged = evaluations if make_work is None else merge_evaluations
            for evaluation in judged(contract, outcome):
                context.log_event(evaluation)
            if outcome.stopped:
                stopped.append(outcome)
                context.log.error("%s stopped: %s", outcome.table, outcome.state)
            elif not outcome.next and outcome.lag_records:
                context.log.info(
                    "%s: the run ended before its turn; the next one begins with it", outcome.table
                )
            elif not outcome.next:
                context.log.info("%s: %s has neither records nor a schema yet", outcome.table, contract.topic)
            elif outcome.commits or not _by_sensor(context):
                yield _result(context, resource, lake, contract, outcome)
            else:
                idle.append(outcome)
    if stopped:
        # a failed run paints every selected table without a result red: these are well, they had nothing to do
        yield from (result(contracts[each.table], each, None, None) for each in idle)
        context.instance.add_run_tags(
            context.run_id, {STOPPED_TAG: json.dumps({each.table: each.state for each in stopped})}
        )
        raise failure(stopped)


def _show_evolution(context: dg.AssetExecutionContext, lake: Lake, contract: Contract) -> None:
    """Changes that the run made to the table are shown on the `schema/…` asset; the table keeps them."""
    try:
        shown = run_evolved(lake, contract, context.run_id)
    except (Outage, Stopped) as error:
        context.log.warning("%s: whether its schema changed is not known now: %s", contract.table, error)
        return
    if shown is not None:
        context.log_event(shown)


def _reports(
    context: dg.AssetExecutionContext,
    lake: Lake,
    lane: Lane,
    chosen: Sequence[Contract],
    pool: str,
    make_work: MakeWork,
    first_seen: Mapping[str, int],
) -> Generator[Report]:
    stop = Event()
    work = make_work(lake, context.run_id, _known(context, chosen), stop)
    if not _by_sensor(context):
        return catch_up_all(work, chosen, lane, stop=stop, catch_up=work.catch_up)
    checks = sum(len(ingest_checks(each)) + 1 for each in chosen) if make_work is LakeWork else 0
    return serve(
        work,
        chosen,
        lane.model_copy(update={"max_run": run_length(lane.max_run, len(chosen), checks)}),
        report_every=report_period(lake.platform.report_every, 2 * len(lake.configuration.contracts)),
        stop=stop,
        called_away=Handover(context.instance, context.run_id, pool),
        first_seen={table: datetime.fromtimestamp(at, UTC) for table, at in first_seen.items()},
    )


def _by_sensor(context: dg.AssetExecutionContext) -> bool:
    return context.run.tags.get(TRIGGER_TAG) == SENSOR


def _known(context: dg.AssetExecutionContext, chosen: Sequence[Contract]) -> set[str]:
    """The tables that were loaded before by Dagster's records: if one is missing now, that is no first load."""
    records = context.instance.get_asset_records([table_key(each.table) for each in chosen])
    return {
        table_of(record.asset_entry.asset_key)
        for record in records
        if record.asset_entry.last_materialization
    }


def _result(
    context: dg.AssetExecutionContext,
    resource: LakeResource,
    lake: Lake,
    contract: Contract,
    outcome: Outcome,
) -> dg.MaterializeResult[None]:
    if outcome.rows.quarantined:
        context.log_event(quarantine_landed(contract, outcome))
    state = lake.state(contract.table)
    columns = state.columns
    news = columns is not None and _news(resource.places.home, contract.table, columns, state.location)
    merges = state if state.merged else None
    return result(contract, outcome, state.live_rows, columns if news else None, merges, state.location)


def _news(home: Path, table: str, columns: Struct, location: str) -> bool:
    """Whether the UI does not have the columns from the definitions that are loaded."""
    changed = update(home, lambda seen: seen.with_columns(table, columns, location))
    return changed or not read(home).shown(table)
