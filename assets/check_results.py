"""What a check found, told as a result of the step that was asked for it, or as an event by whoever else found out."""

from collections.abc import Iterable, Iterator

import dagster as dg

Told = dg.MaterializeResult[None] | dg.AssetCheckResult
"""What the steps of tables and marts put out."""


def said(
    context: dg.AssetExecutionContext, found: Iterable[dg.AssetCheckEvaluation]
) -> Iterator[dg.AssetCheckResult]:
    """Checks that the run selects are outputs of its step, the others events."""
    for each in found:
        if each.asset_check_key in context.selected_asset_check_keys:
            yield as_result(each)
        else:
            context.log_event(each)


def as_result(found: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    """The same as the output of a step."""
    return dg.AssetCheckResult(
        asset_key=found.asset_key,
        check_name=found.check_name,
        passed=found.passed,
        severity=found.severity,
        description=found.description,
        metadata=found.metadata,
    )
