"""What the next merge would change about an upsert table, without changing it (`tidemark plan`)."""

from dataclasses import replace

from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.columns.types import Struct, table_columns
from tidemark.domain.config.upsert import UpsertTable, upsert_faults
from tidemark.domain.errors import Stopped
from tidemark.domain.formats.debezium import has_rows
from tidemark.domain.plan.applied import applied
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import UPSERT_OF, TableState
from tidemark.engine.merge.grown import grown
from tidemark.engine.merge.missing_rows import lacking
from tidemark.engine.merge.pair import Pair, own_receipts, read_pair
from tidemark.engine.merge.table import columns_for, lacking_columns, made_otherwise, plan_follow
from tidemark.engine.preview.foresee import Foresight, asset, created, of_plan, prevented
from tidemark.engine.schema.evolve import plan_evolution
from tidemark.engine.schema.writers import TopicSchemas, read_schemas
from tidemark.engine.table.absent import gone

_LATER = "rows of {} are to have other columns; what waits for them can be approved once a merge has stopped for it"


def foresee_upsert(lake: Lake, current: UpsertTable) -> Foresight:
    """The plan of an upsert table as of now, of the columns that its append table has or is to have.

    While its append table has no rows there is nothing to do; what cannot be made of its columns, or merged into the
    table that is there, is told all the same.

    Raises:
        Outage: the catalog or the registry does not answer.
        Stopped: a newer Tidemark wrote its ledger, or runs have merged it and it is gone.
    """
    contract = current.contract
    with translated(contract.table, topic=current.append.table, cluster=current.append.cluster):
        pair = read_pair(lake, current, ledger=False)
        if pair.append is None:
            return _before_the_first_load(lake, current, pair.state)
        if not pair.state.exists and (missing := gone(lake, contract.table)):
            raise missing
        append, notes = _append_columns(lake, current), tuple[str, ...]()
        columns = columns_for(current, pair.state, append)
        if pair.state.exists:
            now = plan_follow(current, pair.state, columns_for(current, pair.state, pair.columns))
            later = plan_follow(current, pair.state, columns)
            if later.id != now.id:  # who approves goes by what is there
                notes = (_LATER.format(current.append.table),)
            found = (
                of_plan(now) if now.of("review") or later.id == now.id else replace(of_plan(later), plan="")
            )
            for fault in upsert_faults(current, append):
                found = prevented(found, "incompatible", fault)
        else:
            found = created(contract, columns, _faults(current, append, columns))
        if pair.state.exists and (why := made_otherwise(current, pair.state)):
            found = prevented(found, "incompatible", why)
        if (lack := lacking_columns(pair)) is not None:
            found = prevented(found, "incompatible", lack.fields["detail"])
        if (lack := lacking(pair)) is not None:
            found = prevented(found, "history", lack.fields["detail"])
        return replace(found, affects=(asset(contract.table),), findings=(*notes, *_grown(lake, pair)))


def _grown(lake: Lake, pair: Pair) -> list[str]:
    """Partitions that came after a merge whose receipt is still there."""
    if pair.append is None or not pair.current.by_offset:
        return []
    merged = [ledger for _, ledger in own_receipts(lake, pair.state.table)]
    told = grown(pair, merged, pair.append.ledger.next)
    return [told] if told else []


def _append_columns(lake: Lake, current: UpsertTable) -> Struct:
    """The append table's columns as its own plan would have them, once all of it is approved."""
    append = current.append
    state = lake.state(append.table, ledger=False)
    plan = plan_evolution(append, state, _schemas(lake, current, state))
    return applied(state.columns or Struct(()), plan.of("apply", "review"))


def _schemas(lake: Lake, current: UpsertTable, state: TableState) -> TopicSchemas:
    """What may stand in the append table's topic. Why that is not known hinders this table too, by its own name."""
    append = current.append
    try:
        return read_schemas(lake, append, state)
    except Stopped as stopped:
        if stopped.table != append.table:
            raise
        raise Stopped(
            stopped.state,
            current.contract.table,
            str(stopped.fields["detail"]),
            topic=append.topic,
            cluster=append.cluster,
            next_step=stopped.next_step,
        ) from stopped


def _before_the_first_load(lake: Lake, current: UpsertTable, state: TableState) -> Foresight:
    append, contract = current.append, current.contract
    nothing = Foresight(contract.table, "", "nothing", ())
    of = state.properties.get(UPSERT_OF, append.table)  # a rename of that one brings it along
    if state.exists and of == append.table and (why := made_otherwise(current, state)):
        return replace(prevented(nothing, "incompatible", why), affects=(asset(contract.table),))
    absent = lake.state(append.table, ledger=False)
    wanted = None if absent.exists else _schemas(lake, current, absent).wanted()
    if wanted is None or not has_rows(wanted):
        return nothing
    columns = columns_for(current, state, table_columns(wanted))
    if not (faults := _faults(current, table_columns(wanted), columns)):
        return nothing
    found = created(contract, columns, faults)
    return replace(found, affects=(asset(contract.table),))


def _faults(current: UpsertTable, append: Struct, columns: Struct) -> list[str]:
    """Why no upsert table with `columns` can be made of an append table with these."""
    said = current.contract
    layout = layout_faults(columns, said.partitioning, said.sort_by)
    return [*upsert_faults(current, append), *layout]
