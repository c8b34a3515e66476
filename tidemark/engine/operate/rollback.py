"""Taking a table back to an earlier snapshot, with offsets and quarantine: a new receipt on top of the old state.

Main never moves to an old snapshot: the receipt's parent is the target, so an attempt that is under way loses, and what
is read again is read once (docs/adr/0001).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark import __version__
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, Refused, TidemarkError
from tidemark.domain.ledger.backfill import CUTOVER
from tidemark.domain.ledger.guard import Topic, examine, expired_ranges, stopped_by
from tidemark.domain.ledger.ledger import (
    Entry,
    Ledger,
    batch_id,
    branch_name,
)
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import rewound
from tidemark.domain.ledger.settlement import Settlement, taken_back
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.access.conditions import rows_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, is_of_batch, read_again, receipts_of_halves
from tidemark.engine.access.outages import translated
from tidemark.engine.access.snapshots import is_compaction, is_receipt, ledger_of, made_at, planned_head
from tidemark.engine.access.table_state import PAUSED, RESUMED, TableState, load
from tidemark.engine.ingest.held import emptied
from tidemark.engine.ingest.quarantine_repair import settle_and_take_back
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.look.headroom import compacted
from tidemark.engine.maintain.expire_rows import cut_as_of
from tidemark.engine.operate.recount import first_lost, places_of, waiting_rows
from tidemark.engine.operate.rollback_upsert import check_upsert
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.branch import Attempt, dropped_on_failure, open_branch
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.publish import publish
from tidemark.engine.table.races import until_not_overtaken
from tidemark.engine.table.settle import now_us, settle_published
from tidemark.engine.table.unlogged import act_of, log_missing_acts, log_noted

_FOR_ROLLBACK = "for a rollback to"
"""How the reason of a pause begins that a rollback has set."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: a snapshot, or the newest one that was published before a moment."""

    snapshot_id: int | None = None
    before: datetime | None = None

    def require_one(self, table: str) -> None:
        """Raises Refused when it names nothing, or two things."""
        if (self.snapshot_id is None) == (self.before is None):
            raise Refused(
                "the target of a rollback is either a snapshot or a time",
                next_step=f"tidemark rollback {table} with --snapshot ID or --before TIME",
                table=table,
            )

    def __str__(self) -> str:
        if self.before is not None:
            return f"before {self.before.astimezone(UTC).isoformat(timespec='seconds')}"
        return f"snapshot {self.snapshot_id}"


@dataclass(frozen=True, slots=True)
class _Step:
    """From `head` with `ledger` back to `target` with `old`; `undone` are the ledgers in between, newest first.

    `cut`: the properties by which the table says what retention had deleted at `target`, where they say more.
    """

    head: int
    ledger: Ledger
    target: Snapshot
    old: Ledger
    undone: tuple[Ledger, ...]
    there: bool
    cut: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {
            "target_snapshot": self.target.snapshot_id,
            "target_time": made_at(self.target).isoformat(),
            "next": {str(p): o for p, o in sorted(self.old.next.items())},
            "was": {str(p): o for p, o in sorted(self.ledger.next.items())},
            "commits_undone": len(self.undone),
            "replays_undone": sum(each.kind == "replay" for each in self.undone),
        }


def rollback(
    lake: Lake, contract: Contract, target: Target, signature: Signature, *, downstream: Sequence[str] = ()
) -> Operation:
    """Table, offsets and quarantine as they were at `target`; the table is left paused. `downstream` is stale then.

    Raises:
        Refused: no target is named, or two; it is expired, is half of a commit, or Kafka no longer has what would
            have to be read again.
        Stopped, Outage: a service stands in the way.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        if not signature.dry_run:
            log_missing_acts(lake, contract.table)
        target.require_one(contract.table)
        before = _state_of_any_head(lake, contract).head
        try:
            step, after = until_not_overtaken(
                contract, lambda: _attempt(lake, contract, target, signature, downstream)
            )
        except Refused as refused:
            if isinstance(refused.__cause__, Overtaken) and _state_of_any_head(lake, contract).paused:
                again = f"repeat it once the maintenance of {contract.table} is over"
                refused.next_step = f"{again}, or tidemark resume {contract.table} --reason …"
            raise
        return log_operation(
            lake,
            signature,
            "rollback",
            contract.table,
            {
                **step.as_json(),
                "already_there": step.there,
                "stale": sorted(downstream),
            },
            before,
            before if after is None else after,
        )


def _attempt(
    lake: Lake, contract: Contract, target: Target, signature: Signature, downstream: Sequence[str]
) -> tuple[_Step, int | None]:
    state = _state_of_any_head(lake, contract)
    if state.ledger is None:
        raise unloaded(lake, contract.table)
    with _telling_of_the_pause(contract, state.properties.get(PAUSED, "")):
        if not signature.dry_run:
            settle_and_take_back(lake, contract, state, state.ledger)
        step = _step(lake, contract, state, target)
        topic = lake.topic(contract)
        _check_kafka(contract, step, topic)
        if {**state.properties, **step.cut}.get(EXPIRED_BEFORE):
            check_upsert(lake, contract, step.target.snapshot_id)
        _check_compaction(lake, contract, step, topic)
        if signature.dry_run:
            return step, None
        pause = _pause(state, signature, target)
        if pause != state.properties.get(PAUSED):
            log_noted(lake, state, RESUMED)  # it goes, for the table is paused again
            set_properties(lake, contract.table, {PAUSED: pause, RESUMED: None})
    if step.there:
        if left := {**_left_cutover(lake, contract, state), **emptied(state), **step.cut}:
            set_properties(lake, contract.table, left)
        return step, step.head
    told = {**step.as_json(), "already_there": False, "stale": sorted(downstream)}
    act = act_of(signature, "rollback", step.head, **told)
    with _telling_of_the_pause(contract, pause):
        properties = {**_without_cutover(state, step), **emptied(state), **step.cut, PAUSED: pause}
        return step, _publish(lake, contract, step, signature.run_id, act, properties)


@contextmanager
def _telling_of_the_pause(contract: Contract, pause: str) -> Iterator[None]:
    """What fails in here leaves the table paused; the next step says so where a rollback has set that `pause`."""
    try:
        with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
            yield
    except Overtaken:  # tried again
        raise
    except TidemarkError as error:
        if f'"{_FOR_ROLLBACK}' in pause:
            again = "" if isinstance(error, Refused) else "repeat it, or "
            paused = f"{contract.table} is paused for the rollback"
            error.next_step += f"; {paused}: {again}tidemark resume {contract.table} --reason …"
        raise


def _state_of_any_head(lake: Lake, contract: Contract) -> TableState:
    """The table as it is now, also when somebody took main back to half of a commit: this is the way out."""
    state = lake.state(contract.table, ledger=False)
    return state if state.ledger is not None else lake.state(contract.table)


def _step(lake: Lake, contract: Contract, state: TableState, target: Target) -> _Step:
    table = load(lake.catalog, contract.table)
    if table is None or state.head is None or state.ledger is None:
        raise unloaded(lake, contract.table)
    chain = list(ancestors(table.metadata, state.head))
    halves = _halves(contract, table.metadata, chain)
    found = _find(contract, table.metadata, chain, target, halves)
    if found.snapshot_id in halves:
        raise Refused(
            f"snapshot {found.snapshot_id} is half of a commit: it has rows whose offsets the next one records",
            next_step=f"name snapshot {_receipt_after(chain, found)}, or its parent",
            table=contract.table,
        )
    old = next((s for s in ancestors(table.metadata, found.snapshot_id) if is_receipt(s)), None)
    if old is None:
        raise Refused(
            f"no receipt lies at or before snapshot {found.snapshot_id}",
            next_step="name a newer snapshot, or a later time",
            table=contract.table,
        )
    between = chain[: chain.index(found)]
    undone = tuple(ledger_of(s, contract.table) for s in between if is_receipt(s))
    there = found.snapshot_id == state.head or (
        len(between) == 1 and undone[:1] and undone[0].kind == "rollback"
    )
    undone = () if there else undone
    past, cut = ledger_of(old, contract.table), cut_as_of(table.metadata, found.snapshot_id)
    return _Step(state.head, state.ledger, found, past, undone, there=bool(there), cut=cut)


def _find(
    contract: Contract,
    metadata: TableMetadata,
    chain: Sequence[Snapshot],
    target: Target,
    halves: frozenset[int],
) -> Snapshot:
    """The snapshot among main's ancestors (newest first) that is meant.

    Raises:
        Refused: it is none of them; names the oldest that is left.
    """
    if target.before is not None:
        limit = target.before.timestamp() * 1000
        older = (s for s in chain if s.timestamp_ms < limit)
        found = next((s for s in older if s.snapshot_id not in halves), None)
    else:
        found = next((s for s in chain if s.snapshot_id == target.snapshot_id), None)
    if found is not None:
        return found
    oldest = next((s for s in reversed(chain) if is_receipt(s)), chain[-1])
    following = ledger_of(oldest, contract.table).next if is_receipt(oldest) else {}
    raise Refused(
        f"{target} is not among the {len(chain)} snapshots on the way to main; the oldest that is left is "
        f"{oldest.snapshot_id} of {made_at(oldest).isoformat(timespec='seconds')}, with offsets {following}",
        next_step=read_again(metadata, target.snapshot_id, contract.table)
        or "replay the range where older states were expired; what a rollback undid is read again once resumed",
        table=contract.table,
        oldest=oldest.snapshot_id,
        next={str(p): o for p, o in following.items()},
    )


def _check_kafka(contract: Contract, step: _Step, topic: Topic) -> None:
    """Raises Refused when what it takes away could not be read again, Stopped when the topic is another one."""
    if step.old.epoch != step.ledger.epoch:
        raise Refused(
            f"the target lies in epoch {step.old.epoch} of the topic, the table is in epoch {step.ledger.epoch}: its "
            "offsets mean other records now",
            next_step=f"name a state of epoch {step.ledger.epoch}",
            table=contract.table,
        )
    finding = examine(step.old, topic)
    if finding is None:
        return
    if finding.state != "offsets_expired":
        raise stopped_by(contract, finding)
    raise Refused(
        f"Kafka no longer has what would have to be read again: {finding.detail}",
        next_step="name a newer state, whose offsets Kafka still has",
        table=contract.table,
        found=finding.state,
        ranges={str(p): list(r) for p, r in expired_ranges(step.old, topic).items()},
    )


def _check_compaction(lake: Lake, contract: Contract, step: _Step, topic: Topic) -> None:
    """Raises Refused, naming the first offsets, when Kafka has compacted away what would have to be read again."""
    if compacted(lake.platform.kafka[contract.cluster], contract.topic) is False:
        return
    following = {p: step.old.next.get(p, step.ledger.start.get(p, 0)) for p in step.ledger.next}
    again = {p: OffsetRange(a, topic.end[p]) for p, a in following.items() if a < topic.end[p]}
    if not again:
        return
    head = f"{lake.identifier(contract.table)} VERSION AS OF {step.head}"
    rows = places_of(lake, head, rows_within(step.ledger.epoch, again))
    waits = waiting_rows(lake, contract, step.ledger.epoch, again)
    there = rows if waits is None else rows.union(waits.select("partition", "offset"))
    kept = read_ranges(lake, contract, again).select("partition", "offset")
    if lost := first_lost(there, kept):
        listed = ", ".join(f"{r['partition']}:{r['offset']}" for r in lost)
        raise Refused(
            f"Kafka no longer has records that {contract.table} holds and would have to read again (the topic is "
            f"compacted): {listed} …",
            next_step="name a newer state, or replay ranges without them: "
            f"tidemark where {contract.topic} P:O tells of one",
            table=contract.table,
            offsets=[[r["partition"], r["offset"]] for r in lost],
        )


def _without_cutover(state: TableState, step: _Step) -> dict[str, str]:
    """The property of a backfill that is undone, emptied: it stays, for it says that there was one."""
    text = state.properties.get(CUTOVER)
    undone = {each.batch_id for each in step.undone}
    return {CUTOVER: ""} if text and json.loads(text)["batch_id"] in undone else {}


def _left_cutover(lake: Lake, contract: Contract, state: TableState) -> dict[str, str]:
    """The same of a rollback that died between its receipt and the property (two commits on format 3)."""
    table, text = load(lake.catalog, contract.table), state.properties.get(CUTOVER)
    if table is None or state.head is None or not text:
        return {}
    batch = json.loads(text)["batch_id"]
    on_main = {each.snapshot_id for each in ancestors(table.metadata, state.head)}
    receipts = (s for s in table.metadata.snapshots if is_receipt(s))
    where = {s.snapshot_id in on_main for s in receipts if ledger_of(s, contract.table).batch_id == batch}
    return {CUTOVER: ""} if where == {False} else {}


def _publish(
    lake: Lake, contract: Contract, step: _Step, run_id: str, act: str, properties: Mapping[str, str]
) -> int:
    attempt_id = uuid4().hex[:8]
    batch = batch_id(f"{contract.table}|rollback {attempt_id}", step.old.epoch, {})
    dropped, undone = taken_back(each.settlement for each in step.undone if each.settlement)
    settlement = Settlement(
        id=batch,
        epoch=step.old.epoch,
        run_id=run_id,
        at=now_us(),
        dropped=dropped,
        undone=undone,
        rewound=dict(step.old.next),
    )
    entry = Entry(batch, attempt_id, run_id, contract.digest, __version__)
    ledger = rewound(step.old, step.ledger, settlement, entry)
    attempt = Attempt(contract.table, branch_name(batch, attempt_id), step.head, step.target.snapshot_id)
    with dropped_on_failure(lake, attempt):
        open_branch(lake, attempt)
        receipt = publish(
            lake,
            attempt,
            frozenset(),
            ledger,
            lambda: _check_kafka(contract, step, lake.topic(contract)),
            act=act,
            properties=properties,
        )
    settle_published(lake, contract, ledger)
    return receipt


def _pause(state: TableState, signature: Signature, target: Target) -> str:
    """What the table is to say of its pause: that of a person stays as it is, of rollbacks the last one says why."""
    said, now = state.properties.get(PAUSED, ""), _says(signature, target)
    by_person = said and f'"{_FOR_ROLLBACK}' not in said
    again = said.partition(', "at": ')[0] == now.partition(', "at": ')[0]
    return said if by_person or again else now


def _says(signature: Signature, target: Target) -> str:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps(
        {"by": signature.by, "reason": f"{_FOR_ROLLBACK} {target}: {signature.reason}", "at": at}
    )


def _halves(contract: Contract, metadata: TableMetadata, chain: Sequence[Snapshot]) -> frozenset[int]:
    """Rows of a batch whose receipt is a later snapshot, or the removal with which the replay of a range begins."""
    found, newer = set(receipts_of_halves(metadata)), None
    for each in chain:
        if is_receipt(each):
            newer = each
        elif is_of_batch(metadata, each) or _may_be_removal(contract, newer, each):
            found.add(each.snapshot_id)
    return frozenset(found)


def _may_be_removal(contract: Contract, newer: Snapshot | None, found: Snapshot) -> bool:
    """A receipt of an earlier Tidemark does not say at which head the replay was planned."""
    if newer is None or planned_head(newer) or ledger_of(newer, contract.table).kind != "replay":
        return False
    return not is_compaction(found)


def _receipt_after(chain: Sequence[Snapshot], half: Snapshot) -> int:
    newer = chain[: chain.index(half)]
    return next((s.snapshot_id for s in reversed(newer) if is_receipt(s)), half.snapshot_id)
