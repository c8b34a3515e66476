"""The review pack as an asset: made anew every morning, kept under Tidemark's home."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.checks.freshness import SightingsOf
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract

if TYPE_CHECKING:
    from tidemark.engine.look.status import Hint

KEY = dg.AssetKey("review_pack")
GROUP = "governance"
FOLDER = "review"


def review_asset(contracts: Sequence[Contract], sightings: SightingsOf) -> dg.AssetsDefinition | None:
    """One page over all tables; None without contracts."""
    if not contracts:
        return None

    @dg.asset(
        key=KEY,
        group_name=GROUP,
        kinds={"html"},
        description="What reviewers ask of each table, as one HTML page: owners, lineage, schema history, freshness, "
        "reconciliation, quarantine, recovery point, operational contract.",
    )
    def review_pack(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
        from assets.runs.last_runs import hints_of  # noqa: PLC0415 - only a step pays for the engine's imports
        from tidemark.review.collect import reviews  # noqa: PLC0415
        from tidemark.review.write import write  # noqa: PLC0415

        def hints(tables: Sequence[str]) -> "Mapping[str, Hint]":
            return hints_of(context.instance, tables, sightings(context.instance))

        with lake.open() as opened:
            found = reviews(opened, contracts, lake.places.home, hints)
            file = write(found, opened.platform.catalog.name, lake.places.home / FOLDER)
        states = sorted({f"{status.table}: {status.state}" for each in found for status in each.stands})
        return dg.MaterializeResult(
            metadata={"page": dg.MetadataValue.path(file), "tables": len(found), "states": states}
        )

    return review_pack
