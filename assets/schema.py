"""Schema evolution as assets of their own: `schema/<namespace>/<table>` plans, applies what may be, parks the rest.

Two checks tell what waits for a person, before the first record that needs it: a change that is parked, and a registry
that lets producers register what the contract would hold up.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.checks.results import StepOutput
from assets.names import COMPATIBILITY, REVIEW, schema_key, table_about
from assets.specs import owned_by
from resources.lake import LakeResource
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract

GROUP = "schema"


def schema_assets(contracts: Sequence[Contract]) -> dg.AssetsDefinition | None:
    """One asset per table: edits of its contract are changes too. None when there is no table."""
    by_table = {each.table: each for each in contracts}
    if not by_table:
        return None

    @dg.multi_asset(
        name="evolve_schemas",
        specs=[_spec(each) for each in by_table.values()],
        check_specs=[spec for each in by_table.values() for spec in _checks(each)],
        can_subset=True,
    )
    def evolve_schemas(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[StepOutput]:
        from assets.runs.schema import evolve_tables  # noqa: PLC0415 - only a step pays for the engine's imports

        checked = {key.asset_key for key in context.selected_asset_check_keys}
        chosen = sorted(table_about(key) for key in context.selected_asset_keys | checked)
        yield from evolve_tables(context, lake, [by_table[table] for table in chosen])

    return evolve_schemas


def _spec(contract: Contract) -> dg.AssetSpec:
    return dg.AssetSpec(
        schema_key(contract.table),
        description=f"Columns of `{contract.table}` against the registered writers of `{contract.topic}`.",
        metadata={"table": contract.table, "policy": contract.schema_changes.model_dump()},
        skippable=True,
        group_name=GROUP,
        owners=list(contract.approvers) or owned_by(contract.owners.data),
        kinds={"iceberg"},
    )


def _checks(contract: Contract) -> list[dg.AssetCheckSpec]:
    key = schema_key(contract.table)
    checks = [dg.AssetCheckSpec(REVIEW, asset=key, description="No change of the table waits for a person.")]
    if contract.value.format in REGISTRY_FORMATS:
        says = "The registry lets producers register nothing that `schema_changes` would hold up."
        checks.append(dg.AssetCheckSpec(COMPATIBILITY, asset=key, description=says))
    return checks
