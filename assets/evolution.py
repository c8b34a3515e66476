"""One look at the schemas of some tables: each comes out as a result with its checks, errors as one failure."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from assets.drift import evaluation
from assets.last_runs import knowing
from assets.names import schema_key
from assets.schema import COMPATIBILITY, REVIEW
from resources.lake import LakeResource
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.config.upsert import is_upsert_table
from tidemark.domain.errors import TidemarkError
from tidemark.engine.access.lake import Lake
from tidemark.engine.preview.foresee import compatibility_findings, evolve_now
from tidemark.engine.schema.evolve import Evolution
from tidemark.engine.schema.history import history


def evolve_tables(
    context: dg.AssetExecutionContext, resource: LakeResource, contracts: Sequence[Contract]
) -> Iterator[dg.MaterializeResult[None]]:
    """Apply what the contracts allow, table by table. What waits for a review is a failed check, not a failed run.

    Raises:
        dg.Failure: at the end, naming the tables that could not be looked at.
    """
    failed: dict[str, str] = {}
    with resource.open() as opened:
        lake = knowing(opened, context.instance)
        for contract in contracts:
            try:
                found = evolve_now(lake, contract, context.run_id)
                if found is not None:
                    yield _result(context, lake, contract, found)
                    context.log_event(evaluation(lake, contract))
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


def _result(
    context: dg.AssetExecutionContext, lake: Lake, contract: Contract, found: Evolution
) -> dg.MaterializeResult[None]:
    key = schema_key(contract.table)
    checks = [_review(contract, found)]
    if contract.value.format in REGISTRY_FORMATS:
        checks.append(_compatibility(lake, contract))
    chosen = context.selected_asset_check_keys
    return dg.MaterializeResult(
        asset_key=key,
        metadata={
            "plan": found.plan.id or "nothing to change",
            "verdict": found.plan.verdict,
            "applied": len(found.done),
            "parked": len(found.parked),
            "changes": dg.MetadataValue.json([change.as_json() for change in found.plan.changes]),
            "history": dg.MetadataValue.json(history(lake.state(contract.table, ledger=False))[-5:]),
        },
        check_results=[each for each in checks if dg.AssetCheckKey(key, str(each.check_name)) in chosen],
    )


def _review(contract: Contract, found: Evolution) -> dg.AssetCheckResult:
    """Fails while a change is parked: a warning when an approval helps, an error when none can."""
    hopeless = any(change.verdict == "impossible" for change in found.parked)
    waits = [f"{'.'.join(c.path) or contract.table}: {c.kind} ({c.reason})" for c in found.parked]
    metadata: dict[str, Any] = {}
    if waits:
        metadata |= {"plan": found.plan.id, "waits": dg.MetadataValue.json(waits)}
    if waits and not hopeless:
        command = f"tidemark approve {contract.table} {found.plan.id} --reason …"
        metadata["next"] = f"{command}, or the job approve in the launchpad"
    return dg.AssetCheckResult(
        check_name=REVIEW,
        asset_key=schema_key(contract.table),
        passed=not waits,
        severity=dg.AssetCheckSeverity.ERROR if hopeless else dg.AssetCheckSeverity.WARN,
        description="; ".join(waits) or "nothing waits",
        metadata=metadata,
    )


def _compatibility(lake: Lake, contract: Contract) -> dg.AssetCheckResult:
    found = compatibility_findings(lake, contract)
    return dg.AssetCheckResult(
        check_name=COMPATIBILITY,
        asset_key=schema_key(contract.table),
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(found) or "the registry is at least as strict as the contract",
    )
