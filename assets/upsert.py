"""The upsert tables of a lane as one subsettable multi-asset, downstream of the append tables and apart from ingest."""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from assets.column_lineage import Columns
from assets.names import merge_op, pool_of, upsert_lane
from assets.specs import upsert_spec
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Lane


def upsert_assets(
    name: str,
    lane: Lane,
    tables: Sequence[Contract],
    catalog: str,
    columns: Mapping[str, Columns],
    topics: Mapping[str, str],
) -> dg.AssetsDefinition:
    """The upsert tables of lane `name`, as contracts of their own, with the Kafka topic of each in `topics`.

    `columns` as the discovery file has them.
    """
    by_key = {each.table: each for each in tables}
    pool = pool_of(upsert_lane(name))

    @dg.multi_asset(
        name=merge_op(name),
        specs=[
            upsert_spec(each, topics[each.table], catalog, columns.get(each.table, ())) for each in tables
        ],
        can_subset=True,
        pool=pool,
    )
    def merge(
        context: dg.AssetExecutionContext, lake: LakeResource
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        from assets.runs.lane import ServedLane, run_tables  # noqa: PLC0415 - only a step pays for the engine's imports
        from tidemark.engine.lane.upsert_work import UpsertWork  # noqa: PLC0415

        yield from run_tables(context, lake, ServedLane(lane, by_key, pool, UpsertWork))

    return merge
