"""One maintenance run: many tables over one session; what was done becomes numbers, what was not is said in the log."""

import time
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import dagster as dg

from assets.checks.kafka_run import reconciled_among, sound_lately
from assets.names import by_schedule, holds_lane, maintenance_key
from assets.runs.loaded import opened
from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract
from tidemark.domain.maintenance.gain import KINDS, Gain, Kind
from tidemark.engine.maintain.maintain import UNREACHED, maintain, relieve

WHILE_A_LANE_WAITS = 120.0
"""Seconds of all kinds together in a run that holds a lane, as one of all assets does: nothing is begun after them."""


def maintain_tables(
    context: dg.AssetExecutionContext, resource: LakeResource, kind: Kind, contracts: Sequence[Contract]
) -> Iterator[dg.MaterializeResult[None]]:
    """Maintain table by table. A scheduled run that finds nothing to do writes no event: the log says why.

    One that fails does: Dagster shows every asset as failed of which a failed run has no result.
    The schedule of compaction, which is the one that comes often, also relieves tables that are full of snapshots.
    What a run that holds a lane does not reach in its time has no result either: the schedules do it.

    Raises:
        dg.Failure: at the end, naming the tables that could not be maintained.
    """
    failed: dict[str, dg.MetadataValue] = {}
    idle: list[str] = []
    level: list[dg.MaterializeResult[None]] = []
    scheduled, waited_for = by_schedule(context.run), holds_lane(context.run)
    with opened(resource, context.instance) as lake:
        until = time.monotonic() + WHILE_A_LANE_WAITS / len(KINDS) if waited_for else inf
        for contract in contracts:
            gains = list(maintain(lake, contract, (kind,), until=until))
            if scheduled and kind == "compaction":
                gains += relieve(lake, contract)
            idle += [f"{gain.table} {gain.kind}: {gain.reason}" for gain in gains if not gain.acted]
            failed |= {g.table: dg.MetadataValue.json(dict(g.error)) for g in gains if g.error}
            result = _result(contract, kind, gains)
            unreached = all(gain.reason == UNREACHED for gain in gains)
            if not (scheduled or unreached) or any(gain.acted for gain in gains):
                yield result
            elif not any(gain.error for gain in gains):
                level.append(result)
            rewritten = kind == "compaction" and any(g.acted and g.table == contract.table for g in gains)
            brief = scheduled or waited_for
            if rewritten and not (brief and sound_lately(context.instance, contract)):
                tables = len(contracts) if waited_for else 1
                context.log_event(reconciled_among(lake, context.instance, contract, tables))
    if idle:
        context.log.info("Nothing was done here:\n%s", "\n".join(idle))
    if failed:
        yield from level
        raise dg.Failure(f"not maintained: {', '.join(failed)}", metadata=failed, allow_retries=False)


def _result(contract: Contract, kind: Kind, gains: Sequence[Gain]) -> dg.MaterializeResult[None]:
    """The asset's own numbers of the append table under their names.

    Those of companions have their table before them, those of another kind, as retention is to expiry, its name.
    """
    metadata: dict[str, Any] = {"acted": sum(gain.acted for gain in gains)}
    plans: dict[str, Any] = {}
    for gain in gains:
        short = gain.table.removeprefix(contract.namespace + ".")
        table = "" if gain.table == contract.table else f"{short}: "
        prefix = table if gain.kind == kind else f"{table}{gain.kind}: "
        metadata[f"{table}{gain.kind}"] = gain.reason
        metadata |= {f"{prefix}{name}": round(value, 3) for name, value in gain.numbers.items()}
        if gain.plan:
            plans[f"{table}{gain.kind}"] = dict(gain.plan)
    if plans:
        metadata["plan"] = dg.MetadataValue.json(plans)
    return dg.MaterializeResult(asset_key=maintenance_key(contract.table, kind), metadata=metadata)
