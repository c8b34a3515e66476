"""What the next merge would change about an upsert table, without changing it (`tidemark plan`)."""

from dataclasses import replace

from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.config.upsert import Current, upsert_columns, upsert_faults
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import named
from tidemark.engine.merge.lacking import lacking
from tidemark.engine.merge.state import read_pair
from tidemark.engine.merge.table import plan_follow
from tidemark.engine.preview.foresee import Foresight, asset, created, of_plan, prevented


def foresee_upsert(lake: Lake, current: Current) -> Foresight:
    """The plan of an upsert table as of now; nothing while its append table has no rows.

    Raises:
        Outage: the catalog does not answer.
        Stopped: a newer Tidemark wrote its ledger.
    """
    contract = current.contract
    with named(contract.table, topic=current.append.table, cluster=current.append.cluster):
        pair = read_pair(lake, current, ledger=False)
        if pair.append is None:
            return Foresight(contract.table, "", "nothing", ())
        columns = upsert_columns(current, pair.columns)
        if pair.state.exists:
            found = of_plan(plan_follow(current, pair.state, columns))
        else:
            faults = upsert_faults(current, pair.columns)
            faults += layout_faults(columns, contract.partitioning, contract.sort_by)
            found = created(contract, columns, faults)
        if (missing := lacking(pair)) is not None:
            found = prevented(found, "history", missing.fields["detail"])
        return replace(found, affects=(asset(contract.table),))
