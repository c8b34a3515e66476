"""Where a record is: its fate and, for a row, where it comes from. Spark only if PyIceberg cannot.

Rows are found by PyIceberg, which skips files by their statistics on `_kafka.partition` and `_kafka.offset`; what the
offsets, the receipts and the quarantine do not say, Kafka is asked for.
"""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count
from typing import Any

from pyiceberg.expressions import BooleanExpression, EqualTo

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.fate import by_offset, of_another
from tidemark.domain.ledger.guard import another
from tidemark.domain.states import remedy
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.outages import asked, translated
from tidemark.engine.access.snapshots import is_receipt, ledger_of, made_at
from tidemark.engine.access.table_state import load, load_written
from tidemark.engine.table.absent import seen_table
from tidemark.engine.table.counted_quarantine import NEEDED, OPEN, as_settled, require_columns
from tidemark.engine.table.settle import pending
from tidemark.engine.verify.fates import Answer, TableAndTopic, published, quarantined, silent
from tidemark.engine.verify.kafka_rows import kafka_rows, listed

MOST = 50
"""Records of one key that are told, newest first."""
_KAFKA = ("topic", "partition", "offset", "epoch", "timestamp", "key", "schema_id", "tombstone")
_KEPT = ("topic", "timestamp", "key", "value", "schema_id")
_QUARANTINED = (*NEEDED, *_KEPT, "cause", "detail", "run_id", "quarantined_at")


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
        clusters = {each.cluster for each in lake.configuration.contracts if each.topic == contract.topic}
        named = f"topic {contract.topic}" + (f" of cluster {contract.cluster}" if len(clusters) > 1 else "")
        raise Refused(
            f"{named} has partitions {sorted(table.topic.end)}, not {partition}",
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
    table: TableAndTopic,
    answer: Answer,
    rows: list[dict[str, Any]],
    held: list[dict[str, Any]],
    epoch: int,
) -> Answer | None:
    """None for an epoch of another topic of which nothing is left but resolved quarantine rows."""
    rows = [r for r in rows if r["epoch"] == epoch]
    held = [r for r in held if r["epoch"] == epoch]
    if rows:
        return published(lake, table, answer, rows, held)
    waits = [r for r in held if r[OPEN]]
    if waits:
        return quarantined(lake, table, answer, waits[0])
    if table.another or (table.ledger is not None and epoch != table.ledger.epoch):
        return None
    decided = by_offset(table.ledger, table.topic, answer.partition, answer.offset)
    if decided is not None:
        fate, why = decided
        return replace(answer, fate=fate, why=why)
    return silent(lake, table, answer, held, epoch)


def where_key(lake: Lake, contract: Contract, key: bytes) -> tuple[list[Answer], int]:
    """Rows and quarantined records of a Kafka key among the records that were read: the newest `MOST`, and how many."""
    table = _look(lake, contract)
    held = EqualTo(term="key", value=key)
    waits = (row for row in _quarantined(lake, table, held) if row[OPEN])
    number, rows = count(), _rows(lake, table, EqualTo(term="_kafka.key", value=key))
    found = heapq.nlargest(
        MOST,
        (row for row, _ in zip(chain(rows, waits), number, strict=False)),
        key=lambda row: (row["timestamp"], row["partition"], row["offset"]),
    )
    records = next(number)
    places = {_place(row) for row in found if OPEN not in row}
    marks = [r for r in _quarantined(lake, table, held) if _place(r) in places] if places else []
    answers = []
    for row in found:
        place = Answer(contract.table, contract.topic, row["partition"], row["offset"], "unknown")
        if OPEN in row:
            answers.append(quarantined(lake, table, place, row))
        else:
            mine = [r for r in marks if _place(r) == _place(row)]
            answers.append(published(lake, table, place, [row], mine))
    return answers, records


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["epoch"], row["partition"], row["offset"]


def _look(lake: Lake, contract: Contract) -> TableAndTopic:
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        state = seen_table(lake, contract)
        loaded = load(lake.catalog, contract.table)
        older = filter(is_receipt, ancestors(loaded.metadata, state.head) if loaded else ())
        receipts = [(s.snapshot_id, made_at(s), ledger_of(s, contract.table)) for s in older]
        topic, _ = asked(lambda: lake.topic(contract, one_of_many=True))
        return TableAndTopic(contract, state, topic, receipts, another(state.ledger, topic), loaded)


def _rows(lake: Lake, table: TableAndTopic, where: str | BooleanExpression) -> Iterator[dict[str, Any]]:
    with translated(table.contract.table):
        if table.loaded is None or table.state.head is None:
            return
        for kafka in kafka_rows(lake, table.contract.table, table.loaded, where, _KAFKA, table.state.head):
            yield from listed(kafka)


def _quarantined(
    lake: Lake, table: TableAndTopic, where: str | BooleanExpression
) -> Iterator[dict[str, Any]]:
    name = table.contract.quarantine_table
    with translated(name):
        loaded = load_written(lake.catalog, name)
        if loaded is None or table.ledger is None:
            return
        require_columns(loaded, name, _QUARANTINED)
        scan = loaded.scan(row_filter=where, selected_fields=_QUARANTINED)
        asked = pending(table.ledger, loaded)
        for batch in scan.to_arrow_batch_reader():
            yield from listed(as_settled(batch, table.ledger, asked))
