"""What a scheduled look finds is told where Dagster would show something else without it: idle tables cost no event."""

from dataclasses import dataclass

import dagster as dg
from dagster import DagsterEventType
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

SHOWN = ("plan", "verdict", "parked")
"""Of the result of a `schema/…` asset, by which two looks are told apart."""


@dataclass(frozen=True, slots=True)
class News:
    """Of one run; one that a person launched tells all."""

    context: dg.OpExecutionContext

    def tell(self, found: dg.AssetCheckEvaluation) -> None:
        """Log the evaluation of a check, unless it is what Dagster shows of it."""
        if not (self._scheduled and self._shown(found)):
            self.context.log_event(found)  # type: ignore[arg-type] # Dagster's annotation lacks what the method takes

    def tell_result(self, made: dg.AssetMaterialization, *, changed: bool) -> None:
        """Log a result, unless nothing was `changed` and the one before says the same. Its checks are told after it."""
        if changed or not (self._scheduled and self._known(made)):
            self.context.log_event(made)

    @property
    def _scheduled(self) -> bool:
        return SCHEDULE_NAME_TAG in self.context.run.tags

    def _shown(self, found: dg.AssetCheckEvaluation) -> bool:
        """Dagster shows a check as not evaluated once its asset was materialized again by another run."""
        instance, key = self.context.instance, found.asset_check_key
        record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
        event = record.event.dagster_event if record and record.event else None
        if record is None or event is None or event.event_type != DagsterEventType.ASSET_CHECK_EVALUATION:
            return False
        made = instance.get_latest_materialization_event(found.asset_key)
        if made and made.run_id != record.run_id and made.timestamp >= record.create_timestamp:
            return False
        last = event.asset_check_evaluation_data
        return (last.passed, last.severity, last.description) == (
            found.passed,
            found.severity,
            found.description,
        )

    def _known(self, made: dg.AssetMaterialization) -> bool:
        entry = self.context.instance.get_latest_materialization_event(made.asset_key)
        last = entry.asset_materialization if entry else None
        return last is not None and all(last.metadata.get(n) == made.metadata.get(n) for n in SHOWN)
