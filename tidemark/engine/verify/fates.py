"""The fate of a record as its table, the quarantine and Kafka tell it, with the facts that belong to it."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.columns.far_times import far_time_text
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.fate import MEANINGS, Fate, reader_of, without_row
from tidemark.domain.ledger.guard import Finding, Topic
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.maintenance.retention import expired_before
from tidemark.domain.times import iso
from tidemark.engine.access.foreign_commits import (
    by_retention,
    foreign_facts,
    others_since,
    rewritten_since,
)
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.table.counted_quarantine import OPEN
from tidemark.engine.verify.glimpse import glimpse, is_skipped
from tidemark.engine.verify.peek import peek
from tidemark.engine.verify.provenance import approvals, receipt_facts, schema_facts

SHOWN = 2_000
"""Bytes of a value that are shown."""
_UTF8 = getincrementaldecoder("utf-8")
UNDECIDED = "its batch counted {}, and rows have been deleted since: it is one or the other"


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
class TableAndTopic:
    """A contract's table and topic at one moment; either may be unknown."""

    contract: Contract
    state: TableState
    topic: Topic | None
    receipts: Sequence[tuple[int, datetime, Ledger]]
    another: Finding | None
    """Why the topic is not the one of the ledger's epoch."""
    loaded: Table | None
    schemas: dict[int | None, dict[str, Any] | None] = field(default_factory=dict)
    """What the registry has said of a schema id, asked once."""
    approved: dict[int | None, list[dict[str, Any]]] = field(default_factory=dict)
    """And which changes of the table it has to do with."""

    @property
    def ledger(self) -> Ledger | None:
        """The table's, before its first load None."""
        return self.state.ledger

    @property
    def metadata(self) -> TableMetadata | None:
        """The table's, None when it does not exist."""
        return self.loaded.metadata if self.loaded else None


def published(
    lake: Lake, table: TableAndTopic, answer: Answer, rows: list[dict[str, Any]], held: list[dict[str, Any]]
) -> Answer:
    """A row of the table, `rows`; `held` is what the quarantine had of it."""
    row = rows[0]
    own = row["epoch"] >= 0
    twice = f"{len(rows)} times: tidemark reconcile {answer.table}" if len(rows) > 1 and own else ""
    receipt = _publisher(table, answer, held, row["epoch"])
    since = rewritten_since(table.metadata, table.state.head, receipt[0] if receipt else None)
    schema = row["schema_id"]
    if schema not in table.schemas:
        table.schemas[schema] = schema_facts(lake, table.contract, schema)
        table.approved[schema] = approvals(lake, table.contract, table.state, schema)
    changed = "others have written rows of the table since (foreign_commits): its values may be theirs"
    facts = {
        **receipt_facts(receipt),
        **foreign_facts(since),
        "record": {**_record(row), "tombstone": row["tombstone"]},
        "schema": table.schemas[schema],
        "approvals": table.approved[schema],
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
        topic=row["topic"],
        why=_together(twice or _of_another(table, row), changed if since else ""),
        facts=facts,
    )


def _record(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "epoch": row["epoch"],
        "timestamp": far_time_text(row["timestamp"]),
        "key": _text(row["key"]),
        "key_hex": None if row["key"] is None else row["key"].hex(),
    }


def _of_another(table: TableAndTopic, row: dict[str, Any]) -> str:
    """Words for a record that is not of the topic as it is now."""
    if row["epoch"] < 0:
        return f"loaded by a backfill from {row['topic']}"
    if table.ledger is not None and row["epoch"] != table.ledger.epoch:
        told = f"of epoch {row['epoch']}, now is epoch {table.ledger.epoch}"
        receipts = {ledger.epoch: ledger for _, _, ledger in table.receipts}
        # an epoch may also begin because the receipts of the last one are gone
        then, now = (
            each and (each.cluster_id, each.topic_id, each.topic)
            for each in (receipts.get(row["epoch"]), table.ledger)
        )
        return told if then in {None, now} else f"{told}: the topic was another one then"
    if table.another:
        return f"of epoch {row['epoch']}, topic {row['topic']}: the topic is another one now"
    return ""


def _publisher(
    table: TableAndTopic, answer: Answer, held: list[dict[str, Any]], epoch: int
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


def quarantined(lake: Lake, table: TableAndTopic, answer: Answer, row: dict[str, Any]) -> Answer:
    """A record that waits in the quarantine."""
    value = row["value"]
    facts = {
        "cause": row["cause"],
        "detail": row["detail"],
        "run_id": row["run_id"],
        "batch_id": row["batch_id"],
        "quarantined_at": iso(row["quarantined_at"]),
        "record": {
            **_record(row),
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


def _remedy(lake: Lake, table: TableAndTopic, row: dict[str, Any]) -> str:
    """What to do about a quarantined record: a replay takes only those of the present epoch."""
    name = table.contract.quarantine_table
    if table.ledger is not None and row["epoch"] == table.ledger.epoch:
        return f"tidemark replay {table.contract.table} --quarantine --cause {row['cause']} --reason …"
    if row["epoch"] < 0:
        return (
            f"no replay takes it, for it is no record of the table's own topic: the backfill from {row['topic']} anew, "
            "without --cutover and then with it, brings it in as soon as it fits"
        )
    return (
        "no replay takes it, for its epoch is over: send it again if it is wanted, then "
        f"UPDATE {lake.identifier(name)} SET resolved_by = '…', resolved_at = current_timestamp() WHERE epoch = "
        f"{row['epoch']} AND partition = {row['partition']} AND offset = {row['offset']} AND resolved_at IS NULL"
    )


def silent(
    lake: Lake, table: TableAndTopic, answer: Answer, held: list[dict[str, Any]], epoch: int
) -> Answer:
    """Neither row nor waiting in quarantine: what Kafka shows decides."""
    contract = table.contract
    receipt = _publisher(table, answer, held, epoch)
    batch = receipt[2] if receipt else table.ledger
    counts = (batch.counts if receipt else batch.totals).get(answer.partition) if batch else None
    found = peek(lake.platform.kafka[contract.cluster], table.topic, answer.partition, answer.offset)
    since = others_since(table.metadata, table.state.head, receipt[0] if receipt else None)
    ours, young = by_retention(table.metadata), _too_young(table, found.timestamp)
    removed = [each for each in since if each.removed and not (young and each.snapshot_id in ours)]
    tombstone = found.seen == "tombstone"
    counted: bool | None = bool(counts and (counts.tombstones if tombstone else counts.skipped))
    if counted and removed and not (tombstone and receipt and _all_counted(contract, receipt[2])):
        counted = is_skipped(lake, contract, found.value)
    fate = without_row(found.seen, counted=counted)
    undecided = UNDECIDED.format("tombstones" if tombstone else "skipped records") if counted is None else ""
    why = {
        "gone": "Kafka no longer has it",
        "unanswered": "Kafka does not answer",
        "hole": "Kafka shows no record here",
        "record": undecided,
        "tombstone": undecided,
    }.get(found.seen, "")
    older = _expired(table, fate, found.timestamp, batch.max_timestamp if batch else None)
    facts = receipt_facts(receipt)
    if fate in {"deleted", "unknown"}:
        facts |= foreign_facts([each for each in removed if each.snapshot_id not in ours])
    if found.seen in {"record", "tombstone"}:
        facts["record"] = {"timestamp": far_time_text(found.timestamp), "key": _text(found.key)}
    return replace(answer, fate=fate, why=_together(why, older), facts=facts, retained=not older)


def _all_counted(contract: Contract, batch: Ledger) -> bool:
    """Whether all tombstones of a batch that has counted some were counted, and none a row."""
    return batch.kind == "append" and contract.value.envelope != "debezium"


def _too_young(table: TableAndTopic, at: int | None) -> bool:
    """Whether `retention` cannot have deleted the row of a record of that time (us)."""
    cut = expired_before(table.state.properties)
    return cut is not None and at is not None and at / 1_000_000 >= cut.timestamp()


def _expired(table: TableAndTopic, fate: Fate, at: int | None, newest: datetime | None) -> str:
    """Words for rows that `retention` has deleted on purpose, as far as the time of record (us) or batch tells."""
    cut = expired_before(table.state.properties)
    if cut is None or fate not in {"deleted", "unknown"}:
        return ""
    if _too_young(table, at) or (at is None and fate == "deleted" and newest is not None and newest >= cut):
        return ""
    return f"retention has deleted the rows of records from before {cut.isoformat()}"


def _together(*reasons: str) -> str:
    return "; ".join(each for each in reasons if each)


def _text(value: bytes | None) -> str | None:
    """Bytes as text where they are text, else as hexadecimal."""
    if value is None:
        return None
    try:
        return _UTF8().decode(value[:SHOWN], final=len(value) <= SHOWN)  # a letter may straddle the cut
    except UnicodeDecodeError:
        return "0x" + value[:SHOWN].hex()
