"""Reading a range of offsets from Kafka again: its rows in table and quarantine are replaced, each in one commit."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.quality import TABLE_CHECKS
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.evidence import Evidence, Group, counts_of, is_flood, truncates, undecided
from tidemark.domain.ledger.guard import Topic, examine, stopped_by
from tidemark.domain.ledger.ledger import Counts, add_up
from tidemark.domain.ledger.offsets import OffsetRange, as_runs
from tidemark.domain.ledger.replay import Recount
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.access.conditions import rows_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import FATE, VALUE
from tidemark.engine.ingest import quarantine
from tidemark.engine.ingest.audit import audit
from tidemark.engine.ingest.observe import grouped, second_look
from tidemark.engine.ingest.plan import Plan, require_topic_unchanged
from tidemark.engine.ingest.quarantine_rows import explained_rows
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.ingest.stage import stage
from tidemark.engine.operate.recount import (
    Rows,
    counted_at_most,
    counted_rows,
    counts_before,
    places_of,
    places_within,
    refuse_loss,
    waiting_rows,
)
from tidemark.engine.operate.replay_plan import (
    ReplayBase,
    beyond_retention,
    check_each_once,
    judge_replay,
    publish_and_settle,
    replay_base,
    require_offsets,
    require_partition,
)
from tidemark.engine.schema.evolve import plan_evolution
from tidemark.engine.table.branch import branch_head, branch_identifier, dropped_on_failure, open_branch
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.races import until_not_overtaken
from tidemark.engine.table.settle import now_us
from tidemark.engine.table.unlogged import act_of, log_missing_acts


def replay_range(
    lake: Lake, contract: Contract, partition: int, start: int, end: int, signature: Signature
) -> Operation:
    """Replace the rows of offsets [start, end) by what Kafka and today's decoder say.

    Raises:
        Refused: the range was never read, Kafka no longer has it, or the replay would do harm; nothing was changed.
        Stopped, Outage: the table, the topic or a service stands in the way; nothing was changed.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        if not signature.dry_run:
            log_missing_acts(lake, contract.table)
        require_offsets(contract.table, start, end)
        wanted = OffsetRange(start, end)
        found, before, after = until_not_overtaken(
            contract, lambda: _attempt(lake, contract, partition, wanted, signature)
        )
        return log_operation(
            lake,
            signature,
            "replay",
            contract.table,
            {"what": "range", "partition": partition, "from": start, "to": end, **found},
            before,
            before if after is None else after,
        )


def _attempt(
    lake: Lake, contract: Contract, partition: int, wanted: OffsetRange, signature: Signature
) -> tuple[dict[str, Any], int | None, int | None]:
    """What was done, and main before and after it; after a dry run there is none."""
    on = replay_base(lake, contract, signature.run_id, dry_run=signature.dry_run)
    topic = lake.topic(contract)
    _check_range(on, topic, partition, wanted)
    plan = on.plan({partition: wanted}, topic)
    decoded = decode(read_ranges(lake, contract, plan.ranges), plan.decoding())
    aged = _aged(on, decoded)
    if signature.dry_run:
        return {**_foreseen(lake, plan, decoded), **aged}, plan.state.head, None
    with dropped_on_failure(lake, plan.attempt):
        made = open_branch(lake, plan.attempt)
        told, receipt = _replace(lake, plan, decoded, made, signature)
    with suppress(Exception):  # the replay has taken place
        quarantine.remake_lost(lake, contract, on.ledger)
    return {**told, **aged}, plan.state.head, receipt


def _aged(on: ReplayBase, decoded: DataFrame) -> dict[str, int]:
    """How many records are so old that retention has deleted such rows: they come back until its next look."""
    aged = beyond_retention(on.state)
    return {} if aged is None else {"beyond_retention": decoded.where(aged).count()}


def _check_range(on: ReplayBase, topic: Topic, partition: int, wanted: OffsetRange) -> None:
    """Raises Refused, naming the range, unless the table has read it and Kafka still has it."""
    table, ledger = on.contract.table, on.ledger
    finding = examine(ledger, topic)
    if finding and finding.state != "offsets_expired":
        raise stopped_by(on.contract, finding)
    require_partition(table, ledger, partition)
    first, following = ledger.start.get(partition, 0), ledger.next[partition]
    kept = topic.log_start[partition]
    if wanted.start < first:
        raise Refused(
            f"partition {partition}: offsets {wanted.start} to {min(first, wanted.end) - 1} lie before the first load, "
            f"which began at {first}",
            next_step=f"tidemark backfill {table} --from TIME --to TIME loads what lies before the first load",
            table=table,
            range=[wanted.start, min(first, wanted.end)],
        )
    if wanted.end > following:
        raise Refused(
            f"partition {partition}: offsets {max(wanted.start, following)} to {wanted.end - 1} are not read yet: "
            f"{table} has read up to {following}",
            next_step=f"tidemark run {table}",
            table=table,
            range=[max(wanted.start, following), wanted.end],
        )
    if wanted.start < kept:
        raise Refused(
            f"partition {partition}: Kafka no longer has offsets {wanted.start} to {min(kept, wanted.end) - 1}; it "
            f"begins at {kept}",
            next_step=f"tidemark replay {table} --partition {partition} --from {kept} --to {wanted.end} --reason …"
            if kept < wanted.end
            else f"tidemark replay {table} --quarantine moves what the quarantine kept of them",
            table=table,
            range=[wanted.start, min(kept, wanted.end)],
        )


def _replace(
    lake: Lake, plan: Plan, decoded: DataFrame, made: frozenset[int], signature: Signature
) -> tuple[dict[str, Any], int]:
    target = branch_identifier(lake, plan.attempt)
    inside = rows_within(plan.ledger.epoch, plan.ranges)
    old = counted_rows(lake, plan, target, inside)
    lake.spark().sql(f"DELETE FROM {target} WHERE {inside}")
    written = {*made, branch_head(lake, plan.attempt).snapshot_id} - {plan.state.head}
    staged = stage(lake, plan, decoded)
    groups = [] if staged.evidence.clean else second_look(decoded)
    _refuse_uncovered(plan, groups)
    counts = audit(lake, staged, groups, epoch=plan.ledger.epoch, ranges=plan.ranges)
    check_each_once(lake, plan, only=staged.rows)
    # a range is part of a batch, or has records of many; `unique` within the table is judged
    judge_replay(lake, plan, staged, TABLE_CHECKS, "replay ranges without these records", inside)
    waits = waiting_rows(lake, plan.contract, plan.ledger.epoch, plan.ranges)
    _keep_every_record(lake, plan, decoded, waits, places_of(lake, target, inside))
    new = counted_rows(lake, plan, target, inside)
    nulls = _null_values(decoded, groups, new)
    before = counts_before(counts, old, new, waits, nulls, counted_at_most(lake, plan, plan.ranges))
    _require_no_flood(plan, counts, groups)
    revealed = _stage_quarantine(lake, plan, decoded, groups)
    settlement = Settlement(
        id=plan.batch_id,
        epoch=plan.ledger.epoch,
        run_id=signature.run_id,
        at=now_us(),
        resolved=as_runs(plan.ranges),
        revealed=revealed,
    )
    receipt = publish_and_settle(
        lake,
        replace(plan, act=_act(plan, signature)),
        frozenset({*written, staged.snapshot_id}),
        staged.evidence,
        Recount(before, counts, settlement.resolved, truncates(groups), reread=True),
        settlement,
        lambda: require_topic_unchanged(lake, plan),
    )
    replaced = {
        f"before_{name}": n for name, n in add_up(before.values())._asdict().items() if name != "read"
    }
    return {**add_up(counts.values())._asdict(), **replaced}, receipt


def _null_values(decoded: DataFrame, groups: list[Group], new: Mapping[int, Rows]) -> dict[int, int]:
    """Records without a value by partition, whatever became of them: a row, nothing, or a row of the quarantine."""
    found = {p: rows.tombstones for p, rows in new.items()}
    others = [(g.partition, g.count) for g in groups if g.fate == "tombstone"]
    if any(g.fate == "quarantined" for g in groups):
        bad = decoded.where((F.col(FATE) == "quarantined") & F.col(VALUE).isNull())
        counted = bad.groupBy(F.col("_kafka.partition").alias("partition")).agg(F.count("*").alias("n"))
        others += [(row["partition"], row["n"]) for row in counted.collect()]
    for p, count in others:
        found[p] = found.get(p, 0) + count
    return found


def _act(plan: Plan, signature: Signature) -> str:
    [(p, wanted)] = plan.ranges.items()
    asked = {"what": "range", "partition": p, "from": wanted.start, "to": wanted.end}
    return act_of(signature, "replay", plan.state.head, **asked)


def _keep_every_record(
    lake: Lake, plan: Plan, decoded: DataFrame, waits: DataFrame | None, kept: DataFrame
) -> None:
    """Refuse when table or quarantine hold a record that Kafka has compacted away: it would be lost.

    Raises:
        Refused: naming the first such offsets.
    """
    refuse_loss(
        plan.contract,
        places_within(lake, plan, plan.ranges, waits),
        kept,
        lambda: decoded.where(F.col(FATE) != "written").select("_kafka.partition", "_kafka.offset"),
        f"replay ranges without them: tidemark where {plan.contract.topic} P:O tells of one",
    )


def _refuse_uncovered(plan: Plan, groups: list[Group]) -> None:
    """Raises Stopped(`schema_review`) when the table does not hold a schema of the range."""
    ids = sorted({g.schema_id for g in groups if g.fate == "uncovered" and g.schema_id is not None})
    if ids:
        waits = plan_evolution(plan.contract, plan.state, plan.schemas)
        why = "; ".join(f"schema id {i}: {plan.why_held(waits, i)}" for i in ids)
        raise Stopped(
            "schema_review",
            plan.contract.table,
            f"The range was not replayed. {why}",
            topic=plan.contract.topic,
            schema_ids=ids,
        )


def _require_no_flood(plan: Plan, counts: Mapping[int, Counts], groups: list[Group]) -> None:
    """Raises Refused when more of the range than `quarantine.fail` would leave the table, and no decision says so."""
    whole = undecided(counts.values(), groups, plan.refused)
    if is_flood(whole, plan.contract.quarantine.fail):
        raise Refused(
            f"{whole.quarantined} of {whole.read} records would go to the quarantine, above "
            f"{plan.contract.quarantine.fail:.1%}: misconfiguration rather than bad data",
            next_step="mend the contract, or raise quarantine.fail for this replay",
            table=plan.contract.table,
        )


def _stage_quarantine(lake: Lake, plan: Plan, decoded: DataFrame, groups: list[Group]) -> bool:
    """Put the range's quarantined records where nobody counts them before the receipt is published."""
    expected = sum(g.count for g in groups if g.fate == "quarantined")
    if not expected:
        return False
    staged = Settlement(id=plan.batch_id, epoch=plan.ledger.epoch, run_id=plan.run_id, at=0).staged
    rows = explained_rows(lake, plan, decoded, groups)
    quarantine.hide(lake, plan.contract, rows, staged, expected, f"the audit counted {expected}")
    return True


def _foreseen(lake: Lake, plan: Plan, decoded: DataFrame) -> dict[str, Any]:
    """What the replay would do, as far as it is known before anything is staged.

    Raises:
        Refused: as the replay would be: records would be lost, or flood the quarantine.
    """
    waits = waiting_rows(lake, plan.contract, plan.ledger.epoch, plan.ranges)
    written = decoded.where(F.col(FATE) == "written").select("_kafka.partition", "_kafka.offset")
    _keep_every_record(lake, plan, decoded, waits, written)
    groups = grouped(decoded)
    read = {p: sum(g.count for g in groups if g.partition == p) for p in plan.ranges}
    others = [g for g in groups if g.fate != "written"]
    counts = counts_of(Evidence(read=read), others, plan.ranges)
    _require_no_flood(plan, counts, groups)
    uncovered = sum(g.count for g in groups if g.fate == "uncovered")
    return {**add_up(counts.values())._asdict(), **({"schema_review": uncovered} if uncovered else {})}
