"""What runs the marts: a sensor that evaluates their conditions, and a job for a person who wants them now."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.names import table_key
from tidemark.domain.lineage.marts import Mart

EVERY = 30
"""Seconds between two looks at what has moved."""


def marts_sensor(marts: Sequence[Mart]) -> dg.AutomationConditionSensorDefinition:
    """On by default, and for marts alone: Dagster's own default sensor would be off."""
    return dg.AutomationConditionSensorDefinition(
        name="marts_upstream",
        target=_selection(marts),
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Builds marts when tables beneath them have moved.",
    )


def marts_job(marts: Sequence[Mart]) -> UnresolvedAssetJobDefinition:
    """All marts at once."""
    return dg.define_asset_job("marts", selection=_selection(marts), description="Build all marts with dbt.")


def _selection(marts: Sequence[Mart]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(table_key(each.table) for each in marts))
