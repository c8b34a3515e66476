"""Where a record is: its fate and, for a row, where it comes from. Spark only if PyIceberg cannot.

Rows are found by PyIceberg, which skips files by their statistics on `_kafka.partition` and `_kafka.offset`; what the
offsets, the receipts and the quarantine do not say, Kafka is asked for.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

from pyiceberg.expressions import BooleanExpression, EqualTo
from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.columns.far_times import told
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.fate import MEANINGS, Fate, by_offset, of_another, reader_of, without_row
from tidemark.domain.ledger.guard import Finding, Topic, another
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.maintenance.retention import expired_before
from tidemark.domain.states import remedy
from tidemark.domain.times import iso
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import named
from tidemark.engine.access.snapshots import is_receipt, ledger_of, made_at
from tidemark.engine.access.table_state import TableState, ancestors, load
from tidemark.engine.table.absent import not_new
from tidemark.engine.table.counted_quarantine import NEEDED, OPEN, require_columns, standing
from tidemark.engine.table.settle import pending
from tidemark.engine.verify.glimpse import glimpse, is_skipped
from tidemark.engine.verify.kafka_rows import kafka_rows, listed
from tidemark.engine.verify.peek import peek
from tidemark.engine.verify.provenance import (
    approvals,
    foreign_facts,
    others_since,
    quietly,
    receipt_facts,
    rewritten_since,
    schema_facts,
)

SHOWN = 2_000
"""Bytes of a value that are shown."""
UNDECIDED = "its batch counted skipped records, and rows have been deleted since: it is one or the other"
MOST = 50
"""Records of one key that are told, newest first."""
_KAFKA = ("topic", "partition", "offset", "epoch", "timestamp", "key", "schema_id", "tombstone")
_KEPT = ("topic", "timestamp", "key", "value", "schema_id")
_QUARANTINED = (*NEEDED, *_KEPT, "cause", "detail", "run_id", "quarantined_at")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one table says about one record."""

    table: str
    topic: str
    partition: int
    offset: int
    fate: Fate
    why: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    retained: bool = True
    """False where the contract's retention explains that there is no row."""

    @property
    def lost(self) -> bool:
        """It was read and is nowhere, and nothing says why."""
        return self.fate in {"deleted", "unknown"} and self.retained

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `where --json`."""
        return {
            "table": self.table,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "fate": self.fate,
            "meaning": MEANINGS[self.fate],
            "why": self.why,
            **self.facts,
        }


@dataclass(frozen=True, slots=True)
class _Table:
    """A contract's table and topic at one moment; either may be unknown."""

    contract: Contract
    state: TableState
    topic: Topic | None
    receipts: Sequence[tuple[int, datetime, Ledger]]
    another: Finding | None
    """Why the topic is not the one of the ledger's epoch."""
    metadata: TableMetadata | None
    schemas: dict[int | None, dict[str, Any] | None] = field(default_factory=dict)
    """What the registry has said of a schema id, asked once."""

    @property
    def ledger(self) -> Ledger | None:
        return self.state.ledger


def where_offset(lake: Lake, contract: Contract, partition: int, offset: int) -> list[Answer]:
    """The fate of one offset in the topic as it is now; then what the table has of it from other epochs.

    Raises:
        Refused: the topic has no such partition.
        Outage: the catalog or the store does not answer.
    """
    table = _look(lake, contract)
    rows = list(_rows(lake, table, f"_kafka.partition = {partition} AND _kafka.offset = {offset}"))
    held = list(_quarantined(lake, table, f"partition = {partition} AND offset = {offset}"))
    place = Answer(contract.table, contract.topic, partition, offset, "unknown")
    now = table.ledger.epoch if table.ledger else 0
    if table.topic is not None and partition not in table.topic.end and not rows and not held:
        raise Refused(
            f"topic {contract.topic} has partitions {sorted(table.topic.end)}, not {partition}",
            next_step="name one of these",
        )
    others = sorted({r["epoch"] for r in (*rows, *held)} - {now}, reverse=True)
    found = [_in_epoch(lake, table, place, rows, held, epoch) for epoch in (now, *others)]
    if table.another:
        fate, why = of_another(table.another, table.topic, partition, offset)
        step = remedy(table.another.state, table=contract.table, cluster=contract.cluster)
        found.insert(0, replace(place, fate=fate, why=why, facts={"next_step": step}))
    return [each for each in found if each is not None]


def _in_epoch(
    lake: Lake,
    table: _Table,
    answer: Answer,
    rows: list[dict[str, Any]],
    held: list[dict[str, Any]],
    epoch: int,
) -> Answer | None:
    """None for an epoch of another topic of which nothing is left but resolved quarantine rows."""
    rows = [r for r in rows if r["epoch"] == epoch]
    held = [r for r in held if r["epoch"] == epoch]
    if rows:
        return _published(lake, table, answer, rows, held)
    waits = [r for r in held if r[OPEN]]
    if waits:
        return _held(lake, table, answer, waits[0])
    if table.another or (table.ledger is not None and epoch != table.ledger.epoch):
        return None
    decided = by_offset(table.ledger, table.topic, answer.partition, answer.offset)
    if decided is not None:
        fate, why = decided
        return replace(answer, fate=fate, why=why)
    return _silent(lake, table, answer, held, epoch)


def where_key(lake: Lake, contract: Contract, key: bytes) -> list[Answer]:
    """Every row and quarantined record of a Kafka key, newest first, among the records that were read."""
    table = _look(lake, contract)
    held = EqualTo(term="key", value=key)
    waits = (row for row in _quarantined(lake, table, held) if row[OPEN])
    found = heapq.nlargest(
        MOST,
        chain(_rows(lake, table, EqualTo(term="_kafka.key", value=key)), waits),
        key=lambda row: (row["timestamp"], row["partition"], row["offset"]),
    )
    places = {_place(row) for row in found if OPEN not in row}
    marks = [r for r in _quarantined(lake, table, held) if _place(r) in places] if places else []
    answers = []
    for row in found:
        place = Answer(contract.table, contract.topic, row["partition"], row["offset"], "unknown")
        if OPEN in row:
            answers.append(_held(lake, table, place, row))
        else:
            mine = [r for r in marks if _place(r) == _place(row)]
            answers.append(_published(lake, table, place, [row], mine))
    return answers


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["epoch"], row["partition"], row["offset"]


def _look(lake: Lake, contract: Contract) -> _Table:
    with named(contract.table, topic=contract.topic, cluster=contract.cluster):
        state = lake.state(contract.table, ledger=False)
        if not state.exists and (why := not_new(lake, contract)):
            raise why
        loaded = load(lake.catalog, contract.table)
        chain = ancestors(loaded.metadata, state.head) if loaded else ()
        receipts = [(s.snapshot_id, made_at(s), ledger_of(s, contract.table)) for s in chain if is_receipt(s)]
        topic = quietly(lambda: lake.topic(contract))
        metadata = loaded.metadata if loaded else None
        return _Table(contract, state, topic, receipts, another(state.ledger, topic), metadata)


def _rows(lake: Lake, table: _Table, where: str | BooleanExpression) -> Iterator[dict[str, Any]]:
    with named(table.contract.table):
        loaded = load(lake.catalog, table.contract.table)
        if loaded is None or table.state.head is None:
            return
        for kafka in kafka_rows(lake, table.contract.table, loaded, where, _KAFKA, table.state.head):
            yield from listed(kafka)


def _quarantined(lake: Lake, table: _Table, where: str | BooleanExpression) -> Iterator[dict[str, Any]]:
    name = table.contract.quarantine_table
    with named(name):
        loaded = load(lake.catalog, name)
        if loaded is None or table.ledger is None or loaded.metadata.current_snapshot_id is None:
            return
        require_columns(loaded, name, _QUARANTINED)
        scan = loaded.scan(row_filter=where, selected_fields=_QUARANTINED)
        asked = pending(table.ledger, loaded)
        for batch in scan.to_arrow_batch_reader():
            yield from listed(standing(batch, table.ledger, asked))


def _published(
    lake: Lake, table: _Table, answer: Answer, rows: list[dict[str, Any]], held: list[dict[str, Any]]
) -> Answer:
    row = rows[0]
    own = row["epoch"] >= 0
    twice = f"{len(rows)} times: tidemark reconcile {answer.table}" if len(rows) > 1 and own else ""
    receipt = _publisher(table, answer, held, row["epoch"])
    since = rewritten_since(table.metadata, table.state.head, receipt[0] if receipt else None)
    schema = row["schema_id"]
    if schema not in table.schemas:
        table.schemas[schema] = schema_facts(lake, table.contract, schema)
    changed = "others have written rows of the table since (foreign_commits): its values may be theirs"
    facts = {
        **receipt_facts(receipt),
        **foreign_facts(since),
        "record": {
            "epoch": row["epoch"],
            "timestamp": told(row["timestamp"]),
            "key": _text(row["key"]),
            "key_hex": None if row["key"] is None else row["key"].hex(),
            "tombstone": row["tombstone"],
        },
        "schema": table.schemas[schema],
        "approvals": approvals(table.state, schema),
    }
    resolved = [r for r in held if not r[OPEN]]
    if resolved:
        facts["was_quarantined"] = {
            "cause": resolved[-1]["cause"],
            "at": iso(resolved[-1]["quarantined_at"]),
            "resolved_by": resolved[-1]["resolved_by"],
            "resolved_at": iso(resolved[-1]["resolved_at"]),
        }
    return replace(
        answer,
        fate="published",
        topic=row["topic"] if own else answer.topic,
        why=_together(twice or _of_another(table, row), changed if since else ""),
        facts=facts,
    )


def _of_another(table: _Table, row: dict[str, Any]) -> str:
    """Words for a record that is not of the topic as it is now."""
    if row["epoch"] < 0:
        return f"loaded by a backfill from {row['topic']}"
    if table.ledger is not None and row["epoch"] != table.ledger.epoch:
        told = f"of epoch {row['epoch']}, now is epoch {table.ledger.epoch}"
        receipts = {ledger.epoch: ledger for _, _, ledger in table.receipts}
        then, now = (
            each and (each.cluster_id, each.topic_id, each.topic)
            for each in (receipts.get(row["epoch"]), table.ledger)
        )  # an epoch may also begin because the receipts of the last one are gone
        return told if then in {None, now} else f"{told}: the topic was another one then"
    if table.another:
        return f"of epoch {row['epoch']}, topic {row['topic']}: the topic is another one now"
    return ""


def _publisher(
    table: _Table, answer: Answer, held: list[dict[str, Any]], epoch: int
) -> tuple[int, datetime, Ledger] | None:
    """The receipt that says what became of it: of the replay that moved it, else of the last read from Kafka."""
    if epoch < 0:
        asked_for = ((r, r[2].settlement) for r in table.receipts)
        return next((receipt for receipt, asked in asked_for if asked and asked.epoch == epoch), None)
    table = replace(table, receipts=[r for r in table.receipts if r[2].epoch == epoch])
    marks = {(r["resolved_by"], r["resolved_at"]) for r in held if not r[OPEN]}
    read = reader_of([ledger for _, _, ledger in table.receipts], answer.partition, answer.offset)
    for position, receipt in enumerate(table.receipts):
        asked = receipt[2].settlement
        if read is not None and position >= read:
            break
        if asked is None or receipt[2].kind != "replay":
            continue
        if any(
            by == asked.run_id and when and round(when.timestamp() * 1e6) == asked.at for by, when in marks
        ):
            return receipt
    return table.receipts[read] if read is not None else None


def _held(lake: Lake, table: _Table, answer: Answer, row: dict[str, Any]) -> Answer:
    value = row["value"]
    facts = {
        "cause": row["cause"],
        "detail": row["detail"],
        "run_id": row["run_id"],
        "batch_id": row["batch_id"],
        "quarantined_at": iso(row["quarantined_at"]),
        "record": {
            "epoch": row["epoch"],
            "timestamp": told(row["timestamp"]),
            "key": _text(row["key"]),
            "key_hex": None if row["key"] is None else row["key"].hex(),
            "schema_id": row["schema_id"],
            "bytes": len(row["value"] or b""),
            "value": _text(row["value"]),
            "value_hex": (value or b"")[:SHOWN].hex(),
            **(glimpse(lake, table.contract, value, row["schema_id"]) or {}),
        },
        "next_step": _remedy(lake, table, row),
    }
    why = _together(f"{row['cause']}: {row['detail'] or 'no detail'}", _of_another(table, row))
    return replace(answer, fate="quarantined", topic=row["topic"], why=why, facts=facts)


def _remedy(lake: Lake, table: _Table, row: dict[str, Any]) -> str:
    """What to do about a quarantined record: a replay takes only those of the present epoch."""
    name = table.contract.quarantine_table
    if table.ledger is not None and row["epoch"] == table.ledger.epoch:
        return f"tidemark replay {table.contract.table} --quarantine --cause {row['cause']} --reason …"
    return (
        "no replay takes it, for its epoch is over: send it again if it is wanted, then "
        f"UPDATE {lake.identifier(name)} SET resolved_by = '…', resolved_at = current_timestamp() WHERE epoch = "
        f"{row['epoch']} AND partition = {row['partition']} AND offset = {row['offset']} AND resolved_at IS NULL"
    )


def _silent(lake: Lake, table: _Table, answer: Answer, held: list[dict[str, Any]], epoch: int) -> Answer:
    """Neither row nor waiting in quarantine: what Kafka shows decides."""
    contract = table.contract
    receipt = _publisher(table, answer, held, epoch)
    batch = receipt[2] if receipt else table.ledger
    counts = (batch.counts if receipt else batch.totals).get(answer.partition) if batch else None
    found = peek(lake.platform.kafka[contract.cluster], table.topic, answer.partition, answer.offset)
    since = others_since(table.metadata, table.state.head, receipt[0] if receipt else None)
    removed = [each for each in since if each.removed]
    skips: bool | None = bool(counts and counts.skipped)
    if skips and removed:
        skips = is_skipped(lake, contract, found.value)
    fate = without_row(found.seen, skips=skips)
    why = {
        "gone": "Kafka no longer has it",
        "unanswered": "Kafka does not answer",
        "hole": "Kafka shows no record here",
        "record": "" if skips is not None else UNDECIDED,
    }.get(found.seen, "")
    older = _expired(table, fate, found.timestamp, batch.max_timestamp if batch else None)
    facts = receipt_facts(receipt)
    if fate in {"deleted", "unknown"}:
        facts |= foreign_facts(removed)
    if found.seen in {"record", "tombstone"}:
        facts["record"] = {"timestamp": told(found.timestamp), "key": _text(found.key)}
    return replace(answer, fate=fate, why=_together(why, older), facts=facts, retained=not older)


def _expired(table: _Table, fate: Fate, at: int | None, newest: datetime | None) -> str:
    """Words for rows that `retention` has deleted on purpose, as far as the time of record (us) or batch tells."""
    cut = expired_before(table.state.properties)
    if cut is None or fate not in {"deleted", "unknown"}:
        return ""
    seconds = at / 1_000_000 if at is not None else newest.timestamp() if newest else None
    if seconds is not None and seconds >= cut.timestamp() and (at is not None or fate == "deleted"):
        return ""
    return f"retention has deleted the rows of records from before {cut.isoformat()}"


def _together(*reasons: str) -> str:
    return "; ".join(each for each in reasons if each)


def _text(value: bytes | None) -> str | None:
    """Bytes as text where they are text, else as hexadecimal."""
    if value is None:
        return None
    try:
        return value[:SHOWN].decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + value[:SHOWN].hex()
