"""The verb `backfill`: history into a shadow, window by window, beside the live ingest; then one commit, or nothing.

Repeating the command goes on where it stopped. The shadow says what is being loaded, its ledger how far, and the
table's own receipts whether it was published: a process may die on any line.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.naming import QUARANTINE, SHADOW
from tidemark.domain.errors import Refused, Stopped
from tidemark.domain.ledger.backfill import BACKFILL, CUTOVER, Backfill, Cutover, Source, parse_source
from tidemark.domain.ledger.offsets import OffsetRange, total, waiting
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.snapshots import made_at
from tidemark.engine.access.table_state import TableState
from tidemark.engine.faults import pause_point
from tidemark.engine.operate.backfill.abort import abort, abort_logged_late, forget_abort
from tidemark.engine.operate.backfill.compare import Compared, compare_windows
from tidemark.engine.operate.backfill.cutover import (
    attempt_cutover,
    cutover_id,
    published,
    require_uncorrected,
)
from tidemark.engine.operate.backfill.files import readable
from tidemark.engine.operate.backfill.hold import hold, let_go
from tidemark.engine.operate.backfill.load import begin, load_records, load_rows
from tidemark.engine.operate.backfill.pace import Pace
from tidemark.engine.operate.backfill.plan import (
    Asked,
    Work,
    check_elsewhere,
    opened_again,
    other_files,
    require_same_rules,
    require_shadow,
    rows_beside,
    source_of,
    work_of,
)
from tidemark.engine.operate.backfill.rules import RULES_REMEDY, judge_copied, told_rules
from tidemark.engine.operate.backfill.shadow import (
    Window,
    drop_shadow,
    misfit,
    shadow_contract,
    shadow_rows,
    source_contract,
    under_way,
    windows,
)
from tidemark.engine.operate.backfill.source import all_rows, in_range, state_now
from tidemark.engine.schema.evolve import value_columns
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.lease import existing
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.properties import set_properties
from tidemark.engine.table.races import until_not_overtaken
from tidemark.engine.table.settle import settle
from tidemark.engine.table.unlogged import log_missing_acts

LISTED = 1_000
"""Windows whose figures go into the operations log; the others are counted there."""


def backfill(lake: Lake, contract: Contract, asked: Asked, signature: Signature) -> Operation:
    """Load, compare, and with `cutover` publish; or abort.

    Raises:
        Refused: it would lose, double or leave out something, or another backfill is under way.
        Stopped, Outage: the table, the topic or a service stands in the way; repeat the command.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        asked.require_sense(contract.table)
        if not signature.dry_run:
            log_missing_acts(lake, contract.table)
        target = lake.state(contract.table)
        if target.ledger is None:
            raise unloaded(lake, contract.table)
        source = parse_source(asked.source, contract.cluster)
        if source == Source("topic", contract.topic, contract.cluster):
            source = Source()  # named or not: as a source of its own its rows would be there twice
        found = under_way(lake, contract)
        late = abort_logged_late(lake, contract, target, signature) if found is None else None
        if asked.abort and late is not None:
            return late
        if asked.abort:
            told, after = abort(lake, contract, source, found, asked, signature), target.head
        elif found is None and (done := _done(lake, contract, target, source, asked)) is not None:
            told, after = {**done, "step": "cutover", "already_there": True}, target.head
        else:
            with _readable(source_of(contract, found[1]) if found else source):
                told, after = _load_or_cut_over(lake, contract, target, source, found, asked, signature)
        operation = log_operation(
            lake,
            signature,
            "backfill",
            contract.table,
            told,
            target.head,
            after,
        )
        if not signature.dry_run:
            forget_abort(lake, contract)
        return operation


def _readable(source: Source) -> AbstractContextManager[None]:
    return readable(source.name) if source.kind == "parquet" else nullcontext()


def _done(
    lake: Lake, contract: Contract, target: TableState, source: Source, asked: Asked
) -> dict[str, Any] | None:
    """The cutover that this very command has published before, by this very contract, unless it was rolled back.

    Where the source's rows are others since, the command is another one.
    """
    text = target.properties.get(CUTOVER)
    if not (asked.cutover and text):
        return None
    cutover = Cutover.model_validate_json(text)
    narrowed = bool(asked.source or asked.since or asked.until)
    same = (
        cutover.contract == contract.digest
        and (cutover.source == str(source) or not narrowed)
        and asked.since in {None, cutover.since}
        and asked.until in {None, cutover.until}
        and asked.time_column in {"", cutover.time_column}
    )
    if not same or published(lake, contract, cutover.batch_id) is None:
        return None
    if narrowed and state_now(lake, source) not in {None, cutover.source_state}:
        return None
    return {"source": cutover.source, "cutover": cutover.model_dump(mode="json")}


def _load_or_cut_over(
    lake: Lake,
    contract: Contract,
    target: TableState,
    source: Source,
    found: tuple[TableState, Backfill] | None,
    asked: Asked,
    signature: Signature,
) -> tuple[dict[str, Any], int | None]:
    work = work_of(lake, contract, target, source, found, asked)
    receipt = published(lake, contract, cutover_id(contract, work.shadow)) if found else None
    if receipt is not None and signature.dry_run:
        return {**work.told, "step": "cutover", "receipt": receipt or None, "resumes": True}, target.head
    if receipt is not None:  # the source may have gone since
        return _finished(lake, work, receipt, signature), receipt or target.head
    require_same_rules(work)
    if found:
        require_uncorrected(lake, work)
        work = opened_again(lake, work)
    check_elsewhere(lake, work)
    if signature.dry_run:
        shadow_state = found[0] if found and asked.cutover else None
        seen = (
            _told_of_load(lake, work) if shadow_state is None else _told_of_cutover(lake, work, shadow_state)
        )
        return {**work.told, **seen, "resumes": found is not None}, target.head
    loads = found is None or any(_left(work, found[0]).values())
    read_as = source_contract(lake, contract, work.source) if loads else contract
    shadow = shadow_contract(read_as, work.target, work.plan, asked.max_records)
    uuid = until_not_overtaken(contract, partial(begin, lake, work, shadow, signature.run_id))
    work = replace(work, shadow=uuid)
    hold(lake, contract, work.source, work.plan, asked.pace.say)
    loaded_now = _load(lake, work, shadow, signature.run_id, asked.pace)
    work = replace(work, target=lake.state(contract.table))  # it may have grown while this was loaded
    seen = _compared_and_judged(lake, work, publish=asked.cutover)
    told = {**work.told, "loaded_now": loaded_now, **seen}
    if not asked.cutover:
        left = _left(work, lake.state(shadow.table))
        return {**told, **left, "step": "load"}, target.head
    receipt = until_not_overtaken(contract, partial(_publish, lake, work, signature))
    return {**told, **_finished(lake, work, receipt, signature)}, receipt


def _told_of_load(lake: Lake, work: Work) -> dict[str, Any]:
    opened, plan = work.opened, work.plan
    beside = {} if work.source.kind == "own" else rows_beside(lake, work)  # that dry run needs no Spark
    told = {"step": "plan", **beside}
    if opened is None:
        return {**told, "offsets_in_all": total(plan.ranges)}
    rules = judge_copied(lake, work, all_rows(opened, work.target, work.source, plan))
    counted = in_range(opened, plan).rows if work.rows is None else work.rows
    return {**told, "rows": counted, **told_rules(rules)}


def _told_of_cutover(lake: Lake, work: Work, shadow: TableState) -> dict[str, Any]:
    """What a cutover would publish: what is loaded, beside what it would replace, and how much is to be loaded first.

    Raises:
        Refused: as the cutover would.
    """
    return {"step": "cutover", **_left(work, shadow), **_compared_and_judged(lake, work, publish=True)}


def _compared_and_judged(lake: Lake, work: Work, *, publish: bool) -> dict[str, Any]:
    """What is loaded, beside what it would replace; and what comes next, unless it is published now.

    Raises:
        Refused: the copy is not what the source holds; with `publish` whatever else hinders a cutover.
    """
    loaded, contract = windows(lake, work.contract.table + SHADOW), work.contract
    misfits = _hindrance(lake, work)
    told: dict[str, Any] = {"hinders": misfits} if misfits else {}
    remedy = _remedy(work) if misfits else RULES_REMEDY
    compared = [] if misfits else _compared(lake, work, loaded)
    if loaded and not misfits and not work.source.records:
        told = told_rules(judge_copied(lake, work, shadow_rows(lake, contract, work.target, work.plan.epoch)))
    if publish and "hinders" in told:
        raise _unpublishable(work, told["hinders"], remedy)
    cutover = f"tidemark backfill {contract.table} --cutover"
    then = f"{remedy}, then {cutover}" if "hinders" in told else cutover
    seen = {**_summary(compared, loaded), **rows_beside(lake, work), **told}
    return seen if publish else {**seen, "next_step": then}


def _left(work: Work, shadow: TableState) -> dict[str, int]:
    """How much is still to be loaded before it can be published."""
    following = {**work.plan.start, **(shadow.ledger.next if shadow.ledger else {})}
    kind = "offsets" if work.source.records else "windows"
    return {f"{kind}_left": total(waiting(following, work.plan.end))}


def _hindrance(lake: Lake, work: Work) -> str:
    """Why loaded rows do not fit the table: schemas that it does not know yet. Empty when they do."""
    shadow = lake.state(work.contract.table + SHADOW, ledger=False)
    return misfit(value_columns(shadow), value_columns(work.target), work.contract.table)


def _remedy(work: Work) -> str:
    table = work.contract.table
    if work.source.kind == "own":
        return f"tidemark run {table} takes newer schemas, tidemark plan {table} names what waits for an approval"
    return f"let {table} have these columns by its own topic's schema"


def _unpublishable(work: Work, why: str, remedy: str) -> Refused:
    table = work.contract.table
    return Refused(
        f"{table}{SHADOW} is loaded and stays, but cannot be published: {why}",
        next_step=f"{remedy}; then repeat the command, or --abort",
        table=table,
    )


def _compared(lake: Lake, work: Work, loaded: list[Window]) -> list[Compared]:
    """Raises Refused when what was copied is not what the source holds."""
    compared = compare_windows(lake, work, loaded)
    if work.plan.digest and state_now(lake, work.source) != work.plan.digest:
        raise other_files(work)
    wrong = [each.told for each in compared if work.opened is not None and not each.equal]
    if wrong:
        raise Refused(
            f"{len(wrong)} windows are not what {work.source} holds: did it change meanwhile?",
            next_step=f"tidemark backfill {work.contract.table} --abort, then anew",
            table=work.contract.table,
            windows=wrong[:10],
        )
    return compared


def _load(lake: Lake, work: Work, shadow: Contract, run_id: str, pace: Pace) -> int:
    if work.opened is not None:
        return load_rows(lake, work, shadow, run_id, pace)
    goals = [work.plan.end]
    if work.source.kind == "own" and work.target.ledger is not None:
        # no window straddles the first load: what lies before it was not counted yet
        first = work.target.ledger.start
        goals.insert(
            0, {p: min(end, max(first.get(p, 0), work.plan.start[p])) for p, end in work.plan.end.items()}
        )
    return load_records(lake, work, shadow, goals, run_id, pace)


def _summary(compared: list[Compared], loaded: list[Window]) -> dict[str, Any]:
    return {
        "rows": sum(c.written for each in loaded for c in each.counts.values()),
        "windows_equal": sum(each.equal is True for each in compared),
        "windows_different": sum(each.equal is False for each in compared),
        "windows": [each.as_json() for each in compared[:LISTED]],
    }


def _publish(lake: Lake, work: Work, signature: Signature) -> int:
    there = published(lake, work.contract, cutover_id(work.contract, work.shadow))
    if there is not None:
        return there
    shadow = lake.state(work.contract.table + SHADOW)
    require_shadow(work, shadow)
    _require_whole(work, shadow)
    loaded = windows(lake, shadow.table)
    _require_quarantine(lake, shadow.table, loaded)
    return attempt_cutover(lake, work, loaded, signature)


def _require_whole(work: Work, shadow: TableState) -> None:
    """Raises Refused unless just the range is loaded: a cutover would leave out the rest of it for good."""
    left = _left(work, shadow)
    if any(left.values()):
        raise Refused(
            f"the backfill of {work.contract.table} is not loaded to its end: an open transaction of a producer holds "
            "back what is left",
            next_step="end the transaction (kafka-transactions.sh find-hanging) and repeat the command, or --abort",
            table=work.contract.table,
            **left,
        )
    ledger = shadow.ledger
    there = ledger and {p: OffsetRange(ledger.start.get(p, 0), ledger.next[p]) for p in work.plan.ranges}
    if there != work.plan.ranges:
        raise Refused(
            f"{shadow.table} was loaded with another range than its property {BACKFILL} says",
            next_step=f"tidemark backfill {work.contract.table} --abort, then anew",
            table=work.contract.table,
        )


def _require_quarantine(lake: Lake, shadow: str, loaded: list[Window]) -> None:
    """Raises Refused when the quarantined records of the load are gone: an abort that died drops them first."""
    quarantined = sum(counts.quarantined for each in loaded for counts in each.counts.values())
    table, place = shadow.removesuffix(SHADOW), shadow + QUARANTINE
    if quarantined and not lake.catalog.table_exists(place):
        raise Refused(
            f"{place} is gone, with {quarantined} quarantined records of the backfill: an abort has begun to drop it",
            next_step=f"tidemark backfill {table} --abort, then anew",
            table=table,
        )


def _finished(lake: Lake, work: Work, receipt: int, signature: Signature) -> dict[str, Any]:
    """Everything behind a published receipt; carried out again without harm."""
    pause_point("dropping")
    settle(lake, work.contract, lake.state(work.contract.table).ledger)
    cutover = _cutover(lake, work, receipt, signature)
    let_go(lake, work.contract, work.source)
    drop_shadow(lake, work.contract)
    told = {**work.told, "step": "cutover", "cutover": cutover.model_dump(mode="json")}
    return {**told, "receipt": receipt or None}


def _cutover(lake: Lake, work: Work, receipt: int, signature: Signature) -> Cutover:
    """What the table says of it; said now where the process died between receipt and property (format 3)."""
    name = work.contract.table
    metadata, batch = existing(lake, name).metadata, cutover_id(work.contract, work.shadow)
    text = metadata.properties.get(CUTOVER)
    said = Cutover.model_validate_json(text) if text else None
    if said is not None and said.batch_id == batch:
        return said
    snapshot = metadata.snapshot_by_id(receipt)
    if snapshot is None:
        raise Stopped("failed", name, f"Receipt {receipt} of the cutover was expired in that moment.")
    rows = sum(c.written for w in windows(lake, name + SHADOW) for c in w.counts.values())
    said = work.cutover(signature, batch, rows, made_at(snapshot))
    set_properties(lake, work.contract.table, {CUTOVER: said.model_dump_json()})
    return said
