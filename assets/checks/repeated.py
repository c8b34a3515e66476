"""What the checks of a table found last, said again where a result leaves it as true as it was.

Dagster shows a check as not evaluated once its table was materialized again, be it red or green. A result without
commits leaves the table as it was; one with commits adds rows, and mends little of what was found.
"""

from collections.abc import Collection, Iterable, Iterator

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster_shared.record import replace

from assets.checks.ingest import ingest_checks
from assets.names import FRESHNESS, OF_LOOKS, table_key
from tidemark.domain.config.contract import Contract

_EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
_NOT_PASSED = {AssetCheckExecutionRecordStatus.FAILED, AssetCheckExecutionRecordStatus.PLANNED}


def repeated(
    instance: dg.DagsterInstance, contract: Contract, known: Collection[str] = ()
) -> Iterator[dg.AssetCheckEvaluation]:
    """The newest evaluation of each check of the table that was ever evaluated, but for those that are `known`."""
    names = [each.name for each in ingest_checks(contract)]
    every = (*names, FRESHNESS, *OF_LOOKS)
    return newest(instance, contract, [name for name in every if name not in known])


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
