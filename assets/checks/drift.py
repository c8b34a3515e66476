"""The check `schema_drift` of a table: whether it holds what the newest writers of its topic send, and nothing else.

Evaluated when someone asks, and after each look of the `schema/…` asset.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.checks.results import as_result, chosen, not_judged
from assets.names import DRIFT, table_key
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Stopped

if TYPE_CHECKING:
    from tidemark.engine.access.lake import Lake


def drift_checks(contracts: Sequence[Contract]) -> list[dg.AssetChecksDefinition]:
    """One check per table; none without tables."""
    by_table = {each.table: each for each in contracts}
    if not contracts:
        return []

    @dg.multi_asset_check(
        name="drift_of_tables", specs=[_spec(each) for each in by_table.values()], can_subset=True
    )
    def drift_of_tables(
        context: dg.AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        from assets.runs.loaded import opened  # noqa: PLC0415 - only a step pays for the engine's imports

        with opened(lake, context.instance) as known:
            for contract in chosen(context, by_table):
                yield as_result(drift_evaluation(known, contract))

    return [drift_of_tables]


def drift_evaluation(lake: "Lake", contract: Contract) -> dg.AssetCheckEvaluation:
    """The check of one table. Never raises for a service."""
    return dg.AssetCheckEvaluation(
        asset_key=table_key(contract.table), check_name=DRIFT, **_judged(lake, contract)
    )


def _judged(lake: "Lake", contract: Contract) -> dict[str, Any]:
    from tidemark.engine.preview.drifted import drifted  # noqa: PLC0415 - only a step pays for the engine's imports

    try:
        found = drifted(lake, contract)
    except (Outage, Stopped) as error:
        return not_judged(error)
    if found is None:
        return {"passed": True, "description": "there is no table yet"}
    told = {
        name: dg.MetadataValue.json(value) if name == "changes" else value
        for name, value in found.as_metadata().items()
    }
    if found.grade != "none":
        told.setdefault("next", f"tidemark plan {contract.table}")
    return {
        "passed": found.grade == "none",
        "severity": dg.AssetCheckSeverity.ERROR if found.grade == "error" else dg.AssetCheckSeverity.WARN,
        "description": "; ".join(found.sentences()) or "the table holds what its topic sends",
        "metadata": told,
    }


def _spec(contract: Contract) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        DRIFT,
        asset=table_key(contract.table),
        description=f"The table against the registered writers of `{contract.topic}` and its contract: what waits to "
        "be changed, and columns that no writer has. What was removed as the contract lets it is told, not failed.",
    )
