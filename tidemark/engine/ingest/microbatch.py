"""The way of a record, one microbatch at a time: plan, read, decode, stage, audit, publish with a receipt.

Each attempt plans from the truth and works on a branch of its own. One that does not move main changes no row;
its quarantine rows are replaced.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, Stopped, TidemarkError
from tidemark.domain.ledger.backfill import BACKFILL
from tidemark.domain.ledger.evidence import (
    Group,
    first_offenders,
    groups_from_counts,
    is_flood,
    nothing_decodes,
    truncates,
    undecided,
    unknown_ids,
    unrouted,
)
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.domain.ledger.offsets import Offsets
from tidemark.domain.outcome import Commit
from tidemark.domain.times import moment
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.decode.records import decode
from tidemark.engine.ingest import quarantine
from tidemark.engine.ingest.audit import audit
from tidemark.engine.ingest.consumer_group import tell_group
from tidemark.engine.ingest.held import forget, hold_back
from tidemark.engine.ingest.observe import CountsLost, second_look
from tidemark.engine.ingest.other_messages import other_messages
from tidemark.engine.ingest.plan import Limits, Plan, make_plan, require_topic_unchanged
from tidemark.engine.ingest.quality_stage import judge_stage
from tidemark.engine.ingest.quarantine_repair import repair
from tidemark.engine.ingest.quarantine_rows import causes_known, exact_causes, quarantined_rows
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.ingest.readable_head import with_readable_head
from tidemark.engine.ingest.ready import way_out_if_unfit
from tidemark.engine.ingest.stage import Staged, stage
from tidemark.engine.ingest.unreadable import readable_before
from tidemark.engine.schema.event_routes import IDS_ROUTED
from tidemark.engine.schema.evolve import plan_evolution, unsupported_ids
from tidemark.engine.schema.subjects import reading_of, subjects_of
from tidemark.engine.schema.writers import read_schemas
from tidemark.engine.stopwatch import Stopwatch
from tidemark.engine.table.branch import dropped_on_failure, open_branch
from tidemark.engine.table.lease import LOST_OFTEN, ask_for_room
from tidemark.engine.table.publish import publish
from tidemark.engine.table.races import ATTEMPTS, stand_aside

_UNPROVEN = (
    ". No record was ever read: if the contract is right, the next good one resolves it, "
    "or tidemark accept {table} --quarantine-batch --reason …"
)


class _PlanAgain(TidemarkError):
    """The pass found limits that the plan must keep.

    ceiling: partition -> first offset not to read; seen: schema ids to prepare for.
    """

    def __init__(self, ceiling: Mapping[int, int], seen: frozenset[int] = frozenset()) -> None:
        super().__init__("the pass has found what the plan must respect", next_step="plan again")
        self.ceiling = ceiling
        self.seen = seen


def microbatch(
    lake: Lake,
    contract: Contract,
    run_id: str,
    *,
    loaded_before: bool = False,
    goal: Offsets | None = None,
    uuid: str | None = None,
) -> Commit | None:
    """Publish the next batch of a table, or None when nothing waits below `goal` or the table is paused.

    `uuid`: of the very table that is meant, when none in its place will do.

    Planned at most ATTEMPTS times. A pass that met new schema ids does not count; the first loss to another run at a
    ledger begins the count anew. After LOST_OFTEN losses in a row at one ledger the table asks maintenance for room.

    Raises:
        Stopped: the table is in a stop state; nothing moved.
        Outage: a service does not answer; a later attempt continues from the table.
    """
    limits = Limits(loaded_before, goal, uuid=uuid)
    last: TidemarkError | None = None
    ledger_seen: Ledger | None = None
    turn = lost = 0
    while turn < ATTEMPTS:
        turn += 1
        try:
            with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
                commit = _attempt(lake, contract, run_id, limits)
            if commit is not None or not limits.ceiling:
                return commit
            # Others published all below the ceiling. Planned without it, the records that wait stop the table.
            limits = replace(limits, ceiling={})
        except _PlanAgain as found:
            if not found.seen <= limits.seen:  # not counted as a turn: a batch carries finitely many schemas
                turn -= 1
            limits = limits.with_found(found.ceiling, found.seen)
            last = found
        except CountsLost as found:
            if turn == ATTEMPTS:
                raise
            last = found
        except Overtaken as overtaken:
            last = overtaken
            stand_aside(turn)
            ledger_then, ledger_seen = ledger_seen, lake.state(contract.table).ledger
            turn, lost = (turn, lost + 1) if ledger_seen == ledger_then else (0, 1)
            if lost == LOST_OFTEN:
                with suppress(Exception):
                    ask_for_room(lake, contract.table)
    raise Stopped("failed", contract.table, f"It was planned {ATTEMPTS} times in vain: {last}") from last


def _attempt(lake: Lake, contract: Contract, run_id: str, limits: Limits) -> Commit | None:
    watch = Stopwatch()
    with watch("plan"):
        plan = make_plan(lake, contract, run_id, limits)
        if plan is not None and not plan.state.head_readable:
            # before the empty receipt replaces the last batch's: only that one says which quarantine rows must be there
            repair(lake, plan)
            with_readable_head(lake, contract, plan.state, run_id)
            plan = make_plan(lake, contract, run_id, limits)
    if plan is None:
        return None
    with dropped_on_failure(lake, plan.attempt):
        with watch("branch"):
            made = open_branch(lake, plan.attempt)
        try:
            return _stage_and_publish(lake, plan, made, watch)
        except BaseException as error:
            with suppress(Exception):
                hold_back(lake, plan.state, plan.ranges, error)
            if isinstance(error, Exception) and not isinstance(error, TidemarkError):
                ceiling = readable_before(lake, contract, plan.ledger, plan.ranges, error)
                if ceiling:
                    raise _PlanAgain(ceiling) from error
            raise


def _stage_and_publish(lake: Lake, plan: Plan, made: frozenset[int], watch: Stopwatch) -> Commit:
    contract = plan.contract
    with watch("stage"):
        decoded = decode(read_ranges(lake, contract, plan.ranges, alone=True), plan.decoding())
        staged = stage(lake, plan, decoded)
    with watch("audit"):
        groups = _unwritten(staged, plan, decoded)
        _cut_before_uncovered(lake, plan, groups)
        counts = audit(lake, staged, groups, epoch=plan.ledger.epoch, ranges=plan.ranges)
        _require_no_flood(lake, plan, counts, groups)
    quality = dict(staged.evidence.rules)
    if plan.staged_rules:
        with watch("quality"):
            quality |= judge_stage(lake, plan, staged)
    with watch("quarantine"):
        repair(lake, plan)
        change = _publish_quarantine(lake, plan, groups)
    with watch("publish"):
        entry = replace(plan.entry(staged.evidence), unrouted=unrouted(groups), truncates=truncates(groups))
        ledger = plan.ledger.after(plan.ranges, counts, entry)
        mine = made | {staged.snapshot_id}
        try:
            unchanged = partial(require_topic_unchanged, lake, plan)
            receipt = publish(lake, plan.attempt, mine, ledger, unchanged, unless_paused=True)
        except Overtaken:
            if change:
                with suppress(Exception):  # what stays is repaired before the next receipt
                    quarantine.undo(lake, change)
            raise
    with suppress(Exception):  # may fail: the notes are void once the ledger has moved
        forget(lake, plan.state)
    tell_group(lake, contract, ledger.next)
    return Commit(
        table=contract.table,
        snapshot_id=receipt,
        from_=ledger.from_,
        next=ledger.next,
        counts=counts,
        schema_ids=staged.evidence.schema_ids,
        max_timestamp=moment(staged.evidence.max_timestamp),
        seconds=watch.seconds,
        files=staged.files,
        bytes=staged.bytes,
        at=datetime.now(UTC),
        ahead=staged.evidence.ahead,
        watermark=ledger.watermark if plan.event_time else None,
        late=staged.evidence.late,
        quality=quality,
        unrouted=unrouted(groups),
        causes=causes_known(groups, plan.refused),
    )


def _unwritten(staged: Staged, plan: Plan, decoded: DataFrame) -> list[Group]:
    """What was not written; read a second time only where the pass itself could not count it by cause."""
    if staged.evidence.clean:
        return []
    found = groups_from_counts(staged.evidence, plan.ranges)
    return second_look(decoded) if found is None else found


def _cut_before_uncovered(lake: Lake, plan: Plan, groups: list[Group]) -> None:
    """Cut the batch before records that the table does not cover.

    Look again when there were records of a schema that the registry has learnt since, or that the plan had left out.

    Raises:
        Stopped: such a record is the very next one.
    """
    if found := _ids_placed(lake, plan, unknown_ids(groups)):
        raise _PlanAgain({}, found)
    offenders = first_offenders(groups)
    if not offenders:
        return
    if all(offenders.get(p) == each.start for p, each in plan.ranges.items()):
        ids = sorted({g.schema_id for g in groups if g.fate == "uncovered" and g.schema_id is not None})
        parked = plan_evolution(plan.contract, plan.state, plan.schemas)
        why = "; ".join(f"schema id {i}: {plan.why_held(parked, i)}" for i in ids)
        next_ids = {
            g.schema_id for g in groups if g.fate == "uncovered" and g.first == offenders[g.partition]
        }
        hopeless = next_ids <= unsupported_ids(plan.contract, plan.state, plan.schemas)
        way_out = way_out_if_unfit(plan.state, plan.schemas, parked)
        raise Stopped(
            "schema_unsupported" if hopeless else "schema_review",
            plan.contract.table,
            f"Plan {parked.id} waits, and with it the records from offsets {offenders} on. {why}"
            + (f". {way_out}" if way_out else ""),
            plan=parked.id,
            topic=plan.contract.topic,
            schema_ids=ids,
            offsets={str(p): o for p, o in offenders.items()},
        )
    raise _PlanAgain(offenders)


def _ids_placed(lake: Lake, plan: Plan, unknown: frozenset[int]) -> frozenset[int]:
    """The `unknown` ids that plan or registry know after all; if there are any, the next pass meets the rest again."""
    if not unknown:
        return unknown
    some = frozenset(sorted(unknown - plan.left_out)[:IDS_ROUTED])
    if some:
        registry = lake.registry(plan.contract.cluster)
        for subject in subjects_of(plan.contract):
            registry.confirm(subject)
    listed = read_schemas(lake, plan.contract, plan.state, some).known
    return unknown & (plan.left_out | (listed - plan.schemas.known))


def _require_no_flood(lake: Lake, plan: Plan, counts: Mapping[int, Counts], groups: list[Group]) -> None:
    """Raises Stopped unless someone has accepted this very batch: `misconfigured` when nothing of it decodes.

    As long as no record was ever written, a single one that does not decode is enough: nothing says yet that the
    contract fits the topic. The next readable record resolves it. Otherwise it takes a flood, to which records that
    the contract or an approval sends to the quarantine do not count.
    """
    contract = plan.contract
    unreadable = nothing_decodes(counts.values(), groups)
    unproven = not any(c.written for c in plan.ledger.totals.values())
    whole = undecided(counts.values(), groups, plan.refused)
    flood = is_flood(whole, contract.quarantine.fail)
    if not (flood or (unreadable and unproven)) or plan.accepted:
        return
    acceptable = BACKFILL not in contract.table_properties  # no contract names what a backfill is loaded into
    causes = exact_causes(lake, plan, [g for g in groups if g.schema_id not in plan.refused])
    raise Stopped(
        "misconfigured" if unreadable else "quarantine_flood",
        contract.table,
        (
            f"None of {whole.read} records can be read as {reading_of(contract)}: "
            if unreadable
            else f"{whole.quarantined} of {whole.read} records, above {contract.quarantine.fail:.1%}: "
        )
        + ", ".join(f"{cause} {n}" for cause, n in sorted(causes.items()))
        + (other_messages(lake, plan, causes) if acceptable else "")
        + (_UNPROVEN.format(table=contract.table) if unreadable and unproven and acceptable else ""),
        topic=contract.topic,
        causes=causes,
        read=whole.read,
    )


def _publish_quarantine(lake: Lake, plan: Plan, groups: list[Group]) -> quarantine.QuarantineCommit | None:
    contract, epoch = plan.contract, plan.ledger.epoch
    expected = sum(g.count for g in groups if g.fate == "quarantined")
    if not expected and not quarantine.leftovers(lake, contract.quarantine_table, epoch, plan.ranges):
        return None
    found = lake.state(contract.table).head
    # the rows of these offsets are someone else's by now, and so is their quarantine
    if found != plan.state.head:
        raise Overtaken(contract.table, plan.state.head or 0, found)
    quarantine.ensure(lake, contract)
    rows = quarantined_rows(lake, plan, groups) if expected else None
    return quarantine.replace_within(
        lake, contract.quarantine_table, rows, epoch=epoch, ranges=plan.ranges, expected=expected
    )
