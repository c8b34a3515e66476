"""Checks that schedules evaluate: how long Kafka still keeps what is not read, and Kafka's records against the rows."""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.checks.results import as_result, chosen
from assets.names import HEADROOM, KAFKA_RECONCILIATION, NEWEST, table_key
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract


def watch_checks(contracts: Sequence[Contract]) -> list[dg.AssetChecksDefinition]:
    """Both checks, of every table."""
    return [_headroom_checks(contracts), _reconciliation_checks(contracts)] if contracts else []


def check_keys(contracts: Sequence[Contract], name: str) -> list[dg.AssetCheckKey]:
    """The keys of one of the checks, for the job that a schedule launches."""
    return [dg.AssetCheckKey(table_key(each.table), name) for each in contracts]


def _headroom_checks(contracts: Sequence[Contract]) -> dg.AssetChecksDefinition:
    by_table = {each.table: each for each in contracts}
    says = (
        "Time until Kafka may delete what is not read yet: warns below a quarter of the topic's retention, fails below "
        "a twentieth."
    )

    @dg.multi_asset_check(
        name=HEADROOM,
        specs=[dg.AssetCheckSpec(HEADROOM, asset=table_key(table), description=says) for table in by_table],
        can_subset=True,
    )
    def headroom(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        from assets.checks.kafka_run import judged_headrooms  # noqa: PLC0415 - only a step pays for the clients' imports

        with lake.open() as opened:
            for found in judged_headrooms(opened, chosen(context, by_table)):
                yield as_result(found)

    return headroom


def _reconciliation_checks(contracts: Sequence[Contract]) -> dg.AssetChecksDefinition:
    by_table = {each.table: each for each in contracts}
    says = (
        f"Each of the newest {NEWEST:,} committed records, as many of every partition, is in exactly one place, "
        "counted from Kafka and the table anew. Evaluated daily, and after a compaction when that was six hours ago. "
        "A run that also fills tables says again what was sound in that time, or compares fewer."
    )

    @dg.multi_asset_check(
        name=KAFKA_RECONCILIATION,
        specs=[
            dg.AssetCheckSpec(KAFKA_RECONCILIATION, asset=table_key(t), description=says) for t in by_table
        ],
        can_subset=True,
    )
    def kafka_reconciliation(
        context: dg.AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        from assets.checks.kafka_run import reconciliations  # noqa: PLC0415
        from assets.runs.loaded import opened  # noqa: PLC0415

        with opened(lake, context.instance) as known:
            for found in reconciliations(known, context, chosen(context, by_table)):
                yield as_result(found)

    return kafka_reconciliation
