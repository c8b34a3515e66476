"""Decoding quarantined records again, from the bytes that the quarantine kept: Kafka is not asked.

Records that fit now enter the table in one commit; the others stay, with the cause that they have today.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.formats.explanation import CAUSES, Cause
from tidemark.domain.ledger.evidence import Group, truncates
from tidemark.domain.ledger.ledger import Counts, Ledger, add_up
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import MOST_RANGES, runs_between, within
from tidemark.domain.ledger.settlement import Settlement
from tidemark.domain.suggest import nearest
from tidemark.engine.access.conditions import any_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import named
from tidemark.engine.access.spark import temp_view
from tidemark.engine.access.table_state import load
from tidemark.engine.decode.records import CAUSE, FATE, decode
from tidemark.engine.faults import pause_point
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine_rows import exact_causes, explained_rows
from tidemark.engine.ingest.stage import stage
from tidemark.engine.look.quarantined import causes
from tidemark.engine.operate.replay_plan import (
    Ground,
    Recount,
    check_each_once,
    check_staged,
    ground,
    judge_replay,
    now_us,
    publish_and_settle,
    until_not_overtaken,
)
from tidemark.engine.table.branch import dropped_on_failure, open_branch
from tidemark.engine.table.operations import Operation, Signature, logged
from tidemark.engine.table.races import or_overtaken
from tidemark.engine.table.unlogged import act_of, log_missing_acts

MOST_RUNS = 5_000
"""Runs of offsets that one receipt names; a replay that needs more is made in several commits."""
EXPLAINED = 100_000
_LEAVES = ("written", "skipped", "tombstone")
_RAW = "key, value, topic, partition, offset, timestamp, timestamp_type AS timestampType, headers, cause AS {old}"
_OLD = "_tidemark_old_cause"
_EXPLAINABLE = get_args(Cause)


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
            found &= F.col(_OLD) == self.cause
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
    """What became of the selected records; `stays` by today's cause."""

    moved: int = 0
    skipped: int = 0
    stays: dict[str, int] = field(default_factory=dict)
    causes_changed: int = 0
    snapshots: list[int] = field(default_factory=list)

    def add(self, counts: Mapping[int, Counts]) -> None:
        """These left the quarantine."""
        whole = add_up(counts.values())
        self.moved += whole.written
        self.skipped += whole.skipped + whole.tombstones

    def as_json(self) -> dict[str, Any]:
        return {
            "moved": self.moved,
            "skipped": self.skipped,
            "stays": dict(sorted(self.stays.items())),
            "causes_changed": self.causes_changed,
            "commits": len(self.snapshots),
        }


def replay_quarantine(
    lake: Lake, contract: Contract, selection: Selection, signature: Signature
) -> Operation:
    """Move quarantined records that fit today into the table, exactly once.

    Raises:
        Refused: the table was never loaded, or no record can be what was selected.
        Stopped, Outage: the table, the registry or a service stands in the way; nothing was changed.
    """
    with named(contract.table, topic=contract.topic, cluster=contract.cluster):
        if not signature.dry_run:
            log_missing_acts(lake, contract.table)
        state = lake.state(contract.table)
        if state.ledger is not None:
            _check_selection(lake, contract, selection, state.ledger)
        before = state.head
        total = _Tally()
        while until_not_overtaken(contract, lambda: _attempt(lake, contract, selection, signature, total)):
            pass
        return logged(
            lake,
            signature,
            "replay",
            contract.table,
            {"what": "quarantine", **selection.as_json(), **total.as_json()},
            before,
            total.snapshots[-1] if total.snapshots else before,
        )


def _check_selection(lake: Lake, contract: Contract, selection: Selection, ledger: Ledger) -> None:
    """Raises Refused for what selects nothing whatever lies in the quarantine: a slip, which would pass as success."""
    table, cause = contract.table, selection.cause
    if selection.partition is not None and selection.partition not in ledger.next:
        raise Refused(
            f"{table} has read partitions {sorted(ledger.next)} of {ledger.topic}, not {selection.partition}",
            next_step=f"tidemark reconcile {table} lists partitions and offsets",
            table=table,
        )
    first, upto = selection.first or 0, selection.upto
    if first < 0 or (upto is not None and upto <= first):
        raise Refused(
            "a replay needs offsets --from a --to b with 0 <= a < b",
            next_step=f"tidemark reconcile {table} lists partitions and offsets",
            table=table,
        )
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
        total.add(fates.counts(leaving))
        return False
    if not more:
        total.causes_changed = _note_causes(lake, on, fates, signature.run_id)
    if leaving:
        total.snapshots.append(_publish(lake, on, fates, leaving, selection, signature))
        total.add(fates.counts(leaving))
    return more


def _waiting(lake: Lake, on: Ground) -> DataFrame | None:
    """The unresolved records of this epoch below `next`, at one snapshot; None when there are none."""
    quarantine = load(lake.catalog, on.contract.quarantine_table)
    if quarantine is None or quarantine.metadata.current_snapshot_id is None or not on.ledger.next:
        return None
    below = " OR ".join(f"(partition = {p} AND offset < {o})" for p, o in sorted(on.ledger.next.items()))
    return lake.spark().sql(
        f"SELECT {_RAW.format(old=_OLD)} FROM {lake.identifier(on.contract.quarantine_table)} "
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
        columns = (
            "_kafka.partition",
            "_kafka.offset",
            F.col(FATE).alias("fate"),
            F.col(CAUSE).alias("cause"),
            "_kafka.schema_id",
        )
        self.rows: list[dict[str, Any]] = self.decoded.select(*columns).toArrow().to_pylist()
        self.old = waiting.select("partition", "offset", _OLD)
        others = waiting.where(~selection.condition()).select("partition", "offset").toArrow()
        self.kept: dict[int, list[int]] = defaultdict(list)
        for row in (*others.to_pylist(), *(r for r in self.rows if r["fate"] not in _LEAVES)):
            self.kept[row["partition"]].append(row["offset"])

    def stays(self, lake: Lake) -> dict[str, int]:
        """Records that stay, by today's cause; those that a parked schema change holds back have none."""
        parked = sum(row["fate"] == "uncovered" for row in self.rows)
        causes = exact_causes(lake, self.plan, self.groups, self.decoded)
        return {**causes, **({"schema_review": parked} if parked else {})}

    @property
    def groups(self) -> list[Group]:
        """The quarantined among them, as an audit groups them."""
        return [_group(row) for row in self.rows if row["fate"] == "quarantined"]

    @property
    def truncates(self) -> dict[int, int]:
        """The last truncate per partition that leaves the quarantine and makes no row."""
        return truncates(map(_group, self.rows))

    def leaving(self, most: int) -> tuple[dict[int, list[tuple[int, int]]], bool]:
        """Runs of offsets whose waiting records all leave, and whether more had to be left for another commit."""
        leaves: dict[int, list[int]] = defaultdict(list)
        for row in self.rows:
            if row["fate"] in _LEAVES:
                leaves[row["partition"]].append(row["offset"])
        each = min(MOST_RANGES, most // max(1, len(leaves)))
        runs = [
            (p, r) for p, found in sorted(leaves.items()) for r in runs_between(found, self.kept[p], each)
        ]
        found = defaultdict[int, list[tuple[int, int]]](list)
        for p, run in runs[:most]:
            found[p].append(run)
        return dict(found), len(runs) > most

    def counts(self, leaving: Mapping[int, list[tuple[int, int]]]) -> dict[int, Counts]:
        """How the records that leave are counted from now on."""
        seen = Counter(
            (r["partition"], r["fate"])
            for r in self.rows
            if r["fate"] in _LEAVES and within(leaving.get(r["partition"], []), r["offset"])
        )
        return {
            p: Counts(
                read=sum(seen[p, fate] for fate in _LEAVES),
                written=seen[p, "written"],
                tombstones=seen[p, "tombstone"],
                skipped=seen[p, "skipped"],
            )
            for p in leaving
        }


def _group(row: Mapping[str, Any]) -> Group:
    place = row["offset"]
    return Group(row["partition"], row["fate"], row["cause"], row["schema_id"], 1, place, place)


def _publish(
    lake: Lake,
    on: Ground,
    fates: _Fates,
    leaving: Mapping[int, list[tuple[int, int]]],
    selection: Selection,
    signature: Signature,
) -> int:
    act = act_of(signature, "replay", on.state.head, what="quarantine", **selection.as_json())
    plan, after = replace(fates.plan, act=act), fates.counts(leaving)
    spans = {p: [(runs[0][0], runs[-1][1])] for p, runs in leaving.items()}
    made = open_branch(lake, plan.attempt)
    with dropped_on_failure(lake, plan.attempt):
        staged = stage(lake, plan, fates.decoded.where(_among(spans)))
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
            Recount(before, after, spans, fates.truncates),
            settlement,
        )


def _among(spans: Mapping[int, list[tuple[int, int]]]) -> Column:
    """True for a record inside the spans: all that fit, unless the runs were too many for one receipt."""
    parts = [
        (F.col("_kafka.partition") == p) & (F.col("_kafka.offset") >= a) & (F.col("_kafka.offset") < b)
        for p, [(a, b)] in spans.items()
    ]
    return any_of(parts)


def _note_causes(lake: Lake, on: Ground, fates: _Fates, run_id: str) -> int:
    """Write today's cause of the records that stay where it is another one; how many that were."""
    groups = fates.groups
    if not groups:
        return 0
    quarantine = on.contract.quarantine_table
    rows = explained_rows(lake, fates.plan, fates.decoded, groups, run_id)
    together = rows.select("partition", "offset", "cause", "detail").join(fates.old, ["partition", "offset"])
    now = together.where(F.col("cause") != F.col(_OLD)).limit(EXPLAINED).toArrow().to_pylist()
    changed = [
        (r["partition"], r["offset"], r["cause"], r["detail"])
        for r in now
        if r["detail"] is not None
        or r["cause"] not in _EXPLAINABLE  # else it is beyond what one look explains
    ]
    if not changed:
        return 0
    frame = lake.spark().createDataFrame(changed, "partition int, offset bigint, cause string, detail string")
    with temp_view(frame, "causes") as view, or_overtaken(quarantine):
        frame.sparkSession.sql(
            f"MERGE INTO {lake.identifier(quarantine)} t USING {view} s ON t.epoch = {on.ledger.epoch} "
            "AND t.partition = s.partition AND t.offset = s.offset AND t.resolved_at IS NULL "
            "WHEN MATCHED THEN UPDATE SET cause = s.cause, detail = s.detail"
        )
    return len(changed)
