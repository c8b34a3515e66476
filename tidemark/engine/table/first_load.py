"""How a table comes to be: created from the contract, or an existing one adopted when its columns fit.

A first load begins with an empty receipt that pins the starting offsets; it is published like any commit, so of two
first loads at once exactly one wins.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from tidemark import __version__
from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.columns.partitioning import as_noted
from tidemark.domain.columns.spark_types import is_read, quoted_text
from tidemark.domain.columns.types import KAFKA_COLUMN, TYPE_RULES, TYPE_RULES_PROPERTY, Struct, table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import SchemaUnsupported, Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Kind, Ledger, batch_id
from tidemark.domain.plan.comments import described
from tidemark.domain.plan.contract_record import RECORD, record_text
from tidemark.domain.plan.meanings import MEANINGS, known, meanings_property
from tidemark.domain.plan.table_properties import BASE, asked_for, governance
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import OWNED, TableState, load_written
from tidemark.engine.table.create import create
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import publish_receipt
from tidemark.engine.table.starting_offsets import starting_offsets

CLUSTER = "tidemark.cluster"
DECLARED_IN = "tidemark.contract-file"
"""The file that declares the table: by it a renamed table is recognised."""


def make_or_adopt(
    lake: Lake,
    contract: Contract,
    topic: Topic,
    columns: Struct,
    run_id: str,
    *,
    says: Mapping[str, str],
    act: str | None = None,
) -> None:
    """Bring table and first receipt into being; what is there already is left as it is.

    `says` are properties of the schemas that it is made for; `act` is as for `publish`.

    Raises:
        Stopped: `table_incompatible` when a table of this name exists and its columns do not fit, or it is an upsert
            table; `ledger_missing` when it has rows of this very topic.
        Overtaken: another run is doing the same; plan again.
    """
    state = lake.state(contract.table)
    if merged := not_append(contract, state):
        raise merged
    if not state.exists:
        _create(lake, contract, topic, columns, says)
    elif not state.owned:
        check_fit(state, contract, columns)
        _check_unread(lake, state, contract)
    state = lake.state(contract.table)
    if state.ledger is None:
        start = starting_offsets(lake.kafka(contract.cluster), contract, topic)
        ledger = first_ledger(contract, topic, start, run_id, epoch=first_epoch(lake, contract, start))
        publish_receipt(lake, state, ledger, act=act)
    if not state.owned:
        kept = {key: text for key, text in state.properties.items() if key in (MEANINGS, TYPE_RULES_PROPERTY)}
        set_properties(
            lake, contract.table, {**_own_properties(lake, contract, topic, columns), **says, **kept}
        )


def not_append(contract: Contract, state: TableState) -> Stopped | None:
    """Why no topic is loaded into a table: it is an upsert table, and has each key's newest record already."""
    if state.ledger is not None or state.made_of is None:
        return None
    return Stopped(
        "table_incompatible",
        contract.table,
        f"It is the upsert table of {state.made_of}, and no topic is loaded into one.",
        topic=contract.topic,
        next_step="name another `table` in the contract, or rename or drop this one first",
    )


def require_read(table: str, columns: Struct) -> None:
    """Raises Stopped(`table_incompatible`) where Spark would read no row because of a column that others added."""
    unread = [f"{field.name} ({field.type})" for field in columns.fields if not is_read(field.type)]
    if unread:
        why = f"Spark reads no table with a column of such a type: {', '.join(unread)}. Drop it."
        raise Stopped("table_incompatible", table, why)


def require_kafka(lake: Lake, table: str, columns: Struct) -> None:
    """Raises Stopped(`schema_review`) where somebody has renamed or dropped `_kafka` or one of its fields by hand."""
    name = KAFKA_COLUMN.name
    there = Struct(tuple(field for field in columns.fields if field.name == name))
    try:
        lacking = covers(there, Struct((KAFKA_COLUMN,)))
    except SchemaUnsupported as error:
        raise Stopped("schema_review", table, str(error), next_step=f"rename it back in {table}") from error
    if not lacking:
        return
    listed = "; ".join(f"{d.dotted} ({d.found or 'gone'}, wanted {d.wanted})" for d in lacking)
    path = lacking[0].path
    raise Stopped(
        "schema_review",
        table,
        f"Somebody has renamed, dropped or altered what tells where its rows come from: {listed}.",
        next_step=f"ALTER TABLE {lake.identifier(table)} RENAME COLUMN {'.'.join((*path[:-1], '…'))} TO {path[-1]} "
        "brings back one that was renamed; one that was dropped is gone, and ADD COLUMN makes it anew, NULL in the "
        "rows that are there",
    )


def first_epoch(lake: Lake, contract: Contract, start: Mapping[int, int], least: int = 0) -> int:
    """The epoch of a first load from `start`, `least` or later where the quarantine of an earlier life is still there.

    What waits in it is replaced as its offsets are read again. Where some are not, all of it stays as another epoch's:
    this one's ledger has never counted those records, and cannot give them up.
    """
    if load_written(lake.catalog, contract.quarantine_table) is None:
        return least
    again = " OR ".join(f"(partition = {p} AND offset >= {o})" for p, o in sorted(start.items())) or "false"
    left = f"max(CASE WHEN resolved_at IS NULL AND NOT ({again}) THEN epoch END)"
    [(newest, unread)] = (
        lake.spark()
        .sql(f"SELECT max(epoch), {left} FROM {lake.identifier(contract.quarantine_table)}")
        .collect()
    )
    return least if newest is None else max(least, newest + (unread == newest))


def first_ledger(
    contract: Contract,
    topic: Topic,
    start: Mapping[int, int],
    run_id: str,
    *,
    epoch: int = 0,
    kind: Kind = "first",
) -> Ledger:
    """The ledger of an epoch that has read nothing yet."""
    return Ledger(
        kind=kind,
        cluster_id=topic.cluster_id,
        topic_id=topic.topic_id,
        topic=contract.topic,
        epoch=epoch,
        start=dict(start),
        from_=dict(start),
        next=dict(start),
        run_id=run_id,
        contract=contract.digest,
        tidemark=__version__,
        attempt=uuid4().hex[:8],
        batch_id=batch_id(contract.table, epoch, {}),
    )


def _create(lake: Lake, contract: Contract, topic: Topic, columns: Struct, says: Mapping[str, str]) -> None:
    faults = layout_faults(
        table_columns(columns), contract.partitioning, contract.sort_by, contract.event_time
    )
    if faults:
        raise Stopped("misconfigured", contract.table, "; ".join(faults))
    create_as_own(lake, contract, topic, columns, says)


def create_as_own(
    lake: Lake,
    contract: Contract,
    topic: Topic,
    columns: Struct,
    properties: Mapping[str, str | None] | None = None,
) -> None:
    """Create the contract's table with its descriptions; `properties` go before its own, None leaves one out."""
    whole = {**_properties(lake, contract, topic, columns), **(properties or {})}
    create(lake, contract, _described(contract, columns), whole)


def _described(contract: Contract, columns: Struct) -> Struct:
    """Columns with the contract's descriptions over those of the registry."""
    said = described(contract.columns)
    fields = table_columns(columns).fields
    return Struct(tuple(replace(f, doc=said.get(as_noted([f.name])) or f.doc) for f in fields))


def _properties(lake: Lake, contract: Contract, topic: Topic, columns: Struct) -> dict[str, str | None]:
    return {
        **base_properties(contract),
        **_own_properties(lake, contract, topic, columns),
        **asked_for(contract),
    }


def base_properties(contract: Contract) -> dict[str, str]:
    """What every table that rows are loaded into begins with."""
    statistics = {
        f"write.metadata.metrics.column._kafka.{column}": "full"
        for column in ("partition", "offset", "epoch", "timestamp")
    }
    return {
        "format-version": str(contract.format_version),
        **BASE,
        **statistics,
    }


def contract_file(lake: Lake, contract: Contract) -> str:
    """The file that declares a table, as an absolute path; empty when none does."""
    origin = lake.configuration.origins.get(contract.table, {}).get("topic")
    return str(Path(origin.file).absolute()) if origin and origin.file else ""


def keep_origin(lake: Lake, contract: Contract, topic: Topic, state: TableState) -> None:
    """Let a table that a file declares say where it is loaded from: the file may have moved, the topic be another."""
    known = _origin(lake, contract, topic)
    stale = {key: value for key, value in known.items() if value and state.properties.get(key) != value}
    if stale and known[DECLARED_IN]:
        set_properties(lake, contract.table, stale)


def _origin(lake: Lake, contract: Contract, topic: Topic) -> dict[str, str | None]:
    return {
        OWNED: contract.topic,
        DECLARED_IN: contract_file(lake, contract),
        CLUSTER: contract.cluster,
        "tidemark.cluster-id": topic.cluster_id,
    }


def _own_properties(lake: Lake, contract: Contract, topic: Topic, columns: Struct) -> dict[str, str]:
    known = {
        **_origin(lake, contract, topic),
        TYPE_RULES_PROPERTY: str(TYPE_RULES),
        MEANINGS: meanings_property(columns),
        RECORD: record_text(contract),
        **governance(contract),
    }
    return {key: value for key, value in known.items() if value}


def _check_unread(lake: Lake, state: TableState, contract: Contract) -> None:
    """Raises Stopped(`ledger_missing`) when the table is a copy of one that was loaded: all would be there twice."""
    if state.ledger is not None or state.head is None:
        return
    topic = f"_kafka.topic = {quoted_text(contract.topic)} AND _kafka.epoch >= 0"
    rows = lake.spark().sql(f"SELECT 1 FROM {lake.identifier(contract.table)} WHERE {topic} LIMIT 1")
    if not rows.isEmpty():
        raise Stopped(
            "ledger_missing",
            contract.table,
            f"It has rows of topic {contract.topic}, and nothing says up to which offset: somebody wrote it anew.",
            topic=contract.topic,
        )


def check_fit(state: TableState, contract: Contract, columns: Struct) -> None:
    """Raises Stopped(`table_incompatible`) when a table that others made lacks some of the columns."""
    differences = covers(known(state.columns or Struct(()), state.properties), table_columns(columns))
    if differences:
        listed = "; ".join(
            f"{d.dotted}: {d.kind}, found {d.ends[0]}, wanted {d.ends[1]}" for d in differences
        )
        raise Stopped(
            "table_incompatible",
            contract.table,
            f"It was not made by Tidemark and lacks: {listed}.",
            differences=[
                {"path": d.dotted, "kind": d.kind, "found": str(d.found), "wanted": str(d.wanted)}
                for d in differences
            ],
        )
