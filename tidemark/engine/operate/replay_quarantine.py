"""Decoding quarantined records again, from the bytes that the quarantine kept: Kafka need not answer.

Records that fit now enter the table in one commit; the others stay, with the cause that they have today.
"""

import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused, Stopped, TidemarkError
from tidemark.domain.formats.explanation import CAUSES
from tidemark.domain.ledger.ledger import Ledger, add_up
from tidemark.domain.ledger.offsets import OffsetRange, as_runs
from tidemark.domain.ledger.replay import Recount, Runs
from tidemark.domain.ledger.settlement import Settlement
from tidemark.domain.maintenance.retention import expired_before
from tidemark.domain.suggest import nearest
from tidemark.engine.access.conditions import within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import load_written
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.stage import stage
from tidemark.engine.look.quarantined import causes
from tidemark.engine.operate.quarantine_causes import OLD_CAUSE
from tidemark.engine.operate.quarantine_fates import Fates, decode_waiting
from tidemark.engine.operate.replay_plan import (
    ReplayBase,
    check_each_once,
    check_staged,
    judge_replay,
    publish_and_settle,
    replay_base,
    require_offsets,
    require_partition,
)
from tidemark.engine.table.branch import dropped_on_failure, open_branch
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.races import until_not_overtaken
from tidemark.engine.table.settle import now_us
from tidemark.engine.table.unlogged import act_of, log_missing_acts

MOST_RUNS = 5_000
"""Runs of offsets that one receipt names; a replay that needs more is made in several commits."""
_RAW = "key, value, topic, partition, offset, timestamp, timestamp_type AS timestampType, headers, cause AS {old}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records: of one cause, of one partition and offsets [first, upto); all that wait when nothing is said."""

    cause: str | None = None
    partition: int | None = None
    first: int | None = None
    upto: int | None = None

    def condition(self) -> Column:
        """True for a record that is selected."""
        found = F.lit(True)
        if self.cause is not None:
            found &= F.col(OLD_CAUSE) == self.cause
        if self.partition is not None:
            found &= F.col("partition") == self.partition
        if self.first is not None:
            found &= F.col("offset") >= self.first
        if self.upto is not None:
            found &= F.col("offset") < self.upto
        return found

    def as_json(self) -> dict[str, Any]:
        """What was asked for."""
        named_ = {"cause": self.cause, "partition": self.partition, "from": self.first, "to": self.upto}
        return {key: value for key, value in named_.items() if value is not None}


@dataclass(slots=True)
class _Tally:
    """What became of the selected records; `stays` by today's cause.

    `aged`: of the moved ones those that retention deletes next; None where it has deleted nothing yet.
    `elsewhere`: waiting records of other epochs, which no replay takes.
    """

    moved: int = 0
    aged: int | None = None
    elsewhere: int = 0
    skipped: int = 0
    stays: dict[str, int] = field(default_factory=dict)
    causes_changed: int = 0
    snapshots: list[int] = field(default_factory=list)

    def add(self, fates: Fates, leaving: Runs) -> None:
        """These left the quarantine."""
        whole = add_up(fates.counts(leaving).values())
        if self.aged is not None:
            self.aged += fates.aged(leaving)
        self.moved += whole.written
        self.skipped += whole.skipped + whole.tombstones

    def as_json(self) -> dict[str, Any]:
        return {
            "moved": self.moved,
            "skipped": self.skipped,
            "stays": dict(sorted(self.stays.items())),
            "causes_changed": self.causes_changed,
            "commits": len(self.snapshots),
            **({} if self.aged is None else {"beyond_retention": self.aged}),
            **({"of_other_epochs": self.elsewhere} if self.elsewhere else {}),
        }


def replay_quarantine(
    lake: Lake, contract: Contract, selection: Selection, signature: Signature
) -> Operation:
    """Move quarantined records that fit today into the table, exactly once.

    Raises:
        Refused: the table was never loaded, or no record can be what was selected.
        Stopped, Outage: the table, the registry or a service stands in the way; nothing was changed.
        Stopped: `failed`: it ended between two commits; it says what was moved, and so does the operations log.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        if not signature.dry_run:
            log_missing_acts(lake, contract.table)
        state = lake.state(contract.table)
        if state.ledger is not None:
            _check_selection(lake, contract, selection, state.ledger)
        before = state.head
        total = _Tally(aged=0 if expired_before(state.properties) else None)

        def log_it() -> Operation:
            says = {"what": "quarantine", **selection.as_json(), **total.as_json()}
            after = total.snapshots[-1] if total.snapshots else before
            return log_operation(lake, signature, "replay", contract.table, says, before, after)

        try:
            while until_not_overtaken(
                contract, lambda: _attempt(lake, contract, selection, signature, total)
            ):
                pass
        except TidemarkError as error:
            if not total.snapshots:
                raise
            with suppress(Exception):  # else its receipts tell whoever changes the table next
                log_it()
            raise _ended_between(contract, total, error) from error
        return log_it()


def _ended_between(contract: Contract, total: _Tally, error: TidemarkError) -> Stopped:
    again = "repeat the command, which goes on with what is left"
    return Stopped(
        "failed",
        contract.table,
        f"at least {total.moved} records were moved by {len(total.snapshots)} commits and are rows now, what is left "
        f"waits as it did: {error.message}",
        topic=contract.topic,
        cluster=contract.cluster,
        next_step=f"{error.next_step}; {again}" if error.next_step else again,
        **total.as_json(),
    )


def _check_selection(lake: Lake, contract: Contract, selection: Selection, ledger: Ledger) -> None:
    """Raises Refused for what selects nothing whatever lies in the quarantine: a slip, which would pass as success."""
    table, cause = contract.table, selection.cause
    if selection.partition is not None:
        require_partition(table, ledger, selection.partition)
    require_offsets(table, selection.first or 0, selection.upto)
    known = CAUSES | {rule.cause for rule in contract.quality}
    if cause is None or cause in known:
        return
    there = {each.cause for each in causes(lake, table, contract.quarantine_table, ledger)}
    if cause not in there:
        near = nearest(cause, known | there)
        raise Refused(
            f"no record of {table} is in quarantine as {cause}" + (f"; did you mean {near}?" if near else ""),
            next_step=f"tidemark status {table} --quarantine lists the causes",
            table=table,
        )


def _attempt(
    lake: Lake, contract: Contract, selection: Selection, signature: Signature, total: _Tally
) -> bool:
    """One commit; true when more of it waits."""
    on = replay_base(lake, contract, signature.run_id, dry_run=signature.dry_run)
    waiting = _waiting(lake, on)
    if waiting is None:
        return False
    total.elsewhere = _elsewhere(lake, on)
    fates = decode_waiting(on, waiting, selection.condition())
    leaving, more = fates.leaving(sys.maxsize if signature.dry_run else MOST_RUNS)
    if not more:
        total.stays = fates.stays(lake)
    if signature.dry_run:
        total.add(fates, leaving)
        return False
    if not more:
        total.causes_changed = fates.note_causes(lake)
    if leaving:
        total.snapshots.append(_publish(lake, on, fates, leaving, selection, signature))
        total.add(fates, leaving)
    return more


def _waiting(lake: Lake, on: ReplayBase) -> DataFrame | None:
    """The unresolved records of this epoch below `next`, at one snapshot; None when there are none."""
    quarantine = load_written(lake.catalog, on.contract.quarantine_table)
    if quarantine is None or not on.ledger.next:
        return None
    below = " OR ".join(f"(partition = {p} AND offset < {o})" for p, o in sorted(on.ledger.next.items()))
    return lake.spark().sql(
        f"SELECT {_RAW.format(old=OLD_CAUSE)} FROM {lake.identifier(on.contract.quarantine_table)} "
        f"VERSION AS OF {quarantine.metadata.current_snapshot_id} "
        f"WHERE epoch = {on.ledger.epoch} AND resolved_at IS NULL AND ({below})"
    )


def _elsewhere(lake: Lake, on: ReplayBase) -> int:
    """How many records of other epochs wait, those of a backfill from elsewhere among them."""
    waiting = f"epoch <> {on.ledger.epoch} AND resolved_at IS NULL"
    return lake.spark().table(lake.identifier(on.contract.quarantine_table)).where(waiting).count()


def _publish(
    lake: Lake,
    on: ReplayBase,
    fates: Fates,
    leaving: Runs,
    selection: Selection,
    signature: Signature,
) -> int:
    act = act_of(signature, "replay", on.state.head, what="quarantine", **selection.as_json())
    ranges = {p: OffsetRange(runs[0][0], runs[-1][1]) for p, runs in leaving.items()}
    plan, after = replace(fates.plan, act=act, ranges=ranges), fates.counts(leaving)
    with dropped_on_failure(lake, plan.attempt):
        made = open_branch(lake, plan.attempt)
        inside = within(ranges, F.col("_kafka.partition"), F.col("_kafka.offset"))
        staged = stage(lake, plan, fates.decoded.where(inside))
        check_staged(plan, staged.rows, add_up(after.values()).written)
        check_each_once(lake, plan)
        judge_replay(
            lake,
            plan,
            staged,
            frozenset({"min_rows"}),
            "leave these records out with --cause, or with --partition, --from and --to",
        )
        pause_point("audited")
        settlement = Settlement(
            id=plan.batch_id,
            epoch=on.ledger.epoch,
            run_id=signature.run_id,
            at=now_us(),
            resolved=dict(leaving),
        )
        before = fates.counts_before(leaving, on.ledger.totals)
        return publish_and_settle(
            lake,
            plan,
            made | {staged.snapshot_id},
            staged.evidence,
            Recount(before, after, as_runs(ranges), fates.truncates),
            settlement,
        )
