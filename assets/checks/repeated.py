"""What the checks of a table found last, said again where a result leaves it as true as it was.

Dagster shows a check as not evaluated once its table was materialized again, be it red or green. A result without
commits leaves the table as it was; one with commits adds rows, and mends little of what was found.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster_shared.record import replace

from assets.checks.ingest import ingest_checks
from assets.checks.results import as_result
from assets.names import FRESHNESS, OF_LOOKS, table_key, table_of
from tidemark.domain.config.contract import Contract

_EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
_PLANNED = AssetCheckExecutionRecordStatus.PLANNED
_NOT_PASSED = {AssetCheckExecutionRecordStatus.FAILED, _PLANNED}


def repeated(
    instance: dg.DagsterInstance, contract: Contract, known: Collection[str] = ()
) -> Iterator[dg.AssetCheckEvaluation]:
    """The newest evaluation of each check of the table that was ever evaluated, but for those that are `known`."""
    return newest(instance, contract, [name for name in _all_of(contract) if name not in known])


def left_planned(
    instance: dg.DagsterInstance, contract: Contract, ending: str = ""
) -> Iterator[dg.AssetCheckEvaluation]:
    """The newest evaluation of each check of the table that Dagster shows as skipped: a run was to evaluate it.

    A run that has ended, that is, or the one of this id, which is `ending`.
    """
    keys = [dg.AssetCheckKey(table_key(contract.table), name) for name in _all_of(contract)]
    last = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    planned = {key.name: each.run_id for key, each in last.items() if each.status == _PLANNED}
    runs = {each: instance.get_run_by_id(each) for each in {*planned.values()} - {ending}}
    going_on = {run_id for run_id, run in runs.items() if run is not None and not run.is_finished}
    return newest(instance, contract, [name for name, run_id in planned.items() if run_id not in going_on])


def _all_of(contract: Contract) -> Iterable[str]:
    return (*(each.name for each in ingest_checks(contract)), FRESHNESS, *OF_LOOKS)


def asked_again(
    context: dg.AssetExecutionContext, by_table: Mapping[str, Contract]
) -> Iterator[dg.AssetCheckResult]:
    """The newest evaluations of the checks that a run selects and cannot evaluate."""
    for key in sorted(context.selected_asset_check_keys, key=str):
        found = newest(context.instance, by_table[table_of(key.asset_key)], [key.name])
        yield from map(as_result, found)


def still_failed(
    instance: dg.DagsterInstance, contract: Contract, mended: Collection[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The newest evaluations that failed of checks that no batch judges, but for what this run has `mended`."""
    keys = [dg.AssetCheckKey(table_key(contract.table), name) for name in OF_LOOKS if name not in mended]
    last = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    names = [key.name for key, found in last.items() if found.status in _NOT_PASSED]
    return (each for each in newest(instance, contract, names) if not each.passed)


def newest(
    instance: dg.DagsterInstance, contract: Contract, names: Iterable[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The newest evaluation of each of these checks that was ever evaluated."""
    for name in names:
        key = dg.AssetCheckKey(table_key(contract.table), name)
        for record in instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_EVALUATED
        ):
            event = record.event.dagster_event if record.event else None
            if event is not None:
                yield replace(event.asset_check_evaluation_data, target_materialization_data=None)
