"""The newest records of a topic against the table as it would be: what would be quarantined, and why. Reads only."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.types import table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.evidence import Group, unknown_ids
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.offsets import OffsetRange, total
from tidemark.domain.plan.schema_plan import SchemaPlan
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.newest_records import newest
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.records import decode
from tidemark.engine.ingest.observe import grouped
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine_rows import quarantined_rows
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.schema.event_routes import IDS_ROUTED
from tidemark.engine.schema.evolve import refused_ids, removing_ids, state_after, value_columns
from tidemark.engine.schema.keys import key_decoding, key_fault
from tidemark.engine.schema.writers import TopicSchemas, read_schemas
from tidemark.engine.table.first_load import first_ledger

FATES = ("written", "quarantined", "tombstones", "skipped", "waiting")
_PLURAL = {"tombstone": "tombstones", "uncovered": "waiting"}


def sample(
    lake: Lake,
    contract: Contract,
    state: TableState,
    schemas: TopicSchemas,
    plan: SchemaPlan | None,
    records: int,
) -> Mapping[str, Any]:
    """{"records", FATES…, "causes": [{"cause", "count", "detail", "partition", "offset"}]}.

    The candidate is the table with every change that is applied or could be approved; without a table, the one that
    a first load would make. `waiting` are records of schemas that not even those changes would let in.
    """
    topic = lake.topic(contract, one_of_many=True)
    ranges = newest(topic, records)
    grown = approved(state, schemas, plan)
    counts = dict.fromkeys(FATES, 0)
    if grown is None or not ranges:
        return {"records": 0, **counts, "causes": []}
    columns = value_columns(grown)
    candidate = _candidate(contract, grown, schemas, topic, ranges)
    if schemas.framing == "bare" and not candidate.covered:
        return {"records": total(ranges), **counts, "waiting": total(ranges), "causes": []}
    key = None if key_fault(lake, contract, columns) else key_decoding(lake, contract, columns)
    candidate = replace(candidate, key=key)
    read = read_ranges(lake, contract, ranges)
    groups = grouped(decode(read, candidate.decoding()))
    unknown = unknown_ids(groups) if contract.event else frozenset()
    if unknown:  # of other tables, maybe: a batch looks them up as well
        others = unknown.intersection(grown.ledger.others if grown.ledger else ())
        some = others.union(sorted(unknown - others)[:IDS_ROUTED])
        candidate = replace(candidate, schemas=read_schemas(lake, contract, grown, some))
        groups = grouped(decode(read, candidate.decoding()))
    for group in groups:
        counts[_PLURAL.get(group.fate, group.fate)] += group.count
    causes = [*_quarantined(lake, candidate, groups), *_waiting(candidate, groups, plan)]
    return {"records": sum(counts.values()), **counts, "causes": causes}


def approved(state: TableState, schemas: TopicSchemas, plan: SchemaPlan | None) -> TableState | None:
    """The table once `plan` is approved, or as a first load would make it; None where no columns are known."""
    if plan:
        return state_after(state, plan.of("apply", "review"))
    columns = schemas.wanted()
    return None if columns is None else replace(state, columns=table_columns(columns))


def _candidate(
    contract: Contract,
    grown: TableState,
    schemas: TopicSchemas,
    topic: Topic,
    ranges: Mapping[int, OffsetRange],
) -> Plan:
    return Plan(
        contract=contract,
        topic=topic,
        state=grown,
        ledger=grown.ledger or first_ledger(contract, topic, topic.log_start, ""),
        schemas=schemas,
        ranges=ranges,
        batch_id="sample",
        attempt_id="sample",
        run_id="sample",
        refused=refused_ids(contract, grown, schemas),
        parked=removing_ids(contract, grown, schemas, "impossible"),
    )


def _quarantined(lake: Lake, candidate: Plan, groups: list[Group]) -> list[dict[str, Any]]:
    if not any(group.fate == "quarantined" for group in groups):
        return []
    rows = (
        quarantined_rows(lake, candidate, groups)
        .groupBy("cause")
        .agg(
            F.count("*").alias("count"),
            F.min_by(F.struct("detail", "partition", "offset"), "offset").alias("first"),
        )
        .collect()
    )
    return [
        {"cause": row["cause"], "count": row["count"], **row["first"].asDict()}
        for row in sorted(rows, key=lambda row: -row["count"])
    ]


def _waiting(candidate: Plan, groups: list[Group], plan: SchemaPlan | None) -> list[dict[str, Any]]:
    by_schema: dict[int, list[Group]] = {}
    for group in groups:
        if group.fate == "uncovered" and group.schema_id is not None:
            by_schema.setdefault(group.schema_id, []).append(group)
    return [
        {
            "cause": "schema_review",
            "count": sum(group.count for group in found),
            "detail": f"schema id {schema_id}: {candidate.why_held(plan, schema_id)}",
            "partition": found[0].partition,
            "offset": found[0].first,
        }
        for schema_id, found in by_schema.items()
    ]
