"""Decoding quarantined records again, from the bytes that the quarantine kept: Kafka need not answer.

Records that fit now enter the table in one commit; the others stay, with the cause that they have today.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused, Stopped, TidemarkError
from tidemark.domain.formats.explanation import CAUSES
from tidemark.domain.ledger.evidence import Group, truncates
from tidemark.domain.ledger.ledger import Counts, Ledger, add_up
from tidemark.domain.ledger.offsets import OffsetRange, as_runs
from tidemark.domain.ledger.replay import MOST_RANGES, runs_between
from tidemark.domain.ledger.settlement import Settlement
from tidemark.domain.maintenance.retention import expired_before
from tidemark.domain.suggest import nearest
from tidemark.engine.access.conditions import within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import named
from tidemark.engine.access.table_state import load
from tidemark.engine.decode.records import CAUSE, FATE, decode
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine_rows import exact_causes
from tidemark.engine.ingest.stage import stage
from tidemark.engine.look.quarantined import causes
from tidemark.engine.operate.quarantine_causes import OLD_CAUSE, note_causes
from tidemark.engine.operate.recount import Recount
from tidemark.engine.operate.replay_plan import (
    Ground,
    beyond_retention,
    check_each_once,
    check_staged,
    ground,
    judge_replay,
    publish_and_settle,
    require_offsets,
    require_partition,
)
from tidemark.engine.table.branch import dropped_on_failure, open_branch
from tidemark.engine.table.operations import Operation, Signature, logged
from tidemark.engine.table.races import until_not_overtaken
from tidemark.engine.table.settle import now_us
from tidemark.engine.table.unlogged import act_of, log_missing_acts

MOST_RUNS = 5_000
"""Runs of offsets that one receipt names; a replay that needs more is made in several commits."""
_LEAVES = ("written", "skipped", "tombstone")
_RAW = "key, value, topic, partition, offset, timestamp, timestamp_type AS timestampType, headers, cause AS {old}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which quarantined records: of one cause, of one partition and offsets [first, upto); all when nothing is said."""

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
    """

    moved: int = 0
    aged: int | None = None
    skipped: int = 0
    stays: dict[str, int] = field(default_factory=dict)
    causes_changed: int = 0
    snapshots: list[int] = field(default_factory=list)

    def add(self, fates: "_Fates", leaving: Mapping[int, list[tuple[int, int]]]) -> None:
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
    with named(contract.table, topic=contract.topic, cluster=contract.cluster):
        if not signature.dry_run:
            log_missing_acts(lake, contract.table)
        state = lake.state(contract.table)
        if state.ledger is not None:
            _check_selection(lake, contract, selection, state.ledger)
        before = state.head
        total = _Tally(aged=0 if expired_before(state.properties) else None)

        def told() -> Operation:
            says = {"what": "quarantine", **selection.as_json(), **total.as_json()}
            after = total.snapshots[-1] if total.snapshots else before
            return logged(lake, signature, "replay", contract.table, says, before, after)

        try:
            while until_not_overtaken(
                contract, lambda: _attempt(lake, contract, selection, signature, total)
            ):
                pass
        except TidemarkError as error:
            if not total.snapshots:
                raise
            with suppress(Exception):  # else its receipts tell whoever changes the table next
                told()
            raise _ended_between(contract, total, error) from error
        return told()


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
    on = ground(lake, contract, signature.run_id, dry_run=signature.dry_run)
    waiting = _waiting(lake, on)
    if waiting is None:
        return False
    fates = _Fates(on, waiting, selection)
    leaving, more = fates.leaving(sys.maxsize if signature.dry_run else MOST_RUNS)
    if not more:
        total.stays = fates.stays(lake)
    if signature.dry_run:
        total.add(fates, leaving)
        return False
    if not more:
        total.causes_changed = fates.note_causes(lake, signature.run_id)
    if leaving:
        total.snapshots.append(_publish(lake, on, fates, leaving, selection, signature))
        total.add(fates, leaving)
    return more


def _waiting(lake: Lake, on: Ground) -> DataFrame | None:
    """The unresolved records of this epoch below `next`, at one snapshot; None when there are none."""
    quarantine = load(lake.catalog, on.contract.quarantine_table)
    if quarantine is None or quarantine.metadata.current_snapshot_id is None or not on.ledger.next:
        return None
    below = " OR ".join(f"(partition = {p} AND offset < {o})" for p, o in sorted(on.ledger.next.items()))
    return lake.spark().sql(
        f"SELECT {_RAW.format(old=OLD_CAUSE)} FROM {lake.identifier(on.contract.quarantine_table)} "
        f"VERSION AS OF {quarantine.metadata.current_snapshot_id} "
        f"WHERE epoch = {on.ledger.epoch} AND resolved_at IS NULL AND ({below})"
    )


class _Fates:
    """What today's decoder makes of the selected records: a place and a fate each, brought to the client."""

    def __init__(self, on: Ground, waiting: DataFrame, selection: Selection) -> None:
        bounds = waiting.groupBy("partition").agg(F.min("offset").alias("a"), F.max("offset").alias("b"))
        covered = {r["partition"]: OffsetRange(r["a"], r["b"] + 1) for r in bounds.collect()}
        self.plan: Plan = replace(on.plan(covered), from_quarantine=True)
        self.decoded = decode(waiting.where(selection.condition()), self.plan.decoding())
        aged = beyond_retention(on.state)
        columns = (
            "_kafka.partition",
            "_kafka.offset",
            F.col(FATE).alias("fate"),
            F.col(CAUSE).alias("cause"),
            "_kafka.schema_id",
            ((F.col(FATE) == "written") & (F.lit(False) if aged is None else aged)).alias("aged"),
        )
        rows = self.decoded.select(*columns).toArrow()
        self.old = waiting.select("partition", "offset", OLD_CAUSE)
        leave = pc.is_in(rows["fate"], pa.array(_LEAVES))
        leaves, stays = rows.filter(leave), rows.filter(pc.invert(leave))
        self.leaves = _by_partition(leaves)
        self._aged = _by_partition(leaves.filter(leaves["aged"]))
        spans = {p: OffsetRange(o[0].item(), o[-1].item() + 1) for p, (o, _) in self.leaves.items()}
        beside = ~selection.condition() & within(spans, F.col("partition"), F.col("offset"))
        others = waiting.where(beside).select("partition", "offset", F.lit("").alias("fate")).toArrow()
        self.kept = _by_partition(others, stays)
        self.staying = _groups(stays)
        self.truncates: dict[int, int] = truncates(_groups(leaves))
        """The last truncate per partition that leaves the quarantine and makes no row."""

    def stays(self, lake: Lake) -> dict[str, int]:
        """Records that stay, by today's cause; those that a parked schema change holds back have none."""
        parked = sum(group.count for group in self.staying if group.fate == "uncovered")
        causes = exact_causes(lake, self.plan, self.staying, self.decoded)
        return {**causes, **({"schema_review": parked} if parked else {})}

    def note_causes(self, lake: Lake, run_id: str) -> int:
        """Let those that stay in quarantine have today's cause; how many had another one."""
        groups = [group for group in self.staying if group.fate == "quarantined"]
        return note_causes(lake, self.plan, self.decoded, groups, self.old, run_id) if groups else 0

    def leaving(self, most: int) -> tuple[dict[int, list[tuple[int, int]]], bool]:
        """Runs of offsets whose waiting records all leave, and whether more had to be left for another commit."""
        each = min(MOST_RANGES, most // max(1, len(self.leaves)))
        runs = [
            (p, run)
            for p, (offsets, _) in self.leaves.items()
            for run in runs_between(
                offsets.tolist(), self.kept[p][0].tolist() if p in self.kept else (), each
            )
        ]
        found = defaultdict[int, list[tuple[int, int]]](list)
        for p, run in runs[:most]:
            found[p].append(run)
        return dict(found), len(runs) > most

    def counts(self, leaving: Mapping[int, list[tuple[int, int]]]) -> dict[int, Counts]:
        """How the records that leave are counted from now on."""
        found = {}
        for p, runs in leaving.items():
            offsets, fates = self.leaves[p]
            inside = fates[_inside(offsets, runs)]
            written, skipped, tombstones = np.bincount(inside, minlength=len(_LEAVES)).tolist()
            found[p] = Counts(len(inside), written, tombstones=tombstones, skipped=skipped)
        return found

    def aged(self, leaving: Mapping[int, list[tuple[int, int]]]) -> int:
        """How many of the records that leave become rows that retention deletes next."""
        return sum(
            int(_inside(self._aged[p][0], leaving[p]).sum()) for p in self._aged.keys() & leaving.keys()
        )


def _inside(offsets: Any, runs: list[tuple[int, int]]) -> Any:
    """Which of the offsets lie in one of the half-open runs, which are in order."""
    first, upto = np.asarray(runs, dtype=np.int64).T
    at = np.searchsorted(first, offsets, side="right") - 1
    return (at >= 0) & (offsets < upto[at])


def _by_partition(*tables: pa.Table) -> dict[int, tuple[Any, Any]]:
    """Partition -> offsets in order, and which of _LEAVES the fate of each is (-1 for any other)."""

    def of_all(column: Callable[[pa.Table], Any]) -> Any:
        return np.concatenate([column(each).to_numpy() for each in tables])

    known = pa.array(_LEAVES)
    partitions, offsets = of_all(lambda each: each["partition"]), of_all(lambda each: each["offset"])
    fates = of_all(lambda each: pc.index_in(each["fate"], known).fill_null(-1))
    order = np.lexsort((offsets, partitions))
    there, begins = np.unique(partitions[order], return_index=True)
    split = (np.split(column[order], begins[1:]) for column in (offsets, fates))
    return {p: (o, fate) for p, o, fate in zip(there.tolist(), *split, strict=False)}


def _groups(rows: pa.Table) -> list[Group]:
    keys = ["partition", "fate", "cause", "schema_id"]
    found = rows.group_by(keys).aggregate([("offset", "count"), ("offset", "min"), ("offset", "max")])
    figures = ("count", "first", "last")
    return [Group(**each) for each in found.rename_columns([*keys, *figures]).to_pylist()]


def _publish(
    lake: Lake,
    on: Ground,
    fates: _Fates,
    leaving: Mapping[int, list[tuple[int, int]]],
    selection: Selection,
    signature: Signature,
) -> int:
    act = act_of(signature, "replay", on.state.head, what="quarantine", **selection.as_json())
    ranges = {p: OffsetRange(runs[0][0], runs[-1][1]) for p, runs in leaving.items()}
    plan, after = replace(fates.plan, act=act, ranges=ranges), fates.counts(leaving)
    made = open_branch(lake, plan.attempt)
    with dropped_on_failure(lake, plan.attempt):
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
        before = {p: Counts(read=c.read, quarantined=c.read) for p, c in after.items()}
        return publish_and_settle(
            lake,
            plan,
            made | {staged.snapshot_id},
            staged.evidence,
            Recount(before, after, as_runs(ranges), fates.truncates),
            settlement,
        )
