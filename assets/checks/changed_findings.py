"""What a scheduled look finds is told only where Dagster shows something else so far: idle tables cost no event."""

from dataclasses import dataclass
from typing import Self

import dagster as dg
from dagster import DagsterEventType

from assets.names import REVIEW, by_schedule

SHOWN = ("plan", "verdict", "parked")
"""Metadata of the result of a `schema/…` asset by which two looks are told apart."""


@dataclass(frozen=True, slots=True)
class News:
    """What Dagster does not show yet; a run that somebody has launched tells `everything`."""

    instance: dg.DagsterInstance
    everything: bool

    @classmethod
    def of(cls, context: dg.AssetExecutionContext) -> Self:
        """Of this run."""
        return cls(context.instance, everything=not by_schedule(context.run))

    def is_check(self, found: dg.AssetCheckEvaluation) -> bool:
        """Whether a check says something else; it is not shown any more once another run has materialized its asset."""
        if self.everything:
            return True
        instance, key = self.instance, found.asset_check_key
        record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
        event = record.event.dagster_event if record and record.event else None
        if record is None or event is None or event.event_type != DagsterEventType.ASSET_CHECK_EVALUATION:
            return True
        made = instance.get_latest_materialization_event(found.asset_key)
        if made and made.run_id != record.run_id and made.timestamp >= record.create_timestamp:
            return True
        return _says(event.asset_check_evaluation_data) != _says(found)

    def is_result(self, made: dg.AssetMaterialization) -> bool:
        """Whether the result before says something else."""
        if self.everything:
            return True
        entry = self.instance.get_latest_materialization_event(made.asset_key)
        last = entry.asset_materialization if entry else None
        return last is None or any(last.metadata.get(n) != made.metadata.get(n) for n in SHOWN)


def _says(found: dg.AssetCheckEvaluation) -> tuple[bool, dg.AssetCheckSeverity, object]:
    """By which two evaluations are told apart: the plan that waits for a review, whoever words it, or the words."""
    plan = found.metadata.get("plan") if found.check_name == REVIEW else None
    return found.passed, found.severity, plan.value if plan else found.description
