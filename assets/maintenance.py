"""Maintenance as assets of their own: `maintenance/<namespace>/<table>/{compaction,snapshot_expiry,orphan_files}`.

One of each kind per contract; it covers the append, quarantine and upsert tables. A run serves all that are selected.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.names import MAINTENANCE_POOL, maintain_op, maintenance_key, table_about
from assets.specs import owned_by
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.maintenance.gain import KINDS, Kind

GROUP = "maintenance"
_SAYS: dict[Kind, str] = {
    "compaction": "Small files and deleted rows of `{table}` and its companions rewritten, where that pays.",
    "snapshot_expiry": "Snapshots (and rows) of `{table}` and its companions that nothing keeps any more.",
    "orphan_files": "Files under `{table}` and its companions that no snapshot names.",
}


def maintenance_assets(contracts: Sequence[Contract]) -> list[dg.AssetsDefinition]:
    """One subsettable multi-asset per kind."""
    return [_kind(kind, contracts) for kind in KINDS] if contracts else []


def _kind(kind: Kind, contracts: Sequence[Contract]) -> dg.AssetsDefinition:
    by_table = {each.table: each for each in contracts}

    @dg.multi_asset(
        name=maintain_op(kind),
        specs=[_spec(kind, each) for each in contracts],
        can_subset=True,
        pool=MAINTENANCE_POOL,
    )
    def maintain_kind(
        context: dg.AssetExecutionContext, lake: LakeResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        from assets.runs.maintenance import maintain_tables  # noqa: PLC0415 - only a step pays for the engine's imports

        tables = sorted(table_about(key) for key in context.selected_asset_keys)
        yield from maintain_tables(context, lake, kind, [by_table[table] for table in tables])

    return maintain_kind


def _spec(kind: Kind, contract: Contract) -> dg.AssetSpec:
    return dg.AssetSpec(
        maintenance_key(contract.table, kind),
        description=_SAYS[kind].format(table=contract.table),
        metadata={"table": contract.table},
        skippable=True,
        group_name=GROUP,
        owners=owned_by(contract.owners.data),
        kinds={"iceberg"},
    )
