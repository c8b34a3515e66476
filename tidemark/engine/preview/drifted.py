"""How far a table is from its topic now (`schema_drift`); nothing is changed."""

from tidemark.domain.config.contract import Contract
from tidemark.domain.plan.drift import Drift, drift
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.preview.foresee import with_adoption
from tidemark.engine.schema.evolve import plan_evolution, value_columns, writer_columns
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.table.absent import gone


def drifted(lake: Lake, contract: Contract) -> Drift | None:
    """The drift of a table as of now; None when there is no table yet.

    Raises:
        Outage: catalog or registry do not answer.
        Stopped: the table is in a stop state that hides its columns, or is gone.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        state = lake.state(contract.table, ledger=False)
        if not state.exists:
            if missing := gone(lake, contract.table):
                raise missing
            return None
        schemas = read_schemas(lake, contract, state)
        plan = with_adoption(contract, state, schemas, plan_evolution(contract, state, schemas))
        whole = schemas.plain is None and schemas.framing == "confluent"
        return drift(value_columns(state), writer_columns(state, schemas), plan, whole=whole)
