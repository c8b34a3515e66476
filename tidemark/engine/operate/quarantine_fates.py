"""What today's decoder makes of quarantined records: which of them leave, which stay, and how they are counted."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.ledger.evidence import Group, truncates
from tidemark.domain.ledger.ledger import NOTHING, Counts
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.ledger.replay import MOST_RANGES, Runs, quarantined_before, runs_between
from tidemark.engine.access.conditions import within
from tidemark.engine.access.lake import Lake
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import CAUSE, FATE
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quarantine_rows import exact_causes
from tidemark.engine.operate.quarantine_causes import OLD_CAUSE, note_causes
from tidemark.engine.operate.replay_plan import ReplayBase, beyond_retention

_LEAVES = ("written", "skipped", "tombstone")
_Places = Mapping[int, tuple[Any, Any]]
"""Partition -> offsets in order, and which of _LEAVES the fate of each is (-1 for any other)."""


@dataclass(frozen=True, slots=True)
class Fates:
    """What today's decoder makes of the selected records: a place and a fate each, brought to the client."""

    plan: Plan
    decoded: DataFrame
    old: DataFrame
    """Partition, offset and cause until now of all that wait."""
    resolved: _Places
    """What leaves the quarantine."""
    expiring: _Places
    """Of these what becomes rows that retention deletes next."""
    remaining: _Places
    """What does not, be it that it was not selected."""
    staying: Sequence[Group]
    """Of the selected records those that do not fit today either."""
    truncates: Mapping[int, int]
    """The last truncate per partition that leaves the quarantine and makes no row."""

    def stays(self, lake: Lake) -> dict[str, int]:
        """Records that stay, by today's cause; those that a parked schema change holds back have none."""
        parked = sum(group.count for group in self.staying if group.fate == "uncovered")
        causes = exact_causes(lake, self.plan, self.staying, self.decoded)
        return {**causes, **({"schema_review": parked} if parked else {})}

    def note_causes(self, lake: Lake) -> int:
        """Let those that stay in quarantine have today's cause; how many had another one."""
        groups = [group for group in self.staying if group.fate == "quarantined"]
        return note_causes(lake, self.plan, self.decoded, groups, self.old) if groups else 0

    def leaving(self, most: int) -> tuple[Runs, bool]:
        """Runs of offsets whose waiting records all leave, and whether more had to be left for another commit."""
        each = min(MOST_RANGES, most // max(1, len(self.resolved)))
        runs = [
            (p, run)
            for p, (offsets, _) in self.resolved.items()
            for run in runs_between(
                offsets.tolist(), self.remaining[p][0].tolist() if p in self.remaining else (), each
            )
        ]
        found = defaultdict[int, list[tuple[int, int]]](list)
        for p, run in runs[:most]:
            found[p].append(run)
        return dict(found), len(runs) > most

    def counts(self, leaving: Runs) -> dict[int, Counts]:
        """How the records that leave are counted from now on."""
        found = {}
        for p, runs in leaving.items():
            offsets, fates = self.resolved[p]
            inside = fates[_inside(offsets, runs)]
            written, skipped, tombstones = np.bincount(inside, minlength=len(_LEAVES)).tolist()
            found[p] = Counts(len(inside), written, tombstones=tombstones, skipped=skipped)
        return found

    def counts_before(self, leaving: Runs, totals: Mapping[int, Counts]) -> dict[int, Counts]:
        """How they were counted, of which a ledger counts `totals`."""
        left = {p: len(offsets) for p, (offsets, _) in self.remaining.items()}
        after = self.counts(leaving)
        return {p: quarantined_before(c, totals.get(p, NOTHING), left.get(p, 0)) for p, c in after.items()}

    def aged(self, leaving: Runs) -> int:
        """How many of the records that leave become rows that retention deletes next."""
        return sum(
            int(_inside(self.expiring[p][0], leaving[p]).sum()) for p in self.expiring.keys() & leaving.keys()
        )


def decode_waiting(on: ReplayBase, waiting: DataFrame, selected: Column) -> Fates:
    """Decode those of the waiting records that are `selected`; runs Spark three times."""
    bounds = waiting.groupBy("partition").agg(F.min("offset").alias("a"), F.max("offset").alias("b"))
    covered = {r["partition"]: OffsetRange(r["a"], r["b"] + 1) for r in bounds.collect()}
    plan = replace(on.plan(covered), from_quarantine=True)
    decoded = decode(waiting.where(selected), plan.decoding())
    aged = beyond_retention(on.state)
    columns = (
        "_kafka.partition",
        "_kafka.offset",
        F.col(FATE).alias("fate"),
        F.col(CAUSE).alias("cause"),
        "_kafka.schema_id",
        ((F.col(FATE) == "written") & (F.lit(False) if aged is None else aged)).alias("aged"),
    )
    rows = decoded.select(*columns).toArrow()
    leave = pc.is_in(rows["fate"], pa.array(_LEAVES))
    leaves, stays = rows.filter(leave), rows.filter(pc.invert(leave))
    resolved = _by_partition(leaves)
    spans = {p: OffsetRange(o[0].item(), o[-1].item() + 1) for p, (o, _) in resolved.items()}
    beside = ~selected & within(spans, F.col("partition"), F.col("offset"))
    others = waiting.where(beside).select("partition", "offset", F.lit("").alias("fate")).toArrow()
    return Fates(
        plan=plan,
        decoded=decoded,
        old=waiting.select("partition", "offset", OLD_CAUSE),
        resolved=resolved,
        expiring=_by_partition(leaves.filter(leaves["aged"])),
        remaining=_by_partition(others, stays),
        staying=_groups(stays),
        truncates=truncates(_groups(leaves)),
    )


def _inside(offsets: Any, runs: Sequence[tuple[int, int]]) -> Any:
    """Which of the offsets lie in one of the half-open runs, which are in order."""
    first, upto = np.asarray(runs, dtype=np.int64).T
    at = np.searchsorted(first, offsets, side="right") - 1
    return (at >= 0) & (offsets < upto[at])


def _by_partition(*tables: pa.Table) -> _Places:
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
