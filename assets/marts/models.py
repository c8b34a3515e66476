"""The marts: dbt models on the lake, run when the tables beneath them have moved.

Specs come from `dbt_project/assets.json`, made by dagster-dbt's translator (assets/marts/translator.py): dbt itself is
imported by the step that builds, never by a process that only loads the definitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from assets.checks.results import StepOutput
from assets.column_lineage import Columns, column_metadata
from assets.launchpad import Launchpad
from assets.names import ALLOWED, CORRECTED, MARTS_POOL, ROLE_TAG, table_key
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.lineage.marts import Mart

RETRY = "*/10 * * * *"
"""When a build that was asked for and came to nothing is asked for again."""

_FOLLOWS = "No table beneath was rolled back, replayed or corrected since the mart was made of it. "
_ANEW = (
    "A build makes such a mart anew by itself, unless `retention` has deleted rows that its figures count, or a mart "
    "beneath has yet to follow."
)
_KEEPS = "dbt never makes this one anew: it may have rows of what was taken back until somebody sees to them."


class Build(Launchpad):
    """How the marts are built."""

    full_refresh: bool = Field(
        default=False,
        description="make them anew from all rows, also those of a table whose old rows `retention` has deleted",
    )


def mart_assets(
    marts: Sequence[Mart], contracts: Sequence[Contract], catalog: str, columns: Mapping[str, Columns]
) -> dg.AssetsDefinition | None:
    """One multi-asset for all marts, dbt's tests and the tag check as asset checks; None without marts."""
    if not marts:
        return None
    by_table = {mart.table: mart for mart in marts}

    @dg.multi_asset(
        name="build_marts",
        specs=[_spec(each, by_table, contracts, catalog, columns) for each in marts],
        check_specs=[spec for each in marts for spec in _checks(each)],
        can_subset=True,
        pool=MARTS_POOL,
    )
    def build_marts(
        context: dg.AssetExecutionContext, config: Build, lake: LakeResource
    ) -> Iterator[StepOutput]:
        from assets.marts.build import build, judge  # noqa: PLC0415 - only this step pays for dbt's imports

        yield from build(context, lake, by_table, contracts, full_refresh=config.full_refresh)
        yield from judge(context, lake, by_table, contracts)

    return build_marts


def when_upstream_moved(beneath: Sequence[Mart]) -> dg.AutomationCondition[Any]:
    """When a mart is built: any table beneath it was materialized since, and all of them are there.

    `beneath` are the marts that it reads.

    - `any_deps_updated`, not a schedule: a quiet lake costs nothing, a busy one is built once per ingest run.
    - `since(newly_requested)`, not since the last build: what moves while a build runs asks for one more build, not for
      one per event, nor does a mart that is new wait for one. What moves between request and look is `moved` still.
    - `unbuilt`: a build that failed, was killed or was ended is tried again, though nothing has moved since, as is one
      that did not begin: `any_deps_updated` leaves out a table whose run was to build the mart as well. Not on a mart
      that fails its tests, which is what dbt has skipped it for. For what merely warns, or is no test of dbt's, dbt
      skips nothing: that may stay red until a person acts.
    - no `any_deps_in_progress` (as `eager()` has it): a busy lane always has a run in progress, it lingers; the mart
      would never be built.
    - `~any_deps_missing`: before the first load of a table dbt would fail with "table not found".
    - `~in_progress`: two builds of one mart would only wait for each other.
    """
    updated, asked = dg.AutomationCondition.any_deps_updated(), dg.AutomationCondition.newly_requested()
    moved = (updated | dg.AutomationCondition.newly_missing()).since(asked & ~updated)
    blocking = [
        dg.AssetCheckKey(table_key(mart.table), each.name)
        for mart in beneath
        for each in mart.checks
        if each.blocking
    ]
    red = dg.AutomationCondition.any_checks_match(dg.AutomationCondition.check_failed())
    unfit = dg.AutomationCondition.any_deps_match(red.allow(dg.AssetSelection.checks(*blocking)))
    made = dg.AutomationCondition.newly_updated()
    unbuilt = (asked | dg.AutomationCondition.any_deps_match(made)).since(made)
    return (
        (moved | (unbuilt & dg.AutomationCondition.cron_tick_passed(RETRY) & ~unfit))
        & ~dg.AutomationCondition.any_deps_missing()
        & ~dg.AutomationCondition.in_progress()
    ).with_label("upstream_moved")


def _spec(
    mart: Mart,
    marts: Mapping[str, Mart],
    contracts: Sequence[Contract],
    catalog: str,
    columns: Mapping[str, Columns],
) -> dg.AssetSpec:
    described = [{"name": each.name, "type": "", "doc": each.description} for each in mart.columns]
    shown = column_metadata(mart.table, contracts, columns, described)
    if "dagster/column_lineage" not in shown:
        shown = {}  # Dagster shows a definition's columns before those of a build, and these have no tags yet
    return dg.AssetSpec(
        table_key(mart.table),
        deps=[table_key(table) for table in mart.upstream],
        description=mart.description,
        metadata={
            "dagster/table_name": f"{catalog}.{mart.table}",
            "dbt_model": mart.unique_id,
            **shown,
        },
        skippable=True,
        group_name=mart.table.partition(".")[0],
        code_version=mart.code_version,
        owners=list(mart.owners),
        tags={**dict.fromkeys(mart.tags, ""), ROLE_TAG: "data"},
        kinds={"dbt", "spark", "iceberg"},
        automation_condition=when_upstream_moved([marts[each] for each in mart.upstream if each in marts]),
    )


def _checks(mart: Mart) -> Iterator[dg.AssetCheckSpec]:
    key = table_key(mart.table)
    for each in mart.checks:
        yield dg.AssetCheckSpec(
            each.name,
            asset=key,
            description=each.description or "A test of the dbt project.",
            additional_deps=[table_key(table) for table in each.deps],
            metadata={"dbt_test": each.unique_id},
        )
    yield dg.AssetCheckSpec(
        ALLOWED,
        asset=key,
        description="No column carries a contract's tag (pii …) unless `columns.<name>.allow` names this table.",
    )
    yield dg.AssetCheckSpec(
        CORRECTED,
        asset=key,
        description=_FOLLOWS + (_KEEPS if mart.keeps else _ANEW),
    )
