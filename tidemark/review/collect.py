"""One table as reviewers ask about it, from catalog, Kafka and contract; Spark and Dagster may be down."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.expressions import In
from pyiceberg.table import Table

from tidemark.domain.columns.partitioning import as_noted
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.naming import CURRENT
from tidemark.domain.config.upsert import UpsertTable, upsert_tables
from tidemark.domain.lineage.column_lineage import (
    Exposure,
    Lineage,
    Origin,
    exposures,
    inverse,
    lineage_of,
    made_of_it,
    note_of,
    tags_of,
    untraced,
)
from tidemark.domain.lineage.marts import Mart, downstream
from tidemark.domain.plan.comments import described
from tidemark.domain.states import FINE, State, meaning
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked
from tidemark.engine.access.table_state import load
from tidemark.engine.config import discovery
from tidemark.engine.look import sightings
from tidemark.engine.look.quarantined import causes
from tidemark.engine.look.status import Facts, Hint, Status
from tidemark.engine.look.tables import hinted, judge_all, look
from tidemark.engine.look.upserts import upsert_statuses
from tidemark.engine.marts import read_project
from tidemark.engine.preview.foresee import Foresight, foresee
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.schema.history import history
from tidemark.engine.table.operations import log_table
from tidemark.review.promises import promises
from tidemark.review.receipts import (
    Receipt,
    cutover_of,
    fates_of,
    receipts_of,
    recovery_of,
    snapshots_of,
    way_back,
)

OPERATIONS = 50
"""Newest lines of the operations log that are shown."""
PLANNED = frozenset({"schema_review", "schema_unsupported", "table_incompatible"})
"""States that a plan explains."""
LOST = frozenset({"table_missing", "ledger_missing"})
"""States of a table that was loaded, and says no more of what."""


@dataclass(frozen=True, slots=True)
class Current:
    """The upsert table of an append table; `waits` and `why` are those of its own stop."""

    status: Status
    waits: Mapping[str, Any] | None = None
    why: str = ""
    unplanned: State | None = None
    """Why its plan could not be asked."""

    def as_json(self) -> dict[str, Any]:
        """As of status, with what waits and why."""
        return {**self.status.as_json(), "waits": self.waits, "why": self.why}


@dataclass(frozen=True, slots=True)
class Review:
    """Everything about one table. Parts that could not be asked are empty; `unasked` says which, and why."""

    contract: Contract
    status: Status
    columns: Sequence[Mapping[str, Any]]
    receipts: Sequence[Receipt]
    fates: Sequence[Mapping[str, Any]]
    quarantine: Sequence[Mapping[str, Any]]
    snapshots: Mapping[str, Any]
    recovery: Mapping[str, Any] | None
    changes: Sequence[Mapping[str, Any]]
    operations: Sequence[Mapping[str, Any]]
    promises: Sequence[tuple[str, str]]
    marts: Mapping[str, Sequence[str]]
    """That are made of the table at any distance, each with the tables one step up."""
    exposed: Sequence[Exposure] = ()
    """Tagged columns that reached marts without leave: what fails their check `tagged_columns_are_allowed`."""
    untraced: Sequence[Origin] = ()
    """Columns of those marts that may be made of anything, for nobody knows of what."""
    current: Current | None = None
    """The upsert table, where the contract asks for one."""
    waits: Mapping[str, Any] | None = None
    """The plan that stopped the table, as `plan --json` shows it, where one did."""
    why: str = ""
    """What stopped the table, in the words of its last run or of the state; empty where it goes on."""
    cutover: Mapping[str, Any] | None = None
    """The last backfill that was published, as the table itself says, and not rolled back."""
    unasked: Mapping[str, State] = field(default_factory=dict)
    """Of `table`, `quarantine`, `operations` and `waits` what could not be read, by the state of what holds it."""
    older_operations: int = 0
    """Lines of the operations log before those that are shown."""

    @property
    def stands(self) -> tuple[Status, ...]:
        """How the table stands, and its upsert table."""
        return (self.status, self.current.status) if self.current else (self.status,)

    def as_json(self) -> dict[str, Any]:
        """The shape of `report --json`."""
        contract = self.contract
        said = contract.model_dump(mode="json", by_alias=True)
        said["value"]["fields"] = contract.value.fields  # types, however secret the names look
        return {
            "table": contract.table,
            "topic": contract.topic,
            "description": contract.description,
            "owners": contract.owners.model_dump(),
            "approvers": list(contract.approvers),
            "runbook": contract.runbook,
            "status": self.status.as_json(),
            "contract": said,
            "columns": list(self.columns),
            "lineage": {
                "topic": contract.topic,
                "quarantine": contract.quarantine_table,
                "marts": list(self.marts),
            },
            "exposed": [
                {"table": each.table, "column": each.column, "tags": list(each.tags), "of": each.origin[1]}
                for each in self.exposed
            ],
            "untraced": [{"table": table, "column": column} for table, column in self.untraced],
            "schema_history": list(self.changes),
            "batches": [each.as_json() for each in self.receipts],
            "reconciliation": list(self.fates),
            "quarantine": list(self.quarantine),
            "snapshots": dict(self.snapshots),
            "operations": list(self.operations),
            "recovery_point": self.recovery,
            "operational_contract": dict(self.promises),
            "upsert": self.current.as_json() if self.current else None,
            "waits": self.waits,
            "why": self.why,
            "cutover": self.cutover,
        }


Hints = Callable[[Sequence[str]], Mapping[str, Hint]]
"""What somebody else knows of tables, by name: how their last runs ended."""


def reviews(
    lake: Lake, contracts: Sequence[Contract], home: Path, hints: Hints = lambda _: {}
) -> list[Review]:
    """In the order given."""
    seen = discovery.read(home)
    facts = look(lake, contracts, sightings.read(home))
    facts = hinted(lake, facts, hints([each.contract.table for each in facts]))
    project = read_project()
    marts = project.marts_for(lake.configuration.contracts) if project else []
    lineage = lineage_of(seen.described(), lake.configuration.contracts)
    upserts = upsert_tables(contracts)
    stands = {each.table: each for each in judge_all(lake, facts)}
    merged = upsert_statuses(
        lake, upserts.values(), hints, lambda unmade: [stands[each.table] for each in unmade]
    )
    told = hints([each.table for each in merged if each.state not in FINE])
    current = {
        upserts[each.table].append.table: _current(
            lake, upserts[each.table], each, told.get(each.table, Hint())
        )
        for each in merged
    }
    names = {each.contract.table: _names(each, current.get(each.contract.table)) for each in facts}
    operations, unlisted = asked(lambda: _operations(lake, names))
    made = {mart.table for mart in marts} | upsert_tables(lake.configuration.contracts).keys()
    below = inverse(_standing(lake, lineage, made))
    known = _Known(seen, lineage, below, marts, operations or {}, unlisted)
    return [
        _review(lake, known, each, stands[each.contract.table], current.get(each.contract.table))
        for each in facts
    ]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of all tables together; `unlisted` says why operations are missing.

    `below` is the `inverse` lineage, of tables that are there.
    """

    seen: discovery.Discovery
    lineage: Lineage
    below: Lineage
    marts: Sequence[Mart]
    operations: Mapping[str, Sequence[Mapping[str, Any]]]
    unlisted: State | None


def _standing(lake: Lake, lineage: Lineage, made: Collection[str]) -> Lineage:
    """Without tables that nobody has `made` and the catalog has no more: the discovery file forgets no mart."""
    others = {table for table, columns in lineage.items() if columns and table not in made}
    gone = {each for each in others if asked(partial(lake.catalog.table_exists, each))[0] is False}
    return {table: columns for table, columns in lineage.items() if table not in gone}


def _current(lake: Lake, current: UpsertTable, status: Status, hint: Hint) -> Current:
    waits, unplanned = _plan(partial(foresee_upsert, lake, current), status)
    return Current(status, waits, why(Facts(current.contract, hint=hint), status.state), unplanned)


def _review(lake: Lake, known: _Known, facts: Facts, status: Status, current: Current | None) -> Review:
    contract, state = facts.contract, facts.table
    names = downstream(contract, known.marts)
    reached = {each.table: each.upstream for each in known.marts if each.table in names}
    table, unread = asked(lambda: load(lake.catalog, contract.table))
    receipts = receipts_of(table.metadata, contract.table) if table else []
    found, uncounted = asked(
        lambda: causes(lake, contract.table, contract.quarantine_table, state.ledger if state else None)
    )
    waits, unplanned = _plan(partial(foresee, lake, contract, rules=False), status)
    kept, uncounted_rows = asked(lambda: snapshots_of(table) if table else {})
    lost = status.state if status.state in LOST and not receipts else None
    done = known.operations.get(contract.table, [])
    faults = {
        "table": unread or uncounted_rows or lost,
        "quarantine": uncounted or unread or lost,
        "operations": known.unlisted,
        "waits": unplanned,
    }
    return Review(
        contract=contract,
        status=status,
        columns=_columns(contract, facts, known),
        receipts=receipts,
        fates=fates_of(receipts),
        quarantine=[each.as_json() for each in found or []],
        snapshots=kept or {},
        recovery=_recovery(table, facts, receipts) if table else None,
        changes=_changes(facts)[::-1],
        operations=done[:OPERATIONS],
        older_operations=max(0, len(done) - OPERATIONS),
        promises=promises(contract, lake.platform),
        exposed=exposed(contract, known.lineage, list(reached)),
        untraced=_untraced(known, list(reached)),
        marts=reached,
        current=current,
        waits=waits,
        why=why(facts, status.state),
        cutover=asked(lambda: cutover_of(table.metadata, contract.table))[0] if table else None,
        unasked={part: fault for part, fault in faults.items() if fault},
    )


def _plan(ask: Callable[[], Foresight], status: Status) -> tuple[Mapping[str, Any] | None, State | None]:
    """The plan, where the state is one of a plan; or why nobody can tell it now."""
    found, fault = asked(ask) if status.state in PLANNED else (None, None)
    return (found.as_json() if found else None), fault


def why(facts: Facts, state: State) -> str:
    """The last run's error, unless the table stands otherwise now."""
    if state in FINE:
        return ""
    contract, hint = facts.contract, facts.hint
    said = hint.why if hint.stopped == state else ""
    return said or meaning(state, table=contract.table, topic=contract.topic, cluster=contract.cluster)


def exposed(contract: Contract, lineage: Lineage, marts: Sequence[str]) -> list[Exposure]:
    """The columns that the contract tags in marts that it does not allow."""
    return [each for mart in marts for each in exposures(lineage, [contract], mart)]


def _untraced(known: _Known, marts: Sequence[str]) -> list[Origin]:
    every = {each.table for each in known.marts}
    return [
        (mart, column)
        for mart in marts
        for column in untraced(known.lineage, mart, [c["name"] for c in known.seen.columns(mart)], every)
    ]


def _columns(contract: Contract, facts: Facts, known: _Known) -> list[dict[str, Any]]:
    columns = facts.table.columns if facts.table else None
    listed = discovery.columns_to_json(columns) if columns else known.seen.columns(contract.table)
    return [
        {
            "name": each["name"],
            "type": each["type"],
            "required": bool(each.get("required")),
            "description": _description(contract, each),
            "tags": list(tags_of(known.lineage, [contract], contract.table, each["name"])),
            "becomes": [".".join(origin) for origin in made_of_it(known.below, contract.table, each["name"])],
            "allow": list(note_of(contract, each["name"])[1]),
        }
        for each in listed
    ]


def _description(contract: Contract, column: Mapping[str, Any]) -> str:
    return described(contract.columns).get(as_noted([column["name"]])) or column.get("doc") or ""


def _recovery(table: Table, facts: Facts, receipts: Sequence[Receipt]) -> dict[str, Any] | None:
    if not receipts:
        return None
    last = receipts[-1]
    oldest = way_back(table.metadata, facts.contract.table, last.ledger.epoch, facts.topic)
    return recovery_of(last, oldest, kafka_asked=facts.topic is not None)


def _changes(facts: Facts) -> list[dict[str, Any]]:
    return history(facts.table) if facts.table and facts.table.exists else []


def _names(facts: Facts, current: Current | None) -> dict[str, datetime | None]:
    """The table, its upsert table, and what both were called before, each with the time of its last rename."""
    former: dict[str, datetime | None] = {
        each["from"]: datetime.fromisoformat(said["at"])
        for said in _changes(facts)
        for each in said["changes"]
        if each["kind"] == "rename"
    }
    if current:
        former |= {name + CURRENT: until for name, until in former.items()}
    return {**former, facts.contract.table: None, **({current.status.table: None} if current else {})}


def _operations(
    lake: Lake, tables: Mapping[str, Mapping[str, datetime | None]]
) -> dict[str, list[dict[str, Any]]]:
    """What people did to each of the tables under its names, newest first.

    Up to the time of a name it is of the table that had it until then, not of those that got the name later.
    """
    log = load(lake.catalog, log_table(lake))
    if log is None:
        return {}
    owners: defaultdict[str, list[tuple[str, datetime | None]]] = defaultdict(list)
    for table, names in tables.items():
        for name, until in names.items():
            owners[name].append((table, until))
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    rows = log.scan(row_filter=In(term="table", literals=owners)).to_arrow()
    for row in rows.sort_by([("at", "descending")]).to_pylist():
        had = [(table, until) for table, until in owners[row["table"]] if until is None or row["at"] <= until]
        first = min((until for _, until in had if until), default=None)
        for table, until in had:
            if until == first:
                at, arguments = row["at"].isoformat(), _plain(row["arguments"])
                found[table].append({**row, "at": at, "arguments": arguments})
    return found


def _plain(arguments: str | None) -> Any:
    return json.loads(arguments) if arguments else {}
