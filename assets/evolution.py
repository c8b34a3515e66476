"""One look at the schemas of some tables: each comes out as a result, those that wait for a person as one failure."""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.names import schema_key
from resources.lake import LakeResource
from tidemark.domain.contract import Contract
from tidemark.domain.errors import TidemarkError
from tidemark.engine.evolve import Evolution, history
from tidemark.engine.foresee import evolve_now
from tidemark.engine.lake import Lake


def evolve_tables(
    context: dg.AssetExecutionContext, resource: LakeResource, contracts: Sequence[Contract]
) -> Iterator[dg.MaterializeResult[None]]:
    """Apply what the contracts allow, table by table.

    Raises:
        dg.Failure: at the end, naming the tables that wait for a review or could not be looked at.
    """
    waiting: dict[str, str] = {}
    with resource.open() as lake:
        for contract in contracts:
            try:
                found = evolve_now(lake, contract, context.run_id)
            except TidemarkError as error:
                waiting[contract.table] = str(error)
                continue
            if found is None:
                continue
            if found.parked:
                waiting[contract.table] = _what_waits(contract, found)
            yield _result(lake, contract, found)
    if waiting:
        raise dg.Failure("\n".join(waiting.values()), metadata=waiting, allow_retries=False)


def _what_waits(contract: Contract, found: Evolution) -> str:
    listed = "; ".join(f"{'.'.join(c.path)}: {c.kind} ({c.reason})" for c in found.parked)
    return f"{contract.table}: {listed}\n  next: tidemark approve {contract.table} {found.plan.id} --reason …"


def _result(lake: Lake, contract: Contract, found: Evolution) -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(
        asset_key=schema_key(contract.table),
        metadata={
            "plan": found.plan.id or "nothing to change",
            "verdict": found.plan.verdict,
            "applied": len(found.done),
            "parked": len(found.parked),
            "changes": dg.MetadataValue.json([change.as_json() for change in found.plan.changes]),
            "history": dg.MetadataValue.json(history(lake.state(contract.table, ledger=False))[-5:]),
        },
    )
