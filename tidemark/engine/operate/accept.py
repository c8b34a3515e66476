"""Resolving a stop state explicitly: each acceptance is one empty receipt, or a note on the table, and one log line.

Every function returns the operation as it was logged; with `dry_run` nothing is written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.guard import Topic, examine, expired_ranges
from tidemark.domain.ledger.ledger import Counts, Gap, Ledger, batch_id
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import runs_without
from tidemark.domain.ledger.settlement import Settlement
from tidemark.domain.states import Acceptance, State
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import ACCEPTED, ACCEPTED_BATCH, TableState, load_written
from tidemark.engine.ingest.held import held_batch, spelled
from tidemark.engine.ingest.quarantine import inside, keep
from tidemark.engine.ingest.quarantine_repair import settle_and_take_back
from tidemark.engine.merge.missing_rows import unmade
from tidemark.engine.operate.cut_off import unread_from
from tidemark.engine.schema.evolve import SETTLED_IDS, settled_ids
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.first_load import check_fit, first_epoch, first_ledger, make_or_adopt, not_append
from tidemark.engine.table.folder import folder_fault
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import publish_receipt
from tidemark.engine.table.settle import now_us, settle_published
from tidemark.engine.table.starting_offsets import starting_offsets
from tidemark.engine.table.unlogged import act_of, log_missing_acceptance, log_missing_acts, log_noted

_NEW_EPOCH: frozenset[State] = frozenset(
    {"topic_recreated", "cluster_changed", "partitions_shrunk", "offsets_regressed"}
)


def accept(lake: Lake, contract: Contract, what: Acceptance, signature: Signature) -> Operation:
    """Resolve the stop state that `what` stands for.

    Raises:
        Refused: the table is not in that state; nothing was changed.
        Overtaken: a run published in the same moment; ask again.
    """
    try:
        operation = _ACCEPTANCES[what](lake, contract, signature)
    except Refused:
        late = None if signature.dry_run else _logged_late(lake, contract, what)
        if late is None:
            raise
        operation = late
    if not signature.dry_run:
        log_missing_acts(lake, contract.table)
    return operation


def _first_load(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    state, topic = _unledgered(lake, contract), lake.topic(contract)
    if state.ledger is not None:
        raise _nothing(contract, "the ledger is there", "first-load")
    if merged := not_append(contract, state):
        raise merged
    if not state.exists and (fault := folder_fault(lake, contract.table)):
        raise fault
    schemas = read_schemas(lake, contract, state)
    wanted = schemas.wanted()
    if wanted is None:
        raise Refused(
            schemas.undecided or f"topic {contract.topic} has no schema yet",
            next_step="accept again then"
            if schemas.undecided
            else "register one for its values, then accept again",
            table=contract.table,
        )
    if not state.exists:

        def make(act: str) -> None:
            make_or_adopt(lake, contract, topic, wanted, signature.run_id, says=schemas.properties(), act=act)

        return _done(lake, contract, state, signature, "first-load", {}, make)
    if not state.owned:
        check_fit(state, contract, wanted)
    start = starting_offsets(lake.kafka(contract.cluster), contract, topic)
    epoch = first_epoch(lake, contract, start, _unused_epoch(lake, contract, state))
    ledger = first_ledger(contract, topic, start, signature.run_id, epoch=epoch)
    beside = {"rows_beside": state.live_rows, "start": start, "epoch": epoch}

    def begin(act: str) -> None:
        publish_receipt(lake, state, ledger, act=act)

    return _done(lake, contract, state, signature, "first-load", beside, begin)


def _new_epoch(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    state, ledger = _settled(lake, contract, signature)
    topic = lake.topic(contract)
    finding = examine(ledger, topic)
    if finding is None or finding.state not in _NEW_EPOCH:
        raise _nothing(contract, "the topic is the one that was read", "new-epoch")
    start = dict(topic.log_start)
    if finding.state == "offsets_regressed" and ledger.topic_id and ledger.topic_id == topic.topic_id:
        start = unread_from(lake, contract, state, ledger, topic)
    following = first_ledger(
        contract, topic, start, signature.run_id, epoch=ledger.epoch + 1, kind="epoch"
    ).model_copy(
        update={
            "revision": ledger.revision,
            "gaps": ledger.gaps,
            "max_timestamp": ledger.max_timestamp,
            "watermark": ledger.watermark,
            "event_time": ledger.event_time,
            "unmade": unmade(contract, ledger),
            "contract": ledger.contract,  # edits since are applied by the next run
        }
    )
    following = following.model_copy(update={"settlement": _unpublished(lake, contract, ledger, following)})
    settled = sorted(settled_ids(state))
    found = {"state": finding.state, "epoch": following.epoch, "start": start, **finding.fields}
    if settled:
        found["forgotten_schema_ids"] = settled

    def begin(act: str) -> None:
        # ids are those of a registry, and the new topic may have another
        forgotten = {SETTLED_IDS: "[]"} if settled else {}
        publish_receipt(lake, state, following, act=act, properties=forgotten)
        settle_published(lake, contract, following)

    return _done(lake, contract, state, signature, "new-epoch", found, begin)


def _unpublished(lake: Lake, contract: Contract, ledger: Ledger, following: Ledger) -> Settlement | None:
    """Takes away what attempts of the epoch that ends have left in the quarantine: all of an earlier epoch counts.

    Asked for by the receipt, for before it stands such an attempt may still publish its batch.
    """
    if load_written(lake.catalog, contract.quarantine_table) is None:
        return None
    return Settlement(
        id=batch_id(f"{contract.table}|epoch {following.attempt}", following.epoch, {}),
        epoch=ledger.epoch,
        run_id=following.run_id,
        at=now_us(),
        rewound=dict(ledger.next),
    )


def _record_gap(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    state, ledger = _settled(lake, contract, signature)
    topic = lake.topic(contract)
    finding = examine(ledger, topic)
    if finding is None or finding.state != "offsets_expired":
        raise _nothing(contract, "Kafka still holds every offset that was not read", "record-gap")
    lost = expired_ranges(ledger, topic)
    kept = _kept(lake, contract, ledger, lost, dry_run=signature.dry_run)
    following = _beyond(ledger, topic, lost, kept, signature)
    found = {
        "ranges": {str(p): [a, b] for p, (a, b) in lost.items()},
        "kept_in_quarantine": {str(p): len(offsets) for p, offsets in kept.items()},
    }
    return _done(
        lake,
        contract,
        state,
        signature,
        "record-gap",
        found,
        lambda act: publish_receipt(lake, state, following, act=act),
    )


def _quarantine_batch(lake: Lake, contract: Contract, signature: Signature) -> Operation:
    state, ledger = _settled(lake, contract, signature)
    held = held_batch(state)
    if held is None:
        raise _nothing(contract, "the last run held no batch back", "quarantine-batch")
    batch = spelled(held, ledger.epoch)
    found = {"ranges": {str(p): [each.start, each.end] for p, each in held.items()}}
    if not signature.dry_run:
        log_noted(lake, state, ACCEPTED)
    return _done(
        lake,
        contract,
        state,
        signature,
        "quarantine-batch",
        found,
        lambda _act: set_properties(
            lake, contract.table, {ACCEPTED_BATCH: batch, ACCEPTED: signature.as_note(told=found)}
        ),
    )


_ACCEPTANCES: dict[Acceptance, Callable[[Lake, Contract, Signature], Operation]] = {
    "first-load": _first_load,
    "new-epoch": _new_epoch,
    "record-gap": _record_gap,
    "quarantine-batch": _quarantine_batch,
}


def _logged_late(lake: Lake, contract: Contract, what: Acceptance) -> Operation | None:
    """The same acceptance of a run that died before it was logged: receipt or table tells of it; it is logged now."""
    if what != "quarantine-batch":
        return log_missing_acceptance(lake, contract.table, what)
    return log_noted(lake, _unledgered(lake, contract), ACCEPTED)


def _kept(
    lake: Lake,
    contract: Contract,
    ledger: Ledger,
    lost: Mapping[int, tuple[int, int]],
    *,
    dry_run: bool,
) -> dict[int, list[int]]:
    """Offsets among `lost` whose records wait in the quarantine: of a batch that died, or was taken back by hand.

    Or of one at work, which takes them back when the acceptance overtakes it: hence `keep`.
    """
    table = load_written(lake.catalog, contract.quarantine_table)
    if table is None:
        return {}
    at = None if dry_run else keep(lake, contract.quarantine_table)
    where = inside(ledger.epoch, {p: OffsetRange(a, b) for p, (a, b) in lost.items()})
    fields = ("partition", "offset", "resolved_by")
    rows = table.refresh().scan(row_filter=where, selected_fields=fields, snapshot_id=at).to_arrow()
    kept: dict[int, set[int]] = {}
    for row in rows.to_pylist():
        if row["resolved_by"] is None:
            kept.setdefault(row["partition"], set()).add(row["offset"])
    return {p: sorted(offsets) for p, offsets in sorted(kept.items())}


def _beyond(
    ledger: Ledger,
    topic: Topic,
    lost: Mapping[int, tuple[int, int]],
    kept: Mapping[int, Sequence[int]],
    signature: Signature,
) -> Ledger:
    """The ledger after `lost`: what is `kept` in the quarantine is counted there, the rest are gaps."""
    counts = {p: Counts(read=len(offsets), quarantined=len(offsets)) for p, offsets in kept.items()}
    gaps = [
        Gap(partition=p, start=a, end=b, epoch=ledger.epoch)
        for p, whole in lost.items()
        for a, b in runs_without(whole, kept.get(p, ()))
    ]
    following = {**ledger.next, **{p: b for p, (_, b) in lost.items()}}
    return ledger.model_copy(
        update={
            "kind": "gap",
            "topic_id": ledger.topic_id or topic.topic_id,
            "start": {**ledger.start, **{p: a for p, (a, _) in lost.items() if p not in ledger.start}},
            "from_": dict(ledger.next),
            "next": following,
            "counts": counts,
            "totals": {
                **ledger.totals,
                **{p: ledger.totals.get(p, Counts()).plus(each) for p, each in counts.items()},
            },
            "gaps": [*ledger.gaps, *gaps],
            "settlement": None,
            "run_id": signature.run_id,
            "attempt": uuid4().hex[:8],
        }
    )


def _done(
    lake: Lake,
    contract: Contract,
    state: TableState,
    signature: Signature,
    what: Acceptance,
    found: Mapping[str, Any],
    change: Callable[[str], object],
) -> Operation:
    if not signature.dry_run:
        change(act_of(signature, "accept", state.head, what=what, **found))
    return log_operation(
        lake,
        signature,
        "accept",
        contract.table,
        {"what": what, **found},
        state.head,
        state.head if signature.dry_run else lake.state(contract.table).head,
    )


def _unledgered(lake: Lake, contract: Contract) -> TableState:
    try:
        return lake.state(contract.table)
    except Stopped as stopped:
        state = lake.state(contract.table, ledger=False)
        if stopped.state != "ledger_missing" or state.ledger is not None:  # main is at half of a commit
            raise
        return state


def _unused_epoch(lake: Lake, contract: Contract, state: TableState) -> int:
    """An epoch of its own for rows that are loaded beside rows whose ledger is gone."""
    if not state.rows:
        return 0
    newest = lake.spark().table(lake.identifier(contract.table)).agg(F.max("_kafka.epoch")).collect()[0][0]
    return 0 if newest is None else max(0, int(newest) + 1)  # rows of a backfill from elsewhere are below


def _settled(lake: Lake, contract: Contract, signature: Signature) -> tuple[TableState, Ledger]:
    """The table that the acceptance is published on, once its quarantine says what its ledger says."""
    state = lake.state(contract.table)
    if state.ledger is None:
        raise unloaded(lake, contract.table)
    if not signature.dry_run:
        settle_and_take_back(lake, contract, state, state.ledger)
    return state, state.ledger


def _nothing(contract: Contract, why: str, what: Acceptance) -> Refused:
    return Refused(
        f"{contract.table}: nothing to accept with --{what}: {why}",
        next_step=f"tidemark status {contract.table}",
        table=contract.table,
    )
