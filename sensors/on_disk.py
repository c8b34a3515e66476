"""What a run that begins now would find: it reads the files anew, a sensor has what the definitions were made of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import dagster as dg

from assets.names import table_key, upsert_lane
from resources.lake import LakeResource, on_disk, unreadable
from tidemark.domain.cadence.request import Ask
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import first_few
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.access.lake import Lake


def runnable(
    context: dg.SensorEvaluationContext, resource: LakeResource, lane: str, decision: Ask
) -> tuple[Ask, str | None]:
    """The decision without tables that such a run would not serve, and a remark on what is to be reloaded."""
    try:
        found = on_disk(resource.places)
    except ConfigurationError as error:
        return replace(decision, tables=(), due=(), reason=unreadable(error)), None
    fresh = _not_loaded(context, found)
    if not decision.tables:
        return decision, fresh
    upserts = [each.contract for each in upsert_tables(found.contracts).values()]
    served = {each.table for each in found.contracts if each.lane == lane}
    served |= {each.table for each in upserts if upsert_lane(each.lane) == lane}
    gone = [table for table in decision.tables if table not in served]
    if not gone:
        return decision, fresh
    tables = tuple(table for table in decision.tables if table in served)
    due = tuple(table for table in decision.due if table in served)
    remark = f"{first_few(gone)}: no contract of lane {lane} on disk any more, reload the definitions"
    return replace(decision, tables=tables if due else (), due=due, reason=remark), fresh


def as_on_disk(
    resource: LakeResource, lake: Lake, contracts: Sequence[Contract], *, upserts: bool = False
) -> tuple[Sequence[Contract], str | None]:
    """Contracts of these definitions as the files have them now, and a remark on those that must be reloaded for that.

    `upserts`: they are those of upsert tables, which follow their append table.
    """
    try:
        found = on_disk(resource.places)
    except ConfigurationError:
        return contracts, None
    made = [each.contract for each in upsert_tables(found.contracts).values()] if upserts else found.contracts
    there = {each.table: each for each in made}
    served: list[Contract] = []
    moved: list[str] = []
    for known in contracts:
        now = there.get(known.table, known)
        in_reach = now.topic == known.topic if upserts else now.cluster in lake.platform.kafka
        if now.lane == known.lane and in_reach:
            served.append(now)
            continue
        moved.append(known.table)
        if upserts or known.cluster in lake.platform.kafka:
            served.append(known)
    remark = f"{first_few(moved)}: of another lane or cluster on disk, reload the definitions"
    return served, remark if moved else None


def digests(resource: LakeResource) -> Mapping[str, str]:
    """By table, that of its contract, an upsert table's by its append table; empty where no run could read them."""
    try:
        found = on_disk(resource.places)
    except ConfigurationError:
        return {}
    upserts = {table: each.append.digest for table, each in upsert_tables(found.contracts).items()}
    return {each.table: each.digest for each in found.contracts} | upserts


def to_reload(context: dg.SensorEvaluationContext, resource: LakeResource) -> str | None:
    """A remark on what reloading the definitions would bring, or that it would fail."""
    try:
        return _not_loaded(context, on_disk(resource.places))
    except ConfigurationError as error:
        return unreadable(error)


def _not_loaded(context: dg.SensorEvaluationContext, found: Configuration) -> str | None:
    """Tables that contracts on disk make, in whatever lane, and that these definitions do not have."""
    if context.repository_def is None:
        return None
    graph = context.repository_def.asset_graph
    tables = [*(each.table for each in found.contracts), *upsert_tables(found.contracts)]
    fresh = [table for table in tables if not graph.has(table_key(table))]
    return f"{first_few(fresh)}: a new contract on disk, reload the definitions" if fresh else None
