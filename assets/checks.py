"""Asset checks that need no Spark: how late the published data is.

The lag sensor evaluates the same check whenever its grade changes, so a table that nobody runs turns red too.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.names import table_key, table_of
from resources.lake import LakeResource
from tidemark.domain.cadence.freshness import Grade, grade
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import format_duration
from tidemark.domain.errors import Outage, Stopped

if TYPE_CHECKING:
    from tidemark.engine.access.lake import Lake

FRESHNESS = "freshness"


def freshness_checks(name: str, contracts: Sequence[Contract]) -> dg.AssetChecksDefinition:
    """One check per table of lane `name`."""
    by_table = {contract.table: contract for contract in contracts}

    @dg.multi_asset_check(
        name=f"freshness_{name}", specs=[_spec(each) for each in contracts], can_subset=True
    )
    def freshness(
        context: dg.AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        with lake.open() as opened:
            for key in sorted(context.selected_asset_check_keys, key=str):
                yield _result(opened, by_table[table_of(key.asset_key)])

    return freshness


def evaluation(contract: Contract, verdict: Grade, seconds: float, records: int) -> dg.AssetCheckEvaluation:
    """The check as the sensor evaluates it, by the age of the oldest unpublished record."""
    return dg.AssetCheckEvaluation(
        check_name=FRESHNESS,
        asset_key=table_key(contract.table),
        **_judged(verdict, {"lag_seconds": round(seconds, 1), "lag_records": records}),
    )


def _result(lake: "Lake", contract: Contract) -> dg.AssetCheckResult:
    from tidemark.engine.look.clocks import two_clocks  # noqa: PLC0415 - only a step pays for the clients' imports

    key = table_key(contract.table)
    try:
        clocks = two_clocks(lake, contract)
    except (Outage, Stopped) as error:
        return dg.AssetCheckResult(
            asset_key=key, passed=False, metadata={"state": error.state, "error": str(error)}
        )
    late = clocks.behind
    verdict: Grade = "fail" if late is None else grade(late, contract.freshness)
    return dg.AssetCheckResult(asset_key=key, **_judged(verdict, clocks.as_metadata()))


def _judged(verdict: Grade, metadata: dict[str, Any]) -> dict[str, Any]:
    severity = dg.AssetCheckSeverity.WARN if verdict == "warn" else dg.AssetCheckSeverity.ERROR
    return {"passed": verdict == "fresh", "severity": severity, "metadata": metadata}


def _spec(contract: Contract) -> dg.AssetCheckSpec:
    limits = contract.freshness
    says = [
        f"{word} beyond {format_duration(limit)}"
        for word, limit in (("warns", limits.warn), ("fails", limits.fail))
        if limit
    ]
    return dg.AssetCheckSpec(
        FRESHNESS,
        asset=table_key(contract.table),
        description=f"Lag of published data: {', '.join(says)}. A quiet topic is fresh.",
    )
