"""What one merge is about: the events that are read, and what is known of their keys, reduced to one row per key."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.names import CDC
from tidemark.domain.columns.spark_types import quoted_name, quoted_text
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger import merge_filters
from tidemark.domain.ledger.merge_ledger import Truncation
from tidemark.domain.ledger.merge_plan import AppendHistory
from tidemark.domain.times import moment
from tidemark.engine.access.conditions import any_of, expired
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.spark import checkpointed
from tidemark.engine.access.table_state import load
from tidemark.engine.merge.append_rows import append_rows, require_keys
from tidemark.engine.merge.event import (
    AFTER,
    DELETE,
    ERASED,
    KEY,
    KIND,
    NEW,
    ORDER,
    PLACE,
    RETOLD,
    ROW,
    STORED,
    TRUNCATE,
    UNDONE,
    UNTOLD,
)
from tidemark.engine.merge.memory import read_memory
from tidemark.engine.merge.newest import decided_by_place, newest_only, reach, told_by_place
from tidemark.engine.merge.plan import MergePlan
from tidemark.engine.merge.rows import (
    events,
    key_columns,
    null_key,
    present,
    reduced,
    remembered,
    taken_alone,
)
from tidemark.engine.merge.upsert_columns import UpsertColumns
from tidemark.engine.table.head_rows import head_rows

FEW = 200
"""Events up to which their keys are named one by one; Iceberg compares no more with a file's statistics."""
SMALL = 1_000_000
"""Events up to which each task gets all their keys, so that the table itself is not shuffled."""
_OFFSET = ("partition", "offset")
_COUNTED = ("int", "long", "string", "date")


@dataclass(frozen=True, slots=True)
class Batch:
    """`winners` as `reduced` gives them. `pruned`: what every stored row of these keys fulfils, as SQL on `t`.

    `is_alone`: no stored row took part, and the winners are reduced anew by whatever asks for them.
    `winners_by_place`: the same winners found by place alone, cheaper; wrong where a record lies twice in the append
    table, so the count decides.
    """

    winners: DataFrame
    winners_by_place: DataFrame | None
    read: int
    null_key: int
    truncates: int
    truncated: Mapping[int, Truncation]
    max_timestamp: datetime | None
    pruned: str
    is_alone: bool

    @property
    def small(self) -> bool:
        """So few that a task may keep a file open for every partition of the table."""
        return self.read <= SMALL


def read_batch(lake: Lake, plan: MergePlan) -> Batch:
    """Read the append rows of a plan and reduce them with what is stored of their keys.

    Raises:
        Stopped: a truncate event came, and the contract says `on_truncate: stop`; or a delete names no row.
    """
    shape, alone = plan.shape, _is_alone(plan)
    append = append_rows(lake, plan.pair, merge_filters.unmerged(plan.rows))
    came = events(append, shape, plan.pair.columns, F.lit(NEW))
    facts = _facts(came, shape)
    if facts["keyless"]:
        require_keys(lake, plan.pair, shape, plan.rows)
    truncated = _truncated(plan, facts)
    fresh = came.where((F.col(KIND) != TRUNCATE) & ~null_key(shape.current))
    newest = None
    if told_by_place(shape, facts, alone=alone) and not plan.rows.reloaded and not truncated:
        newest = newest_only(fresh, shape)
    found, pruned = fresh if newest is None or alone else newest, ""
    touched = _touched(lake, plan, fresh) if plan.rows.reloaded else None
    if touched is not None:
        found = found.unionByName(_merged_before(lake, plan, touched))
    found = found.where(f"NOT {shape.before(truncated, PLACE, f'{ROW}.')}")
    if plan.pair.cut is not None and plan.rows.reloaded:
        found = _within_memory(lake, plan, plan.pair.cut, found)
    if not alone:
        keys = fresh.select(KEY)
        if touched is not None:
            keys = keys.unionByName(touched)
        else:  # a replay undoes rows of other keys as well
            pruned = _pruned(shape, fresh, facts)
        keys = F.broadcast(keys) if facts["n"] <= SMALL else keys
        rows = target(lake, plan)
        rows = rows.alias("t").where(pruned) if pruned else rows
        if _only_newer_matter(plan, truncated):
            found = found.unionByName(present(rows, shape).join(keys, KEY, "left_semi"))
            rows = rows.where(_not_older(facts))
        found = found.unionByName(_stored(lake, plan, rows, keys, truncated, touched))
        if (past := _remembered(lake, plan, keys, truncated)) is not None:
            found = found.unionByName(past)
    winners = reduced(found, shape)
    return Batch(
        winners=winners if alone else checkpointed(winners),
        winners_by_place=None if newest is None else taken_alone(newest),
        read=facts["n"],
        null_key=facts["null_key"] or 0,
        truncates=facts["truncates"] or 0,
        truncated=truncated,
        max_timestamp=_moment(facts["last"], plan.pair.append),
        pruned=pruned,
        is_alone=alone,
    )


def _is_alone(plan: MergePlan) -> bool:
    """Whether nothing is known of any key: no row is there, and no delete is remembered of those that were."""
    remembers = plan.current.remembers and plan.memory != 0
    return plan.action == "rebuild" or not (plan.state.rows or remembers)


def target(lake: Lake, plan: MergePlan) -> DataFrame:
    """The upsert table as the plan saw it."""
    return head_rows(lake, plan.state)


def _facts(came: DataFrame, shape: UpsertColumns) -> Mapping[str, Any]:
    """One look at the events: how many, which truncate, how far the keys reach."""
    at = F.col(PLACE)
    truncates = F.col(KIND) == TRUNCATE
    pos = F.col(ROW)[CDC]["pos"] if shape.has_cdc else F.lit(None).cast("string")
    place = F.struct(at["epoch"], at["offset"], F.unix_millis(at["timestamp"]), pos, at["partition"])
    spans = [
        bound(_comparable(n, str(shape.type_of(*path)))).alias(f"{name}{n}")
        for n, path in _prunable(shape)
        for name, bound in (("least", F.min), ("most", F.max))
    ]
    return (
        came.agg(
            F.count("*").alias("n"),
            F.count_if(null_key(shape.current)).alias("null_key"),
            F.count_if((F.col(KIND) == DELETE) & null_key(shape.current)).alias("keyless"),
            F.count_if(truncates).alias("truncates"),
            F.max(F.unix_millis(at["timestamp"])).alias("last"),
            F.min(at["epoch"]).alias("first_epoch"),
            F.min(at["offset"]).alias("first_offset"),
            *(reach() if decided_by_place(shape) else ()),
            F.collect_set(F.when(truncates, place)).alias("places"),
            *spans,
        )
        .collect()[0]
        .asDict()
    )


def _truncated(plan: MergePlan, facts: Mapping[str, Any]) -> dict[int, Truncation]:
    known = dict(plan.after.truncated) if plan.after else {}
    if facts["places"] and plan.current.upsert.on_truncate == "stop":
        first = min((epoch, partition, offset) for epoch, offset, *_, partition in facts["places"])
        raise Stopped(
            "misconfigured",
            plan.current.contract.table,
            f"{facts['truncates']} truncate events came, the first in partition {first[1]} at offset {first[2]}, and "
            "the contract says upsert.on_truncate: stop. With `apply` the rows before it go, in one commit.",
            offset=first[2],
            partition=first[1],
        )
    for *event, partition in facts["places"]:
        truncation = Truncation(*event)
        known[partition] = known.get(partition, truncation).joined(truncation)
    return known


def _touched(lake: Lake, plan: MergePlan, fresh: DataFrame) -> DataFrame:
    """The keys of what a replay has touched: of its events, of stored rows, and of the append rows that it replaced.

    The latter were merged as of the snapshot that the ledger names; a hard delete among them left no row.
    """
    touched = merge_filters.reloaded(plan.rows.epoch, plan.rows.reloaded)
    keys = fresh.where(merge_filters.reloaded(plan.rows.epoch, plan.rows.reloaded, PLACE)).select(KEY)
    stored = target(lake, plan).where(touched).select(key_columns(plan.shape).alias(KEY))
    keys = keys.unionByName(stored)
    named = plan.after.append_snapshot if plan.after else None
    append = load(lake.catalog, plan.current.append.table)
    if named is None or append is None or append.metadata.snapshot_by_id(named) is None:
        return keys
    replaced = append_rows(lake, plan.pair, touched, named)
    return keys.unionByName(replaced.select(key_columns(plan.shape).alias(KEY)))


def _merged_before(lake: Lake, plan: MergePlan, touched: DataFrame) -> DataFrame:
    """After a replay, all older events of the keys that it touched: what it replaced may have been their newest."""
    merged = f"{merge_filters.up_to_end(plan.rows)} AND NOT {merge_filters.unmerged(plan.rows)}"
    past = events(append_rows(lake, plan.pair, merged), plan.shape, plan.pair.columns, F.lit(NEW))
    past = past.where((F.col(KIND) != TRUNCATE) & ~null_key(plan.current))
    return past.join(touched, KEY, "left_semi")


def _within_memory(lake: Lake, plan: MergePlan, cut: datetime, found: DataFrame) -> DataFrame:
    """Drops replayed events that might bring back a deleted row: retention may have taken the delete of their key.

    They are older than its cut, their key has no row, and not all later records were read again with them.
    """
    aged = _without_sequel(plan, cut, PLACE)
    if not plan.state.rows:
        return found.where(~aged)
    here = target(lake, plan).select(key_columns(plan.shape).alias(KEY))
    return found.where(~aged).unionByName(found.where(aged).join(here, KEY, "left_semi"))


def _without_sequel(plan: MergePlan, cut: datetime, at: str) -> Column:
    """Whether the record at a place was replayed from before retention's cut, and not all that followed it with it."""
    place = F.col(at)
    again = [(place["partition"] == p) & (place["offset"] >= first) for p, first in plan.rows.again.items()]
    replayed = F.expr(merge_filters.reloaded(plan.rows.epoch, plan.rows.reloaded, at))
    return replayed & expired(place["timestamp"], cut) & ~any_of(again)


def _only_newer_matter(plan: MergePlan, truncated: Mapping[int, Truncation]) -> bool:
    """Whether of stored rows that are older than the batch nothing is asked but whether they are there.

    Iceberg reads a few flat columns many times faster than `_kafka` beside them, and skips files by its offsets.
    """
    shape = plan.shape
    asked = shape.current.soft or shape.holding or truncated or plan.rows.reloaded
    return shape.current.by_offset and not asked


def _not_older(facts: Mapping[str, Any]) -> str:
    epoch, offset = facts["first_epoch"] or 0, facts["first_offset"] or 0
    return f"(_kafka.epoch > {epoch} OR (_kafka.epoch = {epoch} AND _kafka.offset >= {offset}))"


def _stored(
    lake: Lake,
    plan: MergePlan,
    rows: DataFrame,
    keys: DataFrame,
    truncated: Mapping[int, Truncation],
    touched: DataFrame | None,
) -> DataFrame:
    """The stored rows of these keys, each with an origin (event.py) that says whether it still counts.

    A row in a replayed range is UNDONE. Once retention has deleted append rows it is instead STORED where retention
    may have its append row, UNTOLD where the replay sent that to the quarantine, and RETOLD where that is there, for
    the events behind its older values may be gone. Before that, rows of columns that blend events are UNDONE for every
    key that the replay `touched`: all events of the key are read again.
    """
    reloaded = merge_filters.reloaded(plan.rows.epoch, plan.rows.reloaded)
    undone, untold, retold = F.expr(reloaded), F.lit(False), F.lit(False)
    if plan.pair.cut is not None and plan.rows.reloaded:
        place, there = F.col("_kafka"), append_rows(lake, plan.pair, reloaded).select("_kafka")
        there = there.select(*(place[name].alias(f"_tidemark_{name}") for name in _OFFSET)).distinct()
        rows = rows.join(there, [place[name] == F.col(f"_tidemark_{name}") for name in _OFFSET], "left")
        gone = F.col("_tidemark_offset").isNull()
        undone &= ~(gone & expired(place["timestamp"], plan.pair.cut))
        untold, retold = undone & gone, undone & ~gone
    erased = F.expr(plan.shape.before(truncated))
    if touched is not None and plan.pair.cut is None and plan.shape.blends:
        again = F.col("_tidemark_again")
        rows = rows.join(
            touched.select(F.col(KEY).alias("_tidemark_again")).distinct(),
            again == key_columns(plan.shape),
            "left",
        )
        undone |= again.isNotNull() & ~erased
    taken = F.lit(ERASED if plan.current.soft else UNDONE)
    origin = (
        F.when(untold & ~erased, F.lit(UNTOLD))
        .when(retold & ~erased, F.lit(RETOLD))
        .when(undone, F.lit(UNDONE))
        .when(erased, taken)
        .otherwise(F.lit(STORED))
    )
    found = events(rows, plan.shape, plan.shape.columns, origin, whole=plan.current.soft)
    return found.join(keys, KEY, "left_semi")


def _remembered(
    lake: Lake, plan: MergePlan, keys: DataFrame, truncated: Mapping[int, Truncation]
) -> DataFrame | None:
    """The deletes of these keys that left no row behind; only needed where an older event may follow.

    A truncation takes them too: whatever comes after it begins anew, as if all had come in one batch. What is replayed
    is forgotten, but for records that `_within_memory` leaves aside: of these the memory alone tells.
    """
    current = plan.current
    rows = read_memory(lake, current, plan.memory) if current.remembers else None
    if rows is None:
        return None
    found = remembered(rows, plan.shape).join(keys, KEY, "left_semi")

    def gone(at: str) -> Column:
        undone = F.expr(merge_filters.reloaded(plan.rows.epoch, plan.rows.reloaded, at))
        if plan.pair.cut is not None:
            undone &= ~_without_sequel(plan, plan.pair.cut, at)
        pos = f"{ORDER}.{plan.shape.order_names[0]}" if current.by_pos else None
        if pos and at == PLACE:  # a delete without an order has that of what it took
            pos = f"IF({AFTER} IS NULL, {pos}, NULL)"
        return undone | F.expr(merge_filters.before(truncated, at, pos, by_pos=current.by_pos))

    found = found.where(~gone(PLACE))
    taken = F.coalesce(gone(AFTER), F.lit(False))  # what it took is read again, or went with a truncation
    return found.withColumns({name: F.when(~taken, F.col(name)) for name in (ORDER, AFTER)})


def _prunable(shape: UpsertColumns) -> list[tuple[int, tuple[str, ...]]]:
    """Keys by which files can be left out: their number and path."""
    return [(n, path) for n, path in enumerate(shape.current.keys) if str(shape.type_of(*path)) in _COUNTED]


def _pruned(shape: UpsertColumns, fresh: DataFrame, facts: Mapping[str, Any]) -> str:
    """Conditions that the stored rows of these keys fulfil, so that other files and partitions are not read."""
    conditions = []
    for n, path in _prunable(shape):
        name, kind = f"t.{quoted_name(*path)}", str(shape.type_of(*path))
        if facts["n"] <= FEW:
            found = {row[0] for row in fresh.select(_comparable(n, kind)).distinct().collect()}
            sound = found and not any("\0" in str(each) for each in found)  # no literal has a NUL
            listed = ", ".join(_literal(each, kind) for each in sorted(found)) if sound else ""
            conditions += [f"{name} IN ({listed})"] if listed else []
            continue
        least, most = facts[f"least{n}"], facts[f"most{n}"]
        if least is not None and "\0" not in f"{least}{most}":
            conditions += [f"{name} >= {_literal(least, kind)}", f"{name} <= {_literal(most, kind)}"]
    return " AND ".join(conditions)


def _comparable(n: int, kind: str) -> Column:
    """A part of the key as Python can hold it: days in place of dates, which may lie outside of years 1 to 9999."""
    part = F.col(KEY)[f"k{n}"]
    return F.unix_date(part) if kind == "date" else part


def _literal(value: Any, kind: str) -> str:
    if kind == "string":
        return quoted_text(value)
    return f"date_from_unix_date({value})" if kind == "date" else str(value)


def _moment(milliseconds: int | None, append: AppendHistory | None) -> datetime | None:
    """The newest record time, but none beyond what the ingest has counted, which leaves times of the future out."""
    newest = append.ledger.max_timestamp if append else None
    found = moment(milliseconds)
    return found if found is None or newest is None else min(found, newest)
