"""One look at the schemas of some tables: each comes out as a result with its checks, errors as one failure.

The scheduled job, for which nobody waits, tells only what is news; it also looks how long Kafka keeps what is not read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.checks.changed_findings import News
from assets.checks.drift import drift_evaluation
from assets.checks.kafka_run import judged_headrooms
from assets.checks.results import StepOutput, as_result
from assets.names import COMPATIBILITY, REVIEW, SCHEMA_EVOLUTION, schema_key
from assets.runs.loaded import opened
from resources.lake import LakeResource
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.config.upsert import is_upsert_table
from tidemark.domain.errors import TidemarkError
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.lake import Lake
from tidemark.engine.preview.foresee import compatibility_findings
from tidemark.engine.schema.evolve import Evolution, evolve_now
from tidemark.engine.schema.history import history
from tidemark.engine.table.absent import gone


def evolve_tables(
    context: dg.AssetExecutionContext, resource: LakeResource, contracts: Sequence[Contract]
) -> Iterator[StepOutput]:
    """Apply what the contracts allow, table by table. What waits for a review is a failed check, not a failed run.

    A table of which the run has but checks is looked at, and nothing of it is applied.

    Raises:
        dg.Failure: at the end, naming the tables that could not be looked at.
    """
    news = News.of(context)
    known: list[dg.AssetMaterialization] = []
    chosen = context.selected_asset_check_keys
    with opened(resource, context.instance) as lake:
        if context.job_name == SCHEMA_EVOLUTION:
            _log(context, news, judged_headrooms(lake, contracts))
        try:
            for found in _looks(lake, contracts, context):
                asked = [each for each in found.checks if each.asset_check_key in chosen]
                if found.made is None:
                    pass
                elif found.made.asset_key not in context.selected_asset_keys:
                    yield from map(as_result, asked)
                elif found.changed or news.is_result(found.made):
                    yield _result(found.made, asked)
                else:
                    known.append(found.made)
                _log(context, news, [*(each for each in found.checks if each not in asked), found.drift])
        except dg.Failure:  # it would paint every asset red that has no result
            yield from map(_result, known)
            raise


def _log(context: dg.AssetExecutionContext, news: News, found: Iterable[dg.AssetCheckEvaluation]) -> None:
    for each in found:
        if news.is_check(each):
            context.log_event(each)


def _result(
    made: dg.AssetMaterialization, checks: Sequence[dg.AssetCheckEvaluation] = ()
) -> dg.MaterializeResult[None]:
    """The result of the step; `checks` are those that the run selects."""
    results = [as_result(each) for each in checks]
    return dg.MaterializeResult(asset_key=made.asset_key, metadata=made.metadata, check_results=results)


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at a table found: nothing but its drift where it is gone."""

    drift: dg.AssetCheckEvaluation
    made: dg.AssetMaterialization | None = None
    checks: Sequence[dg.AssetCheckEvaluation] = ()
    changed: bool = False


def _looks(lake: Lake, contracts: Sequence[Contract], context: dg.AssetExecutionContext) -> Iterator[_Look]:
    failed: dict[str, str] = {}
    for contract in contracts:
        applies = schema_key(contract.table) in context.selected_asset_keys
        try:
            found = evolve_now(lake, contract, context.run_id if applies else None)
            if found is None and gone(lake, contract.table) is None:
                continue
            made = _made(lake, contract, found) if found else None
            checks = _checks(lake, contract, found) if found else []
            yield _Look(drift_evaluation(lake, contract), made, checks, changed=bool(found and found.done))
        except TidemarkError as error:
            failed[contract.table] = str(error)
    if failed:
        raise dg.Failure("\n".join(failed.values()), metadata=failed, allow_retries=False)


def run_evolved(lake: Lake, contract: Contract, run_id: str) -> dg.AssetMaterialization | None:
    """What a run has changed about the table's columns or layout, for the `schema/…` asset of its append table."""
    state = lake.state(contract.table, ledger=False)
    mine = [entry for entry in history(state) if entry["run_id"] == run_id]
    if not mine:
        return None
    merged = is_upsert_table(contract)
    said = (
        f"the merge into {contract.table}, before the rows" if merged else "the ingest run, before the batch"
    )
    return dg.AssetMaterialization(
        schema_key(contract.topic if merged else contract.table),
        description=f"Applied by {said} that needed it.",
        metadata={
            "table": contract.table,
            "plan": ", ".join(entry["plan"] for entry in mine),
            "applied": sum(len(entry["changes"]) for entry in mine),
            "history": dg.MetadataValue.json(mine),
        },
    )


def reviewed(lake: Lake, contract: Contract, run_id: str) -> dg.AssetCheckEvaluation | None:
    """What waits for a review after what the contract lets in was applied; None of a table that is not there.

    Raises Outage, Stopped or Overtaken.
    """
    found = evolve_now(lake, contract, run_id)
    return _review(contract, found) if found else None


def parked_review(
    instance: dg.DagsterInstance, contract: Contract, outcome: Outcome
) -> Iterator[dg.AssetCheckEvaluation]:
    """Of an append table that a run left because a change waits: its `schema/…` asset says so at once, and once."""
    if outcome.state == "schema_review" and not is_upsert_table(contract):
        error = outcome.error or {}
        plan = error.get("plan")
        found = dg.AssetCheckEvaluation(
            asset_key=schema_key(contract.table),
            check_name=REVIEW,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=error.get("message", ""),
            metadata={"next": error.get("next_step", ""), **({"plan": plan} if plan else {})},
        )
        if News(instance, everything=False).is_check(found):
            yield found


def _made(lake: Lake, contract: Contract, found: Evolution) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        schema_key(contract.table),
        metadata={
            "plan": found.plan.id or "nothing to change",
            "verdict": found.plan.verdict,
            "applied": len(found.done),
            "parked": len(found.parked),
            "changes": dg.MetadataValue.json([change.as_json() for change in found.plan.changes]),
            "history": dg.MetadataValue.json(history(lake.state(contract.table, ledger=False))[-5:]),
        },
    )


def _checks(lake: Lake, contract: Contract, found: Evolution) -> list[dg.AssetCheckEvaluation]:
    checks = [_review(contract, found)]
    if contract.value.format in REGISTRY_FORMATS:
        checks.append(_compatibility(lake, contract))
    return checks


def _review(contract: Contract, found: Evolution) -> dg.AssetCheckEvaluation:
    """Fails while a change is parked: a warning when an approval helps, an error when none can."""
    hopeless = bool(found.parked) and all(change.verdict == "impossible" for change in found.parked)
    waits = [f"{'.'.join(c.path) or contract.table}: {c.kind} ({c.reason})" for c in found.parked]
    metadata: dict[str, Any] = {}
    if waits:
        metadata |= {"plan": found.plan.id, "waits": dg.MetadataValue.json(waits)}
    if waits and not hopeless:
        command = f"tidemark approve {contract.table} {found.plan.id} --reason …"
        metadata["next"] = f"{command}, or the job approve in the launchpad"
    return dg.AssetCheckEvaluation(
        asset_key=schema_key(contract.table),
        check_name=REVIEW,
        passed=not waits,
        severity=dg.AssetCheckSeverity.ERROR if hopeless else dg.AssetCheckSeverity.WARN,
        description="; ".join(waits) or "nothing waits",
        metadata=metadata,
    )


def _compatibility(lake: Lake, contract: Contract) -> dg.AssetCheckEvaluation:
    found = compatibility_findings(lake, contract)
    return dg.AssetCheckEvaluation(
        asset_key=schema_key(contract.table),
        check_name=COMPATIBILITY,
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(found) or "the registry is at least as strict as the contract",
    )
