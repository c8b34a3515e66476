"""What the checks of assets/checks/files.py find."""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.checks.results import not_judged
from assets.names import HEALTH, table_key
from assets.runs.loaded import opened
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import TidemarkError
from tidemark.engine.maintain.health import health


def judge_files(
    instance: dg.DagsterInstance, resource: LakeResource, contracts: Sequence[Contract]
) -> Iterator[dg.AssetCheckResult]:
    """The files check of each table."""
    with opened(resource, instance) as lake:
        for contract in contracts:
            key = table_key(contract.table)
            try:
                found = health(lake, contract)
            except TidemarkError as error:
                yield dg.AssetCheckResult(asset_key=key, check_name=HEALTH, **not_judged(error))
                continue
            faults = found.faults if found else ()
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=HEALTH,
                passed=not faults,
                severity=dg.AssetCheckSeverity.WARN,
                description="; ".join(faults),
                metadata=dict(found.numbers) if found else {},
            )
