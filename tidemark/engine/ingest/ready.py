"""The table as a batch needs it: made, rid of what earlier runs left, with the columns that the contract lets in.

What a batch makes and alters of a table before it plans is here; `make_plan` calls it.
"""

from tidemark.domain.columns.coverage import Difference, covers
from tidemark.domain.columns.types import Struct, table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, SchemaUnsupported, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.contract_record import another_type, type_before
from tidemark.domain.plan.schema_plan import SchemaPlan
from tidemark.domain.plan.table_plan import strayed
from tidemark.domain.states import State
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.executable_rules import check_rules, unfit_rules
from tidemark.engine.schema.evolve import (
    Evolution,
    barred_ids,
    evolve,
    plan_evolution,
    refused_ids,
    removing_ids,
    state_after,
    unsupported_ids,
    value_columns,
)
from tidemark.engine.schema.history import unfinished
from tidemark.engine.schema.keys import key_decoding
from tidemark.engine.schema.subjects import reading_of, subject_of
from tidemark.engine.schema.writers import TopicSchemas
from tidemark.engine.table.first_load import make_or_adopt, require_kafka, require_read
from tidemark.engine.table.publish import tag_receipt
from tidemark.engine.table.settle import settle
from tidemark.engine.table.takeover import half_renamed, why_not_anew


def make_ready(
    lake: Lake, contract: Contract, state: TableState, topic: Topic, schemas: TopicSchemas, run_id: str
) -> tuple[TableState, Ledger] | None:
    """Make the table if it is not there, carry out what its receipts ask for, and apply schema changes.

    None while nothing can be made: an empty topic without a schema, or with one of several messages.

    Raises:
        Stopped: any stop state that comes of it, or of a rename that died half way.
        Overtaken: someone else made or changed the table in the same moment.
    """
    fresh = state.ledger is None
    if fresh or not state.owned:  # a run that took a table over may have died before the table said so
        if not _begin_table(lake, contract, topic, schemas, run_id):
            return None
        state = lake.state(contract.table)
    if _rename_begun(state) and (fault := half_renamed(lake, contract)):
        raise fault
    require_read(contract.table, value_columns(state))
    require_kafka(lake, contract.table, state.columns or Struct(()))
    ledger = state.ledger
    if ledger is None:
        raise Stopped("ledger_missing", contract.table, "Its first receipt vanished again.")
    if state.receipt is not None and state.tagged != state.receipt:
        tag_receipt(lake, contract.table, state.receipt)
    settle(lake, contract, ledger)
    state = evolve_if_needed(lake, contract, state, schemas, run_id, fresh=fresh)
    _require_fitting_rules(lake, contract, state, schemas)
    return state, ledger


def _rename_begun(state: TableState) -> bool:
    return any(change["kind"] == "rename" for entry in unfinished(state) for change in entry["changes"])


def _require_fitting_rules(lake: Lake, contract: Contract, state: TableState, schemas: TopicSchemas) -> None:
    """Raises Stopped when the contract's rules do not fit: `schema_review` where an approval makes them."""
    columns = value_columns(state)
    faults = unfit_rules(lake, contract, table_columns(columns))
    if not faults:
        return
    plan = plan_evolution(contract, state, schemas)
    later = table_columns(applied(columns, plan.of("apply", "review")))
    if plan.of("review") and not unfit_rules(lake, contract, later):
        raise Stopped(
            "schema_review",
            contract.table,
            f"Plan {plan.id} waits. Without it the rules do not fit: {'; '.join(faults)}",
            plan=plan.id,
            topic=contract.topic,
        )
    check_rules(lake, contract, table_columns(columns))


def evolve_if_needed(
    lake: Lake,
    contract: Contract,
    state: TableState,
    schemas: TopicSchemas,
    run_id: str,
    *,
    fresh: bool = False,
    dry_run: bool = False,
) -> TableState:
    """The table after the changes that the contract applies; `fresh`: its first receipt was written just now.

    With `dry_run` nothing is changed: the table as it would be.

    Edits of the contract are looked for once: the receipts of a table say by which contract it was last written. A
    run whose own contract wrote the newest receipt leaves later edits alone. A layout that somebody else has given
    is looked for each time.

    Raises:
        Stopped: columns that the contract declares wait for an approval, or cannot be had; or the table was for
            records of another type, and nobody has approved that.
        Overtaken: someone else changed the table's schema in the same moment, or has published since `state`.
    """
    if schemas.plain is not None:
        state = _with_declared(lake, contract, state, schemas, run_id, dry_run=dry_run)
    edited = state.ledger is not None and state.ledger.contract != contract.digest
    _require_same_type(contract, state, schemas)
    columns = value_columns(state)
    lacking = frozenset(w.id for w in schemas.writers) - frozenset(schemas.covered(columns))
    wanting = lacking and lacking - barred_ids(contract, state, schemas)
    if not (edited or fresh or wanting or unfinished(state) or strayed(contract, columns, state.shape)):
        return state
    pause_point("evolving")
    return _step(lake, contract, state, schemas, run_id, dry_run=dry_run)[1]


def _require_same_type(contract: Contract, state: TableState, schemas: TopicSchemas) -> None:
    """Raises Stopped(`schema_review`) where records would be passed over because the contract routes them elsewhere."""
    before = type_before(contract, state.properties)
    if before is None:
        return
    plan = plan_evolution(contract, state, schemas)
    raise Stopped(
        "schema_review",
        contract.table,
        f"Plan {plan.id} waits. The table is for records of type {before}, and the contract says "
        f"{contract.event or 'all'}: {another_type(before, contract.event)}",
        plan=plan.id,
        topic=contract.topic,
    )


def _step(
    lake: Lake, contract: Contract, state: TableState, schemas: TopicSchemas, run_id: str, *, dry_run: bool
) -> tuple[Evolution, TableState]:
    """One look at the table, and the table with its new schema, while its ledger is the one that was looked at.

    Raises:
        Overtaken: someone has published; a plan of both would read those offsets again.
    """
    if dry_run:
        plan = plan_evolution(contract, state, schemas)
        done = plan.of("apply")
        return Evolution(plan, done), state_after(state, done)
    evolution = evolve(lake, contract, state, schemas, run_id=run_id)
    if not evolution.done:
        return evolution, state
    now = lake.state(state.table)
    if now.ledger != state.ledger:
        raise Overtaken(state.table, state.head, now.head)
    return evolution, now


def require_bare_values_covered(contract: Contract, state: TableState, schemas: TopicSchemas) -> None:
    """Values without a schema id are all read with one schema: while the table does not hold it, none can be read.

    Nor while that schema lacks a column of the table that the contract does not let go.

    Raises:
        Stopped: `schema_review` when a plan waits, `schema_unsupported` when no plan can help, `misconfigured` when
            the contract or an approval has sent the schema's records to quarantine.
    """
    columns, refused = value_columns(state), refused_ids(contract, state, schemas) & schemas.ids
    apart = refused | removing_ids(contract, state, schemas, "review", "impossible")
    lacking = sorted(apart.union(schemas.ids - frozenset(schemas.covered(columns))))
    if not lacking:
        return
    waiting_plan = plan_evolution(contract, state, schemas)
    uncovered = [f"schema id {i}: {why}" for i in lacking if (why := schemas.why_uncovered(columns, i))]
    gone = [f"{'.'.join(c.path)}: {c.reason}" for c in waiting_plan.changes if c.kind == "remove_column"]
    hopeless = unsupported_ids(contract, state, schemas).issuperset(lacking)
    stop: State = "schema_unsupported" if hopeless else "schema_review"
    way_out = way_out_if_unfit(state, schemas, waiting_plan)
    raise Stopped(
        "misconfigured" if refused else stop,
        contract.table,
        f"Values carry no schema id, and the table does not fit {reading_of(contract)}. "
        f"{'; '.join((*uncovered, *gone))}. "
        + ("Pin a version that it fits." if refused else f"Plan {waiting_plan.id} waits.")
        + (f" {way_out}" if way_out else ""),
        plan=waiting_plan.id,
        topic=contract.topic,
        schema_ids=lacking,
    )


def _with_declared(
    lake: Lake, contract: Contract, state: TableState, schemas: TopicSchemas, run_id: str, *, dry_run: bool
) -> TableState:
    """The table after the columns of the contract have changed.

    Raises:
        Stopped: `schema_review` when the change waits for an approval, `table_incompatible` when none can help.
    """
    if not _lacking(contract, state, schemas) and contract.schema_changes.remove_column == "apply":
        return state
    evolution, state = _step(lake, contract, state, schemas, run_id, dry_run=dry_run)
    missing = _lacking(contract, state, schemas)
    gone = [".".join(c.path) for c in evolution.parked if c.kind == "remove_column"]
    if gone:
        raise Stopped(
            "schema_review",
            contract.table,
            f"Plan {evolution.plan.id} waits. The contract no longer declares {', '.join(gone)}",
            plan=evolution.plan.id,
            topic=contract.topic,
        )
    if not missing:
        return state
    hopeless = [c for c in evolution.parked if c.kind == "incompatible"]
    whole = [f". {c.reason}" for c in hopeless if c.new is None]
    way_out = way_out_if_empty(state) if hopeless else ""
    raise Stopped(
        "table_incompatible" if hopeless else "schema_review",
        contract.table,
        ("" if hopeless else f"Plan {evolution.plan.id} waits. ")
        + "The contract declares what the table does not hold: "
        + "; ".join(f"{d.dotted}: {d.kind} (table {d.found}, contract {d.wanted})" for d in missing)
        + "".join(whole)
        + (f". {way_out}" if way_out else ""),
        plan=evolution.plan.id,
        topic=contract.topic,
    )


def way_out_if_empty(state: TableState) -> str:
    """The way out of a table that a wrong contract has made, and no row was ever written to; empty for any other."""
    if state.rows or (state.ledger and any(each.written for each in state.ledger.totals.values())):
        return ""
    start = {p: o for p, o in state.ledger.start.items() if o} if state.ledger else {}
    forgets = f" (with it goes where it starts: `ingest: {{start: {{offsets: {start}}}}}`)" if start else ""
    return (
        f"It has no rows: drop it{forgets}, and the next run makes it anew; stops that as table_missing, "
        f"tidemark accept {state.table} --first-load --reason …"
    )


def way_out_if_unfit(state: TableState, schemas: TopicSchemas, plan: SchemaPlan) -> str:
    """The same where columns are `incompatible` in its plan, and a table that is made now would hold them."""
    unfit, wanted = {c.schema_id for c in plan.changes if c.kind == "incompatible"}, schemas.wanted()
    held = {0, *(schemas.covered(wanted) if wanted else ())}  # 0: what the contract declares
    return way_out_if_empty(state) if unfit and unfit <= held else ""


def _lacking(contract: Contract, state: TableState, schemas: TopicSchemas) -> tuple[Difference, ...]:
    """What the table lacks to hold the declared columns."""
    try:
        return covers(value_columns(state), schemas.plain or Struct(()))
    except SchemaUnsupported as error:
        raise Stopped("table_incompatible", contract.table, str(error), topic=contract.topic) from error


def _begin_table(lake: Lake, contract: Contract, topic: Topic, schemas: TopicSchemas, run_id: str) -> bool:
    """Make the table, or take over the one that is there; False where nothing tells its columns yet.

    Raises:
        Stopped: it may not be made, or no record of the topic could be read.
    """
    wanted = schemas.wanted()
    if wanted is not None:
        if not lake.state(contract.table, ledger=False).exists and (why := why_not_anew(lake, contract)):
            raise why
        check_rules(lake, contract, table_columns(wanted))
        key_decoding(lake, contract, wanted)
        make_or_adopt(lake, contract, topic, wanted, run_id, says=schemas.properties())
        return True
    if schemas.unsupported:
        newest = max(schemas.unsupported)
        raise Stopped("schema_unsupported", contract.table, schemas.unsupported[newest], topic=contract.topic)
    if unread := without_schema(contract, topic, schemas):
        raise Stopped("misconfigured", contract.table, unread, topic=contract.topic)
    return False


def without_schema(contract: Contract, topic: Topic, schemas: TopicSchemas) -> str:
    """Why no record of a topic can be read for which no schema is known; empty while it holds none."""
    if schemas.undecided or not total(waiting(topic.log_start, topic.end)):
        return ""
    subject = subject_of(contract)
    unknown = (
        f"no schema of subject {subject} is of type {contract.event} (the title of a JSON Schema)."
        if schemas.skips.ids
        else f"the schema registry does not know subject {subject}. If the values are not in the registry, "
        "say so with `value: {format: raw}`."
    )
    return f"topic {contract.topic} holds records, but {unknown}"
