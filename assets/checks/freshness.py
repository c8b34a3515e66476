"""Asset checks that need no Spark: how late the published data is.

The lag sensor evaluates the same check whenever its grade changes, so a table that nobody runs turns red too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.checks.results import chosen, not_judged
from assets.names import FRESHNESS, table_key
from resources.lake import LakeResource
from tidemark.domain.cadence.freshness import Judgement
from tidemark.domain.cadence.lag import Lag, Sighting
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import format_duration
from tidemark.domain.config.upsert import is_upsert_table
from tidemark.domain.errors import Outage, Stopped

if TYPE_CHECKING:
    from tidemark.engine.access.lake import Lake

SightingsOf = Callable[[dg.DagsterInstance], Mapping[str, Sequence[Sighting]]]
"""When which offsets of a table were first seen, as Dagster's records have it."""


def freshness_checks(
    name: str, contracts: Sequence[Contract], sightings: SightingsOf
) -> dg.AssetChecksDefinition:
    """One check per table of lane `name`."""
    by_table = {contract.table: contract for contract in contracts}

    @dg.multi_asset_check(
        name=f"freshness_{name}", specs=[_spec(each) for each in contracts], can_subset=True
    )
    def freshness(
        context: dg.AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        seen = sightings(context.instance)
        with lake.open() as opened:
            for contract in chosen(context, by_table):
                yield _result(opened, contract, seen.get(contract.table, ()))

    return freshness


def merge_freshness_checks(contracts: Sequence[Contract]) -> list[dg.AssetChecksDefinition]:
    """One check per upsert table; `contracts` as `tidemark.domain.config.upsert` makes them.

    The step's name does not begin as those of lanes do (`freshness_…`): no lane can have it.
    """
    by_table = {contract.table: contract for contract in contracts}
    if not contracts:
        return []

    @dg.multi_asset_check(name="upsert_freshness", specs=[_spec(each) for each in contracts], can_subset=True)
    def upsert_freshness(
        context: dg.AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        from tidemark.engine.look.upserts import lateness_of  # noqa: PLC0415 - only a step pays for the clients' imports

        with lake.open() as opened:
            for contract in chosen(context, by_table):
                key = table_key(contract.table)
                try:
                    lag, found = lateness_of(opened, contract, datetime.now(UTC))
                except (Outage, Stopped) as error:
                    yield dg.AssetCheckResult(asset_key=key, **not_judged(error))
                    continue
                yield dg.AssetCheckResult(asset_key=key, **_judged(contract, found, _lagging(lag)))

    return [upsert_freshness]


def _lagging(lag: Lag) -> dict[str, Any]:
    return {"lag_seconds": round(lag.seconds, 1), "lag_records": lag.records}


def freshness_evaluation(
    contract: Contract, found: Judgement, lag: Lag | None = None
) -> dg.AssetCheckEvaluation:
    """The check as the sensor evaluates it, by the age of the oldest unpublished record where it is known."""
    return dg.AssetCheckEvaluation(
        check_name=FRESHNESS,
        asset_key=table_key(contract.table),
        **_judged(contract, found, _lagging(lag) if lag else {}),
    )


def _result(lake: "Lake", contract: Contract, sightings: Sequence[Sighting]) -> dg.AssetCheckResult:
    from tidemark.engine.look.clocks import two_clocks  # noqa: PLC0415 - only a step pays for the clients' imports

    key = table_key(contract.table)
    try:
        clocks = two_clocks(lake, contract, sightings, datetime.now(UTC))
    except (Outage, Stopped) as error:
        return dg.AssetCheckResult(asset_key=key, **not_judged(error))
    return dg.AssetCheckResult(
        asset_key=key, **_judged(contract, clocks.judged(contract), clocks.as_metadata())
    )


def _judged(contract: Contract, found: Judgement, metadata: dict[str, Any]) -> dict[str, Any]:
    severity = dg.AssetCheckSeverity.WARN if found.grade == "warn" else dg.AssetCheckSeverity.ERROR
    if found.grade != "fresh":
        metadata = {**metadata, "next": f"tidemark status {contract.table}"}
    return {
        "passed": found.grade == "fresh",
        "severity": severity,
        "description": found.why,
        "metadata": {"verdict": found.verdict, **metadata},
    }


def _spec(contract: Contract) -> dg.AssetCheckSpec:
    limits = contract.freshness
    says = [
        f"{word} beyond {format_duration(limit)}"
        for word, limit in (("warns", limits.warn), ("fails", limits.fail))
        if limit
    ]
    what, quiet = "record that is not published", "A quiet topic is fresh."
    if is_upsert_table(contract):
        what, quiet = f"commit to `{contract.topic}` that is not merged", "Where all are merged it is fresh."
    elif limits.silence:
        quiet = f"Silence for {format_duration(limits.silence)} fails."
    return dg.AssetCheckSpec(
        FRESHNESS,
        asset=table_key(contract.table),
        description=f"Age of the oldest {what}: {', '.join(says)}. {quiet}",
    )
