"""The sensor of marts, on by default: it evaluates their conditions."""

from collections.abc import Sequence

import dagster as dg

from assets.names import table_key
from tidemark.domain.lineage.marts import Mart

EVERY = 30
"""Seconds between two looks at what has moved."""


def marts_sensor(marts: Sequence[Mart]) -> dg.AutomationConditionSensorDefinition:
    """For marts alone: Dagster's own default sensor would be off."""
    return dg.AutomationConditionSensorDefinition(
        name="marts_upstream",
        target=dg.AssetSelection.assets(*(table_key(each.table) for each in marts)),
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Builds marts when tables beneath them have moved.",
    )
