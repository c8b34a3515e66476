"""What the next run would change about a table, without changing it (`tidemark plan`, the `schema/…` asset)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tidemark.domain.contract import Contract
from tidemark.domain.layout import layout_faults
from tidemark.domain.schema_plan import SchemaPlan, applied
from tidemark.domain.types import Struct
from tidemark.engine.evolve import Evolution, evolve, plan_evolution, value_columns
from tidemark.engine.lake import Lake
from tidemark.engine.outages import named
from tidemark.engine.quality_plan import rule_faults
from tidemark.engine.schemas import TopicSchemas, read_schemas
from tidemark.engine.tables import table_columns

Verdict = Literal["nothing", "apply", "review", "impossible"]


@dataclass(frozen=True, slots=True)
class Foresight:
    """The shape of `plan --json` for one table."""

    table: str
    plan: str
    verdict: Verdict
    changes: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """{"table", "plan", "verdict", "changes", "affects"}."""
        affects = [self.table] if self.changes else []
        changes = [dict(change) for change in self.changes]
        return {
            "table": self.table,
            "plan": self.plan,
            "verdict": self.verdict,
            "changes": changes,
            "affects": affects,
        }


def foresee(lake: Lake, contract: Contract) -> Foresight:
    """The plan of one table as of now.

    Raises:
        Outage: catalog or registry do not answer.
        Stopped: the table is in a stop state that hides its columns.
    """
    with named(contract.table, topic=contract.topic, cluster=contract.cluster):
        state, schemas = lake.state(contract.table, ledger=False), read_schemas(lake, contract)
        if not state.exists:
            found, columns = _new_table(contract, schemas), schemas.wanted()
        else:
            plan = plan_evolution(contract, state, schemas)
            found, columns = _of(plan), applied(value_columns(state), plan.of("apply"))
        return found if columns is None else _with_rules(lake, contract, found, columns)


def evolve_now(lake: Lake, contract: Contract, run_id: str) -> Evolution | None:
    """Apply what the contract allows, outside of an ingest; None for a table that is not there yet.

    Raises:
        Outage: catalog, registry or Spark do not answer.
        Overtaken: someone else changed the table in the same moment; look again.
    """
    with named(contract.table, topic=contract.topic, cluster=contract.cluster):
        state = lake.state(contract.table, ledger=False)
        if not state.exists or state.ledger is None:
            return None
        return evolve(lake, contract, state, read_schemas(lake, contract), run_id=run_id)


def _of(plan: SchemaPlan) -> Foresight:
    return Foresight(plan.table, plan.id, plan.verdict, tuple(c.as_json() for c in plan.changes))


def _new_table(contract: Contract, schemas: TopicSchemas) -> Foresight:
    wanted = schemas.wanted()
    if wanted is None:
        return Foresight(contract.table, "", "nothing", ())
    faults = layout_faults(
        table_columns(wanted), contract.partitioning, contract.sort_by, contract.event_time
    )
    changes = [
        _change("create_table", "", str(Struct(wanted.fields)), "apply", "the table does not exist yet")
    ]
    changes += [_change("layout", "", None, "impossible", fault) for fault in faults]
    return Foresight(contract.table, "", "impossible" if faults else "apply", tuple(changes))


def _with_rules(lake: Lake, contract: Contract, found: Foresight, columns: Struct) -> Foresight:
    """What the contract's quality rules ask of the columns, and these cannot give."""
    faults = rule_faults(lake, contract, table_columns(columns))
    changes = tuple(_change("quality", "", None, "impossible", fault) for fault in faults)
    verdict: Verdict = "impossible" if faults else found.verdict
    return replace(found, verdict=verdict, changes=(*found.changes, *changes))


def _change(kind: str, path: str, new: str | None, verdict: Verdict, reason: str) -> Mapping[str, Any]:
    return {"kind": kind, "path": path, "from": None, "to": new, "verdict": verdict, "reason": reason}
