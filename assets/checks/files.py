"""The check `files` of a table: whether it and its companions need maintenance."""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.checks.results import chosen
from assets.names import HEALTH, table_key
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract


def file_checks(contracts: Sequence[Contract]) -> list[dg.AssetChecksDefinition]:
    """One check per table: small files, deleted rows, manifests and snapshots against the contract's thresholds."""
    by_table = {each.table: each for each in contracts}
    if not contracts:
        return []

    @dg.multi_asset_check(name="files_of_tables", specs=[_check(each) for each in contracts], can_subset=True)
    def files_of_tables(
        context: dg.AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        from assets.checks.files_run import judge_files  # noqa: PLC0415 - only a step pays for the engine's imports

        yield from judge_files(context.instance, lake, chosen(context, by_table))

    return [files_of_tables]


def _check(contract: Contract) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        HEALTH,
        asset=table_key(contract.table),
        description="Small files, deleted rows, manifests and snapshots, of the table and its companions.",
    )
