"""Publishing a loaded shadow: its rows replace what they stand for, in one commit that also names the cutover.

The same stage, receipt, publish and settlement as a replay (`replay_plan`); the ledger of records of the table's own
topic says afterwards that they were read.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.naming import ADDED, SHADOW
from tidemark.domain.config.quality import TABLE_CHECKS
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.backfill import CUTOVER, Backfill, Cutover, Placement, Source, corrected, place
from tidemark.domain.ledger.evidence import Evidence
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, Counts, add_up, batch_id
from tidemark.domain.ledger.offsets import as_runs
from tidemark.domain.ledger.replay import UNCOUNTED, Recount
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.access.conditions import rows_within, sql_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, ledgers_of_epoch, newest_receipt, receipts
from tidemark.engine.access.snapshots import is_receipt, ledger_of, made_at
from tidemark.engine.access.table_state import load
from tidemark.engine.ingest import quarantine
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.stage import Staged
from tidemark.engine.operate.backfill.plan import Work, check_elsewhere, require_shadow
from tidemark.engine.operate.backfill.shadow import Window, shadow_rows
from tidemark.engine.operate.recount import (
    NO_ROWS,
    Rows,
    counted_at_most,
    counted_rows,
    counts_before,
    in_kafka,
    places_of,
    places_within,
    refuse_loss,
    waiting_rows,
)
from tidemark.engine.operate.replay_plan import (
    ReplayBase,
    check_each_once,
    judge_replay,
    publish_and_settle,
    replay_base,
)
from tidemark.engine.table.branch import branch_head, branch_identifier, dropped_on_failure, open_branch
from tidemark.engine.table.operations import Signature
from tidemark.engine.table.settle import now_us
from tidemark.engine.table.unlogged import act_of

EXPIRED = 0
"""In the place of a receipt that has expired; no snapshot has this id."""


def cutover_id(contract: Contract, shadow: str | None) -> str:
    """The batch that publishes the shadow of this very uuid."""
    return batch_id(f"{contract.table}|backfill {shadow}", 0, {})


def published(lake: Lake, contract: Contract, batch: str) -> int | None:
    """The receipt of that batch among main's ancestors; EXPIRED where the table's property alone still tells of it.

    Where main's history reaches back to before it, or the receipt is there beside it, it was taken back by hand.
    """
    loaded = load(lake.catalog, contract.table)
    if loaded is None:
        return None
    metadata = loaded.metadata
    for snapshot in receipts(metadata):
        if ledger_of(snapshot, contract.table).batch_id == batch:
            return snapshot.snapshot_id
    text = metadata.properties.get(CUTOVER)
    said = Cutover.model_validate_json(text) if text else None
    if said is None or said.batch_id != batch:
        return None
    there = any(is_receipt(s) and ledger_of(s, contract.table).batch_id == batch for s in metadata.snapshots)
    history = list(ancestors(metadata, metadata.current_snapshot_id))
    return None if there or not history or made_at(history[-1]) <= said.at else EXPIRED


def attempt_cutover(lake: Lake, work: Work, loaded: list[Window], signature: Signature) -> int:
    """Replace and publish; returns the receipt. Whoever is overtaken plans again.

    Raises:
        Refused: it would lose, double or leave out something; nothing was changed.
        Overtaken: main has moved.
    """
    contract, source, planned = work.contract, work.source, work.plan
    on = replay_base(lake, contract, signature.run_id, dry_run=False)
    check_elsewhere(lake, replace(work, target=on.state))
    placed = place(on.ledger, planned.ranges, contract.table) if source.kind == "own" else Placement({}, {})
    ranges = placed.ranges if source.kind == "own" else planned.ranges
    if source.kind == "own":
        _still_meant(lake, on, placed, planned)
        require_uncorrected(lake, work)
    plan = replace(on.plan(ranges), batch_id=cutover_id(contract, work.shadow))
    plan = replace(plan, ledger=plan.ledger.model_copy(update={"start": placed.lowered(plan.ledger.start)}))
    with dropped_on_failure(lake, plan.attempt):
        made = open_branch(lake, plan.attempt)
        return _replace(lake, plan, work, placed, loaded, made, signature)


def _still_meant(lake: Lake, on: ReplayBase, placed: Placement, planned: Backfill) -> None:
    """Raises Refused when table or topic are no longer those that the load was planned for."""
    table = on.contract.table
    shadow = lake.state(table + SHADOW).ledger
    ids = {each.topic_id for each in (shadow, on.ledger) if each and each.topic_id}
    same = shadow is not None and shadow.cluster_id == on.ledger.cluster_id and len(ids) < 2  # noqa: PLR2004
    if not same or placed.ranges != planned.ranges or planned.epoch != on.ledger.epoch:
        raise Refused(
            f"{table} or its topic has changed since the load began: a rollback, or a new epoch",
            next_step=f"tidemark backfill {table} --abort, then anew",
            table=table,
        )


def require_uncorrected(lake: Lake, work: Work) -> None:
    """Raises Refused where rows of the range were replayed or rolled back since the load: it would undo that."""
    table, epoch = work.contract.table, work.plan.epoch
    loaded = load(lake.catalog, table)
    newest = newest_receipt(loaded.metadata) if loaded else None
    if loaded is None or newest is None:
        return
    left = ledgers_of_epoch(loaded.metadata, loaded.metadata.current_snapshot_id, epoch, table)
    known = chain([ledger_of(newest, table)], left)
    if corrected(work.plan, (each for each in known if each.epoch == epoch)):
        raise Refused(
            f"records of the range were replayed or rolled back in {table} since its backfill began to load them",
            next_step=f"tidemark backfill {table} --abort --reason …, then the backfill anew",
            table=table,
        )


def _replace(
    lake: Lake,
    plan: Plan,
    work: Work,
    placed: Placement,
    loaded: list[Window],
    made: frozenset[int],
    signature: Signature,
) -> int:
    contract, target = plan.contract, branch_identifier(lake, plan.attempt)
    source, planned = work.source, work.plan
    within = rows_within(planned.epoch, placed.within)
    old = counted_rows(lake, plan, target, within) if placed.within else {}
    lake.spark().sql(f"DELETE FROM {target} WHERE {_replaced_rows(source, planned, plan)}")
    removed = {*made, branch_head(lake, plan.attempt).snapshot_id} - {plan.state.head}
    staged = _stage(lake, plan, planned, add_up(c for w in loaded for c in w.counts.values()).written)
    if source.records:  # rows were judged as they lie in the shadow
        check_each_once(lake, _of_epoch(plan, planned.epoch), only=staged.rows)
        judge_replay(lake, plan, staged, TABLE_CHECKS, "backfill other times")
    recount = _recounted(lake, plan, placed, loaded, old) if source.kind == "own" else UNCOUNTED
    revealed = _hide_quarantined(lake, plan, source, planned, loaded, signature.run_id)
    settlement = _settlement(plan, planned, signature.run_id).model_copy(
        update={
            "resolved": as_runs(plan.ranges) if source.records else {},
            "revealed": revealed,
        }
    )
    cutover = work.cutover(signature, plan.batch_id, staged.rows, datetime.now(UTC))
    written = frozenset({*removed, staged.snapshot_id})
    evidence = Evidence(read={})
    properties = {CUTOVER: cutover.model_dump_json()}
    told = {"step": "cutover", "source": planned.source, "cutover": cutover.model_dump(mode="json")}
    plan = replace(plan, act=act_of(signature, "backfill", plan.state.head, **told))

    def require_unchanged() -> None:
        require_shadow(work, lake.state(contract.table + SHADOW, ledger=False))

    return publish_and_settle(
        lake, plan, written, evidence, recount, settlement, require_unchanged, properties
    )


def _recounted(
    lake: Lake, plan: Plan, placed: Placement, loaded: list[Window], old: Mapping[int, Rows]
) -> Recount:
    """Of the topic's own records: what the ledger counts instead of what it did; `old` are the rows that went.

    Raises:
        Refused: table or quarantine hold records that Kafka no longer has.
    """
    contract, epoch = plan.contract, plan.ledger.epoch
    waits = waiting_rows(lake, contract, epoch, placed.within)
    after, inner = _counts(placed, loaded)
    target = branch_identifier(lake, plan.attempt)
    new = counted_rows(lake, plan, target, rows_within(epoch, placed.within))
    bad = _quarantined_nulls(lake, contract, placed) if add_up(inner.values()).quarantined else {}
    nulls = {p: c.tombstones + new.get(p, NO_ROWS).tombstones + bad.get(p, 0) for p, c in inner.items()}
    before = counts_before(inner, old, new, waits, nulls, counted_at_most(lake, plan, placed.within))
    _keep_every_record(lake, plan, placed, waits)
    shadow = lake.state(contract.table + SHADOW).ledger
    return Recount(before, after, as_runs(plan.ranges), shadow.truncates if shadow else {}, reread=True)


def _settlement(plan: Plan, planned: Backfill, run_id: str) -> Settlement:
    """Of this attempt alone: another one may be on its way to publish the same shadow."""
    return Settlement(
        id=plan.batch_id, attempt=plan.attempt_id, epoch=planned.epoch, run_id=run_id, at=now_us()
    )


def _replaced_rows(source: Source, planned: Backfill, plan: Plan) -> str:
    """Rows by the time that they had in their source, records by their offsets."""
    if source.records:
        return rows_within(planned.epoch, plan.ranges)
    since, until = (f"timestamp'{at.isoformat()}'" for at in (planned.since, planned.until))
    return f"_kafka.epoch = {planned.epoch} AND _kafka.timestamp >= {since} AND _kafka.timestamp < {until}"


def _of_epoch(plan: Plan, epoch: int) -> Plan:
    return replace(plan, ledger=plan.ledger.model_copy(update={"epoch": epoch}))


def _stage(lake: Lake, plan: Plan, planned: Backfill, expected: int) -> Staged:
    rows = shadow_rows(lake, plan.contract, plan.state, planned.epoch)
    spread = bool(plan.state.partition_fields)
    writer = rows.writeTo(branch_identifier(lake, plan.attempt))
    writer = writer.option("distribution-mode", "hash" if spread else "none")
    writer.option(f"snapshot-property.{BATCH_PROPERTY}", f"{plan.batch_id}/{plan.attempt_id}").append()
    staged = Staged.of(plan.attempt, branch_head(lake, plan.attempt), Evidence(read={}))
    if staged.rows != expected:
        raise Stopped(
            "failed", plan.contract.table, f"{staged.rows} rows are staged, {expected} were loaded."
        )
    return staged


def _counts(placed: Placement, loaded: list[Window]) -> tuple[dict[int, Counts], dict[int, Counts]]:
    """What the shadow counted, and of that what had been read before; windows never straddle the first load."""
    after: dict[int, Counts] = {}
    inner: dict[int, Counts] = {}
    for window in loaded:
        for p, counts in window.counts.items():
            after[p] = after.get(p, Counts()).plus(counts)
            if p in placed.within and window.ranges[p].start >= placed.within[p].start:
                inner[p] = inner.get(p, Counts()).plus(counts)
            elif p in placed.below and window.ranges[p].end > placed.below[p].end:
                raise Refused(
                    "what was loaded is not told apart at the first load any more: that began elsewhere meanwhile, or "
                    "somebody has expired snapshots of what the backfill has loaded",
                    next_step="--abort, then anew",
                )
    return after, inner


def _quarantined_nulls(lake: Lake, contract: Contract, placed: Placement) -> dict[int, int]:
    """Records without a value that the shadow has in its quarantine, of those that had been read before."""
    rows = lake.spark().sql(
        f"SELECT partition, count(*) FROM {lake.identifier(contract.table + ADDED)} "
        f"WHERE resolved_at IS NULL AND value IS NULL AND ({sql_within(placed.within)}) GROUP BY 1"
    )
    return dict(map(tuple, rows.collect()))


def _keep_every_record(lake: Lake, plan: Plan, placed: Placement, waits: DataFrame | None) -> None:
    """Raises Refused when table or quarantine hold records that Kafka has compacted away: they would be lost."""
    contract, epoch = plan.contract, plan.ledger.epoch
    kept = places_of(lake, branch_identifier(lake, plan.attempt), rows_within(epoch, placed.within))
    name = contract.table + ADDED
    if lake.catalog.table_exists(name):
        quarantined = f"SELECT partition, offset FROM {lake.identifier(name)} WHERE resolved_at IS NULL"
        kept = kept.union(lake.spark().sql(quarantined))
    refuse_loss(
        contract,
        places_within(lake, plan, placed.within, waits),
        kept,
        lambda: in_kafka(lake, contract, placed.within),
        "backfill what lies before the first load only, or replay the quarantine",
    )


def _hide_quarantined(
    lake: Lake, plan: Plan, source: Source, planned: Backfill, loaded: list[Window], run_id: str
) -> bool:
    """Put the shadow's quarantined records where nobody counts them before the receipt is published."""
    expected = add_up(c for w in loaded for c in w.counts.values()).quarantined
    if not source.records or not expected:
        return False
    contract = plan.contract
    shadow = lake.spark().table(lake.identifier(contract.table + ADDED))
    rows = shadow.where("resolved_at IS NULL").withColumns(
        {
            "epoch": F.lit(planned.epoch).cast("int"),
            "batch_id": F.lit(plan.batch_id),
            "run_id": F.lit(run_id),
        }
    )
    staged = _settlement(plan, planned, run_id).staged
    quarantine.hide(lake, contract, rows, staged, expected, f"{expected} were loaded")
    return True
