"""`tidemark run --dry-run`: what a run would read, as the catalog and Kafka tell it; Spark and Dagster may be down."""

import os
from collections.abc import Mapping, Sequence

import typer
from rich.table import Table as RichTable

from tidemark.cli.border import FINDING
from tidemark.cli.dagster_records import hints
from tidemark.cli.output import console, number, print_json, show_error, state_text
from tidemark.cli.status import with_hints
from tidemark.cli.unrun import OutcomeJson, as_append, as_outcome, unless_paused
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.offsets import Offsets, total, waiting
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked, translated
from tidemark.engine.config.configuration import places
from tidemark.engine.look import sightings
from tidemark.engine.look.status import Facts, Status
from tidemark.engine.look.tables import judge_all, look
from tidemark.engine.look.upserts import upsert_statuses
from tidemark.engine.merge.pair import read_pair
from tidemark.engine.table.starting_offsets import starting_offsets


def foretell(
    lake: Lake, contracts: Sequence[Contract], upserts: Mapping[str, UpsertTable], *, as_json: bool
) -> None:
    """Print one outcome per table, with where a run would begin and end; exit code 1 when any is stopped."""
    outcomes = _foreseen(lake, contracts, upserts)
    if as_json:
        print_json(outcomes)
    else:
        _show(outcomes)
    if any(each["error"] for each in outcomes):
        raise typer.Exit(FINDING)


def _foreseen(
    lake: Lake, contracts: Sequence[Contract], upserts: Mapping[str, UpsertTable]
) -> list[OutcomeJson]:
    home = places(os.environ).home
    run = {each.table: each for each in contracts}
    wanted = run | {each.append.table: each.append for each in upserts.values()}
    facts = with_hints(lake, look(lake, list(wanted.values()), sightings.read(home)), home)
    statuses = {each.table: each for each in judge_all(lake, facts)}
    appends = {each.contract.table: _of_append(lake, each, statuses[each.contract.table]) for each in facts}
    merged = upsert_statuses(
        lake,
        upserts.values(),
        lambda late: hints(home, late),
        lambda unmade: [statuses[each.table] for each in unmade],
    )
    return [
        *(appends[table] for table in run),
        *(
            _of_upsert(lake, each, stands, appends[each.append.table], runs=each.append.table in run)
            for each, stands in zip(upserts.values(), merged, strict=True)
        ),
    ]


def _of_append(lake: Lake, facts: Facts, status: Status) -> OutcomeJson:
    end: Offsets = facts.topic.end if facts.topic else {}
    if facts.table and facts.table.ledger:
        begin = {**dict.fromkeys(end, 0), **facts.table.ledger.next}
        return _outcome(status, facts.contract, begin, end)
    if facts.topic is None or facts.table is None:
        return _outcome(status, facts.contract, {}, {})
    contract = facts.contract
    try:
        with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
            first = starting_offsets(lake.kafka(contract.cluster), contract, facts.topic)
    except (Stopped, Outage) as fault:
        told = _outcome(status, contract, {}, {})
        other = told["error"] and told["state"] != fault.state
        return told if other else {**told, "state": fault.state, "error": fault.as_json()}
    return _outcome(status, contract, first, end)


def _of_upsert(
    lake: Lake, current: UpsertTable, status: Status, append: OutcomeJson, *, runs: bool
) -> OutcomeJson:
    """`runs`: whether the append table is run before, so that what it brings is merged too."""
    pair, _ = asked(lambda: read_pair(lake, current))
    if pair is None or (pair.append is None and pair.state.paused):
        return _outcome(status, current.contract, {}, {})
    if pair.append is None:
        reads = {key: append[key] for key in ("from", "next")} if runs else {}
        return {**as_append(status.table, append), **reads}
    ledger, merged = pair.append.ledger, pair.state.merged
    begin = merged.next if merged and merged.epoch == ledger.epoch else ledger.start
    end = {int(p): o for p, o in append["next"].items()} if runs else ledger.next
    return _outcome(status, current.contract, {p: begin.get(p, 0) for p in end}, end)


def _outcome(status: Status, contract: Contract, begin: Offsets, end: Offsets) -> OutcomeJson:
    """As a run would print it, with nothing done; `end` only of a table that it would read."""
    # a run reads up to what an open transaction holds back, and does not stop for it
    held = status.state == "transaction_open"
    error = None if held else as_outcome(status, contract.cluster)["error"]
    until = begin if error or status.state == "paused" else end
    known = Outcome(
        status.table, status.state, from_=begin, next=until, snapshot_id=status.snapshot_id, error=error
    )
    return unless_paused(known.as_json(), total(waiting(begin, end)))


def _show(outcomes: Sequence[OutcomeJson]) -> None:
    table = RichTable("table", "state", "offsets to read", box=None)
    for each in outcomes:
        count = sum(end - each["from"].get(p, 0) for p, end in each["next"].items())
        table.add_row(each["table"], state_text(each["state"]), number(count))
    out = console()
    out.print(table)
    out.print("Dry run: nothing was read or written.", style="dim")
    errors = (each["error"] for each in outcomes if each["error"])
    for error in {each["message"]: each for each in errors}.values():
        show_error(error["message"], error.get("next_step", ""), error.get("safe", ""))
