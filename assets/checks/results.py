"""What a check found, told as a result of the step that was asked for it, or as an event by whoever else found out."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from assets.names import table_of
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, TidemarkError, state_of

StepOutput = dg.MaterializeResult[None] | dg.AssetCheckResult
"""What the steps of tables and marts put out."""


def as_outputs(
    context: dg.AssetExecutionContext, found: Iterable[dg.AssetCheckEvaluation]
) -> Iterator[dg.AssetCheckResult]:
    """Checks that the run selects, as outputs of its step; logs the others as events."""
    for each in found:
        if each.asset_check_key in context.selected_asset_check_keys:
            yield as_result(each)
        else:
            context.log_event(each)


def chosen(context: dg.AssetCheckExecutionContext, by_table: Mapping[str, Contract]) -> list[Contract]:
    """The contracts of the checks that the run selects of this step, in the order of their keys."""
    keys = sorted(context.selected_asset_check_keys, key=str)
    return [by_table[table_of(key.asset_key)] for key in keys]


def as_result(found: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    """A check's evaluation as the output of a step."""
    return dg.AssetCheckResult(
        asset_key=found.asset_key,
        check_name=found.check_name,
        passed=found.passed,
        severity=found.severity,
        description=found.description,
        metadata=found.metadata,
    )


def not_judged(error: TidemarkError) -> dict[str, Any]:
    """That nobody answers is no verdict on the table; a stop is one."""
    state = state_of(error)
    return {
        "passed": False,
        "severity": dg.AssetCheckSeverity.WARN if isinstance(error, Outage) else dg.AssetCheckSeverity.ERROR,
        "description": f"it cannot be judged: {state}",
        "metadata": {"state": state, "error": str(error)},
    }
