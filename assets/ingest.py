"""The append tables of a lane as one subsettable multi-asset: one run, one Spark session, many tables."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import dagster as dg
from pydantic import Field

from assets.checks.ingest import ingest_checks
from assets.checks.repeated import asked_again
from assets.column_lineage import Columns
from assets.launchpad import Launchpad
from assets.names import ingest_op, pool_of
from assets.runs.run_length import run_length_of
from assets.specs import table_spec
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane
from tidemark.domain.suggest import nearest


class IngestConfig(Launchpad):
    """What the sensor tells a run: tables that are not due, with the second since when records may wait there.

    Seconds since 1970, rounded down. Left out, as where someone clicks, all that waits is published at once.
    """

    first_seen: dict[str, int] = Field(default_factory=dict)


def ingest_assets(
    name: str, lane: Lane, contracts: Sequence[Contract], catalog: str, columns: Mapping[str, Columns]
) -> dg.AssetsDefinition:
    """The tables of lane `name`; `columns` as the discovery file has them."""
    by_key = {contract.table: contract for contract in contracts}
    told_within = run_length_of(lane, contracts)

    @dg.multi_asset(
        name=ingest_op(name),
        specs=[table_spec(each, catalog, columns.get(each.table, ()), told_within) for each in contracts],
        check_specs=[check for each in contracts for check in ingest_checks(each)],
        can_subset=True,
        pool=pool_of(name),
    )
    def ingest(
        context: dg.AssetExecutionContext, config: IngestConfig, lake: LakeResource
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        from assets.runs.lane import ServedLane, run_tables  # noqa: PLC0415 - only a step pays for the engine's imports
        from tidemark.engine.lane.append_work import AppendWork  # noqa: PLC0415

        if not context.selected_asset_keys:
            context.log.warning(
                "These checks are evaluated by the run that ingests their table, and say what the last one found: "
                "materialize the table."
            )
            yield from asked_again(context, by_key)
            return
        _require_in_lane(config.first_seen, by_key, name)
        served = ServedLane(lane, by_key, pool_of(name), AppendWork)
        yield from run_tables(context, lake, served, config.first_seen)

    return ingest


def _require_in_lane(tables: Iterable[str], lane: Collection[str], name: str) -> None:
    """Raises dg.Failure: one of the tables that `first_seen` names is not of this lane."""
    for table in tables:
        if table not in lane:
            meant = nearest(table, lane)
            hint = f" (did you mean {meant}?)" if meant else ""
            raise dg.Failure(
                f"first_seen: no contract of lane {name} makes a table {table}{hint}", allow_retries=False
            )
