"""Letting a parked schema change through: by someone the contract names, for exactly the plan that waits."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_tables
from tidemark.domain.errors import Overtaken, Refused
from tidemark.domain.plan.schema_plan import SchemaPlan
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked, translated
from tidemark.engine.access.table_state import TableState
from tidemark.engine.faults import pause_point
from tidemark.engine.merge.pair import read_pair
from tidemark.engine.merge.table import columns_for, plan_follow
from tidemark.engine.operate.backfill.hold import hold_renamed
from tidemark.engine.schema.evolve import (
    Approval,
    apply_changes,
    begin_rename,
    evolve,
    finish,
    plan_evolution,
)
from tidemark.engine.schema.history import history, is_rest
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.table.operations import Operation, Signature, log_operation, log_unfinished_act
from tidemark.engine.table.takeover import rename, renamed, renaming
from tidemark.engine.table.unlogged import log_missing_acts

LOOKS = 3
"""Times that the table may change under an approval, which is then asked for again."""

Tell = Callable[[Mapping[str, str]], object]
"""Told of tables that are about to be renamed, old name -> new name."""


def approve(
    lake: Lake, contract: Contract, plan: str, signature: Signature, tell: Tell = lambda _: None
) -> Operation:
    """Apply the parked changes of `plan`; records of an incompatible writer go to quarantine from then on.

    Raises:
        Refused: `signature.by` is no approver, the plan is not the one that waits, or nothing can be applied.
        Stopped: the table was loaded from another topic.
        Outage: catalog, registry, Kafka or Spark do not answer.
        Overtaken: others changed the table again and again in the same moment.
    """
    who = signature.authenticated or signature.by
    if contract.approvers and who not in contract.approvers:
        raise Refused(
            f"{who} may not approve changes of {contract.table}: {', '.join(contract.approvers)} may",
            next_step="ask one of them, or mend `approvers` in the contract",
            table=contract.table,
        )
    if who == "contract":
        raise Refused(
            "contract is the name under which a table's history has what needs no approval",
            next_step="--by somebody",
            table=contract.table,
        )
    approval = Approval(plan, who, signature.reason, signature.by, signature.authenticated)
    for _ in range(LOOKS - 1):
        with suppress(Overtaken):
            return _approve(lake, contract, approval, signature, tell)
    return _approve(lake, contract, approval, signature, tell)


def _approve(
    lake: Lake, contract: Contract, approval: Approval, signature: Signature, tell: Tell
) -> Operation:
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        upsert = upsert_tables(lake.configuration.contracts).get(contract.table)
        if upsert is not None:
            return _approve_upsert(lake, upsert, approval, signature)
        state = lake.state(contract.table)
        schemas = read_schemas(lake, contract, state)
        moved = None if state.exists else renaming(lake, contract)
        waits = moved or plan_evolution(contract, state, schemas)
        asked_for, approval = approval.plan, _continued(state, waits, approval)
        if late := _logged_late(lake, contract, state, waits, approval.plan, signature):
            return late
        _check(lake, contract, waits, approval.plan)
        if not signature.dry_run:
            if moved is not None:
                begin_rename(lake, contract, moved, approval, signature.run_id)
                pause_point("renaming")
                hold_renamed(lake, contract, str(moved.changes[0].old))
                tell(renamed(lake, contract, moved))  # what died amid it does not know all names again
                rename(lake, contract, moved)
                pause_point("renamed")
                finish(lake, contract, lake.state(contract.table, ledger=False))
            else:
                evolve(lake, contract, state, schemas, run_id=signature.run_id, approval=approval)
                if asked_for != approval.plan:
                    _log_from_history(lake, lake.state(contract.table, ledger=False), asked_for)
            log_missing_acts(lake, contract.table)
        return _logged(lake, state, waits, signature)


def _approve_upsert(lake: Lake, upsert: UpsertTable, approval: Approval, signature: Signature) -> Operation:
    """The same for an upsert table: its keys are not widened, nor is its format raised, without a person."""
    contract, (state, waits) = upsert.contract, _following(lake, upsert)
    asked_for, approval = approval.plan, _continued(state, waits, approval)
    if late := _logged_late(lake, contract, state, waits, approval.plan, signature):
        return late
    _check(lake, contract, waits, approval.plan)
    if not signature.dry_run:
        apply_changes(lake, contract, state, waits, run_id=signature.run_id, approval=approval)
        if asked_for != approval.plan:
            _log_from_history(lake, lake.state(contract.table, ledger=False), asked_for)
    return _logged(lake, state, waits, signature)


def _following(lake: Lake, upsert: UpsertTable) -> tuple[TableState, SchemaPlan]:
    pair = read_pair(lake, upsert, ledger=False)
    return pair.state, plan_follow(upsert, pair.state, columns_for(upsert, pair.state, pair.columns))


def _continued(state: TableState, waits: SchemaPlan, approval: Approval) -> Approval:
    """The same approval of a run that died amid its changes is one of what they have left."""
    return replace(approval, plan=waits.id) if is_rest(state, waits.of("review"), approval.plan) else approval


def _logged_late(
    lake: Lake, contract: Contract, state: TableState, waits: SchemaPlan, plan: str, signature: Signature
) -> Operation | None:
    """The same approval of a run that died before it was logged: the table's history has it; it is logged now."""
    if signature.dry_run or plan == waits.id or not state.exists:
        return None
    return _log_from_history(lake, finish(lake, contract, state, waits), plan)


def _log_from_history(lake: Lake, state: TableState, plan: str) -> Operation | None:
    """Log the newest approval of `plan` that the table's history has; None where it was logged, or there is none.

    The history tells what several dead runs made of one plan as one change, of the first of them.
    """
    for entry in reversed(history(state)):
        if entry["plan"] == plan and entry["by"] != "contract":
            says, changes = {**entry, "by": entry.get("declared") or entry["by"]}, entry["changes"]
            return log_unfinished_act(lake, says, "approve", state.table, plan=plan, changes=changes)
    return None


def _check(lake: Lake, contract: Contract, waits: SchemaPlan, plan: str) -> None:
    if plan == waits.id and waits.of("review"):
        return
    beside, _ = asked(lambda: _beside(lake, contract))
    if beside and plan == beside.id and beside.of("review"):
        raise Refused(
            f"plan {plan} is one of {beside.table}, not of {contract.table}",
            next_step=f"tidemark approve {beside.table} {plan} --reason …",
            table=contract.table,
        )
    raise Refused(
        f"plan {plan} of {contract.table} is not what waits: {waits.id if waits.of('review') else 'nothing'} is",
        next_step=f"tidemark plan {contract.table}",
        table=contract.table,
    )


def _beside(lake: Lake, contract: Contract) -> SchemaPlan | None:
    """The plan of the table's upsert table, or of the append table that it follows: `plan` shows both."""
    for name, upsert in upsert_tables(lake.configuration.contracts).items():
        if upsert.append.table == contract.table:
            return _following(lake, upsert)[1]
        if name == contract.table:
            state = lake.state(upsert.append.table, ledger=False)
            return plan_evolution(upsert.append, state, read_schemas(lake, upsert.append, state))
    return None


def _logged(lake: Lake, state: TableState, waits: SchemaPlan, signature: Signature) -> Operation:
    return log_operation(
        lake,
        signature,
        "approve",
        state.table,
        {"plan": waits.id, "changes": [c.as_json() for c in waits.of("apply", "review")]},
        state.head,
        state.head,
    )
