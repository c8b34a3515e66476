"""What the next run would change about a table, without changing it (`tidemark plan`, the `schema/…` asset)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.columns.types import Struct, table_columns
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.config.upsert import upsert_table_of, upsert_tables
from tidemark.domain.lineage.marts import downstream
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.comments import lost_notes
from tidemark.domain.plan.compatibility import disagreements
from tidemark.domain.plan.schema_plan import Change, SchemaPlan
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.newest_records import newest, sampled
from tidemark.engine.access.outages import asked, translated
from tidemark.engine.access.table_state import TableState
from tidemark.engine.ingest.executable_rules import unfit_rules
from tidemark.engine.ingest.ready import way_out_if_unfit, without_schema
from tidemark.engine.marts import read_project
from tidemark.engine.preview.sample import sample as take_sample
from tidemark.engine.preview.survey import in_payload
from tidemark.engine.schema.evolve import is_untold, plan_evolution, value_columns
from tidemark.engine.schema.keys import ids_in_keys, key_fault, untold_keys
from tidemark.engine.schema.subjects import subjects_of
from tidemark.engine.schema.writers import TopicSchemas, read_schemas
from tidemark.engine.table.absent import gone, replaced
from tidemark.engine.table.first_load import not_append
from tidemark.engine.table.folder import folder_fault
from tidemark.engine.table.takeover import adoption, releases, renaming

_OPENED = 100
"""Documents of a sample that are looked at as they came."""
Verdict = Literal["nothing", "apply", "review", "impossible"]


@dataclass(frozen=True, slots=True)
class Foresight:
    """The shape of `plan --json` for one table."""

    table: str
    plan: str
    verdict: Verdict
    changes: tuple[Mapping[str, Any], ...]
    affects: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    sample: Mapping[str, Any] | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    """Dotted key of the contract -> `file:line` that set it; what is not named is built in."""

    def as_json(self) -> dict[str, Any]:
        """{"table", "plan", "verdict", "changes", "affects"}; "findings", "sample", "origins" where there are any."""
        found: dict[str, Any] = {
            "table": self.table,
            "plan": self.plan,
            "verdict": self.verdict,
            "changes": [dict(change) for change in self.changes],
            "affects": list(self.affects) if self.changes else [],
        }
        if self.findings:
            found["findings"] = list(self.findings)
        if self.sample is not None:
            found["sample"] = dict(self.sample)
        if self.origins:
            found["origins"] = dict(self.origins)
        return found


def foresee(lake: Lake, contract: Contract, *, sample: int = 0, rules: bool = True) -> Foresight:
    """The plan of one table as of now; `sample` records are decoded against the table as it would be.

    Rules are judged by the columns that an approval would leave; none are decoded for rules that do not fit these.
    Without `rules` these are not judged, and Spark is not asked.

    Raises:
        Outage: catalog or registry do not answer; or Spark, which some rules or a sample need; or Kafka, which tells
            of which Protobuf message a new table is.
        Stopped: the table is in a stop state that hides its columns.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        state = lake.state(contract.table, ledger=False)
        schemas = read_schemas(lake, contract, state)
        moved = None if state.exists else renaming(lake, contract)
        if moved is not None:
            return _complete(lake, contract, of_plan(moved))
        if not state.exists and (missing := gone(lake, contract.table)):
            raise missing
        if merged := not_append(contract, state):
            raise merged
        if state.exists and state.ledger is None and lake.loaded(contract.table):
            lake.state(contract.table)  # of one of ours it says where the ledger was looked for
            raise replaced(contract, state)
        plan: SchemaPlan | None = None
        if not state.exists:
            found, columns = _new_table(lake, contract, schemas), schemas.wanted()
        else:
            plan = with_adoption(contract, state, schemas, plan_evolution(contract, state, schemas))
            found, columns = of_plan(plan), applied(value_columns(state), plan.of("apply", "review"))
        checked, decoded = found, None
        faults = [] if columns is None or not rules else unfit_rules(lake, contract, table_columns(columns))
        for fault in faults:
            checked = prevented(checked, "quality", fault)
        if columns is not None:
            checked = _with_key(lake, contract, checked, columns)
        if sample and not faults:
            decoded = take_sample(lake, contract, state, schemas, plan, sample)
        whole = _complete(lake, contract, checked)
        unread = _unread_topic(lake, contract, schemas) if schemas.wanted() is None else []
        notes = (
            *unread,
            *_ways_of_reading(found, schemas),
            *_without_rows(state, schemas, plan),
            *_untold_order(contract, schemas),
            *_ids_in_keys(lake, contract),
            *(_in_payload(lake, contract, sample) if decoded and decoded["records"] else ()),
            *_lost_notes(contract, columns, schemas),
            *whole.findings,
        )
        return replace(whole, findings=notes, sample=decoded)


def foresee_releases(lake: Lake) -> list[Foresight]:
    """Tables that the contracts no longer name.

    Raises:
        Outage: the catalog does not answer.
        Stopped: it refuses us.
    """
    with translated():
        return [replace(of_plan(plan), affects=(asset(plan.table),)) for plan in releases(lake)]


def with_adoption(
    contract: Contract, state: TableState, schemas: TopicSchemas, plan: SchemaPlan
) -> SchemaPlan:
    """The plan, with whose table it is: someone else's that is taken over, or one of another topic."""
    taken = adoption(contract, state, schemas.wanted())
    if taken is not None:
        own = (taken,) if taken.verdict == "impossible" else (taken, *plan.changes)
        return replace(plan, changes=own)
    topic = state.ledger.topic if state.ledger else contract.topic
    if topic == contract.topic:
        return plan
    reason = (
        f"the table's ledger counts offsets of {topic}; records of {contract.topic} begin a new epoch: "
        f"tidemark accept {contract.table} --new-epoch"
    )
    moved = Change("contract", ("topic",), topic, contract.topic, "impossible", reason)
    return replace(plan, changes=(moved, *plan.changes))


def asset(table: str) -> str:
    """The asset key of a table as Dagster prints it."""
    return table.replace(".", "/")


def _complete(lake: Lake, contract: Contract, found: Foresight) -> Foresight:
    project = read_project()
    marts = downstream(contract, project.marts_for(lake.configuration.contracts)) if project else []
    affects = [contract.table, *upsert_tables([contract]), *marts]
    origins = lake.configuration.origins.get(contract.table, {})
    return replace(
        found,
        affects=tuple(asset(each) for each in affects),
        findings=(*found.findings, *compatibility_findings(lake, contract)),
        origins={key: str(origin) for key, origin in origins.items() if origin.file},
    )


def _unread_topic(lake: Lake, contract: Contract, schemas: TopicSchemas) -> list[str]:
    """Where no schema tells of the topic: its name may be mistyped, or its records cannot be read.

    Silent when Kafka does not answer.
    """
    found, _ = asked(lambda: lake.kafka(contract.cluster).describe([contract.topic], one_of_many=True))
    if found is None:
        return []
    topic = found.get(contract.topic)
    if topic is None:
        where = f"does not exist on cluster {contract.cluster}, and no schema tells its columns"
        return [f"topic {contract.topic} {where}"]
    why = schemas.undecided or ("" if schemas.unsupported else without_schema(contract, topic, schemas))
    return [why] if why else []


def _ways_of_reading(found: Foresight, schemas: TopicSchemas) -> list[str]:
    """What column types alone do not tell of a table to be made or changed: what became text, what is left out."""
    told = schemas.notes() if found.verdict != "nothing" else ()
    return [f"{note.path}: {note.text}" if note.path else note.text for note in told]


def _without_rows(state: TableState, schemas: TopicSchemas, plan: SchemaPlan | None) -> list[str]:
    way_out = way_out_if_unfit(state, schemas, plan) if plan else ""
    return [way_out] if way_out else []


def _untold_order(contract: Contract, schemas: TopicSchemas) -> list[str]:
    """Order columns that none of Debezium's flattened changes has ever filled."""
    current = upsert_table_of(contract)
    order = current.order if current and schemas.writers else ()
    return [
        f"upsert.order_by: no schema fills {'.'.join(path)}, which takes a field that the connector adds "
        "(`add.fields`): the next column decides, in the end Kafka's order"
        for path in order
        if all(is_untold(writer, path) for writer in schemas.writers)
    ]


def _ids_in_keys(lake: Lake, contract: Contract) -> list[str]:
    """What the registry's header of keys makes of rows that are told apart by `_kafka.key`."""
    ids = ", ".join(map(str, ids_in_keys(lake, contract)))
    says = (
        f"upsert: _kafka.key is all bytes of a key, and {contract.topic}-key has schema ids {ids}: a key that is "
        "written with another id is another row, and its tombstone deletes no row of the id before"
    )
    return [says] if ids else []


def _in_payload(lake: Lake, contract: Contract, records: int) -> list[str]:
    """That documents carry Kafka Connect's schema; silent when Kafka does not answer a second time."""
    value = contract.value
    if value.format != "json" or value.envelope != "none" or not value.fields:
        return []

    def look() -> list[str]:
        topic = lake.topic(contract, one_of_many=True)
        found = sampled(lake, topic, contract.cluster, newest(topic, min(records, _OPENED)))
        return in_payload(contract, [record.value for record in found if record.value is not None])

    return asked(look)[0] or []


def _lost_notes(contract: Contract, columns: Struct | None, schemas: TopicSchemas) -> list[str]:
    """Never more than a finding: a note may be about a column that the writers no longer have, or not yet."""
    wanted = schemas.wanted()
    if columns is None or wanted is None or not contract.columns:
        return []
    return lost_notes(table_columns(Struct((*columns.fields, *wanted.fields))), contract.columns)


def compatibility_findings(lake: Lake, contract: Contract) -> tuple[str, ...]:
    """What the registry lets producers do and the contract holds up; a finding, not a change.

    Raises:
        Outage: `registry_down`.
    """
    if contract.value.format not in REGISTRY_FORMATS:
        return ()
    registry = lake.registry(contract.cluster)
    found = (disagreements(registry.compatibility(s), contract.schema_changes) for s in subjects_of(contract))
    return tuple(dict.fromkeys(finding for findings in found for finding in findings))


def of_plan(plan: SchemaPlan) -> Foresight:
    """A plan as it is shown."""
    return Foresight(plan.table, plan.id, plan.verdict, tuple(c.as_json() for c in plan.changes))


def _new_table(lake: Lake, contract: Contract, schemas: TopicSchemas) -> Foresight:
    wanted = schemas.wanted()
    if wanted is None:
        nothing = Foresight(contract.table, "", "nothing", ())
        why = schemas.unsupported.get(max(schemas.unsupported, default=0))
        return prevented(nothing, "incompatible", why) if why else nothing
    faults = layout_faults(
        table_columns(wanted), contract.partitioning, contract.sort_by, contract.event_time
    )
    taken = folder_fault(lake, contract.table)
    return created(contract, wanted, [*faults, *([str(taken.fields["detail"])] if taken else [])])


def created(contract: Contract, columns: Struct, faults: Sequence[str]) -> Foresight:
    """A table that the next run makes, unless `faults` of its layout prevent it."""
    changes = [
        _change("create_table", "", str(Struct(columns.fields)), "apply", "the table does not exist yet")
    ]
    changes += [_change("layout", "", None, "impossible", fault) for fault in faults]
    return Foresight(contract.table, "", "impossible" if faults else "apply", tuple(changes))


def _with_key(lake: Lake, contract: Contract, found: Foresight, columns: Struct) -> Foresight:
    """What `key` says, and neither these columns nor the keys' schemas can give; or what it leaves unsaid."""
    fault = key_fault(lake, contract, columns)
    if fault is not None:
        return prevented(found, "key", fault)
    untold = ", ".join(untold_keys(lake, contract, columns))
    if not untold:
        return found
    beside = contract.value.envelope == "debezium"  # a delete with the row comes before each tombstone
    why = (
        "deletes of which a compacted topic keeps the tombstone alone delete no row"
        if beside
        else "tombstones name no row and go to the quarantine"
    )
    return replace(found, findings=(*found.findings, f"upsert: `key` does not tell {untold}: {why}"))


def prevented(found: Foresight, kind: str, reason: str) -> Foresight:
    """What was foreseen, and why the next run cannot do it."""
    change = _change(kind, "", None, "impossible", reason)
    return replace(found, verdict="impossible", changes=(*found.changes, change))


def _change(kind: str, path: str, new: str | None, verdict: Verdict, reason: str) -> Mapping[str, Any]:
    return {"kind": kind, "path": path, "from": None, "to": new, "verdict": verdict, "reason": reason}
