"""`tidemark status`: how every table stands, worst first, each line with what to do next."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tidemark.cli.border import FINDING
from tidemark.cli.choice import chosen_both
from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_records import hints, loaded
from tidemark.cli.each_table import each_apart
from tidemark.cli.output import ago, console, number, print_json, show_error, state_text
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import counted
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.states import FINE
from tidemark.domain.times import age
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.config.configuration import places
from tidemark.engine.look import sightings
from tidemark.engine.look.backfills import backfilled
from tidemark.engine.look.quarantined import CauseCount, causes
from tidemark.engine.look.status import Facts, Status, waiting_records
from tidemark.engine.look.tables import hinted, judge_all, look
from tidemark.engine.look.upserts import upsert_statuses
from tidemark.engine.table.absent import seen_table

_SPARE = ("files", "stream", "headroom", "rows", "published", "quarantined")
"""Columns that a narrow terminal goes without, the first ones first; --json has them all."""
NEXT = 30
"""Character columns that the next command needs beside its table; with fewer it has a line of its own."""
_ANY_WIDTH = 10_000


def status(tables: Sequence[str], *, not_fresh: bool, as_json: bool) -> None:
    """Exit code 1 when a table is in any state that is not fine."""
    lake = Lake(load_contracts())
    found = statuses(lake, tables)
    loading = backfilled(lake, [each.table for each in found if each.state != "catalog_down"])
    shown = [each for each in found if each.state != "fresh"] if not_fresh else found
    if as_json:
        under_way = {"backfill_under_way": True}
        print_json([{**each.as_json(), **(under_way if each.table in loading else {})} for each in shown])
    else:
        _show(shown, fresh=sum(each.state == "fresh" for each in found), of=len(found))
        _show_backfills(loading)
    if any(each.state not in FINE for each in found):
        raise typer.Exit(FINDING)


def statuses(lake: Lake, tables: Sequence[str]) -> list[Status]:
    """The status of each table, worst first; Dagster's records are asked about tables that are behind."""
    contracts, upserts = chosen_both(lake.configuration, tables)
    home = places(os.environ).home
    found = statuses_of(lake, contracts, home, ask_dagster=True) if contracts else []
    merged = upsert_statuses(
        lake,
        upserts.values(),
        lambda late: hints(home, late),
        lambda unmade: [*found, *_others(lake, unmade, found, home)],
    )
    return sorted([*found, *merged], key=lambda each: each.gravity)


def _others(lake: Lake, contracts: Sequence[Contract], known: Sequence[Status], home: Path) -> list[Status]:
    """Of those that were not looked at yet: a cluster that does not answer takes its time at every look."""
    tables = {each.table for each in known}
    left = [each for each in contracts if each.table not in tables]
    return statuses_of(lake, left, home, ask_dagster=True) if left else []


def statuses_of(
    lake: Lake, contracts: Sequence[Contract], home: Path, *, ask_dagster: bool = False
) -> list[Status]:
    """Worst first."""
    facts = seen(lake, contracts, home)
    found = judge_all(lake, with_hints(lake, facts, home) if ask_dagster else facts)
    return sorted(found, key=lambda each: each.gravity)


def with_hints(lake: Lake, facts: Sequence[Facts], home: Path) -> list[Facts]:
    """The facts, with what Dagster's records know of tables that are behind."""
    return hinted(lake, facts, hints(home, [each.contract.table for each in facts if _needs_hint(each)]))


def seen(lake: Lake, contracts: Sequence[Contract], home: Path) -> list[Facts]:
    """The facts as of now; their ends are remembered, for the age of what waits."""
    memories = sightings.read(home)
    facts = look(lake, contracts, memories)
    sightings.write(home, {**memories, **{each.contract.table: each.memory for each in facts}})
    return facts


def _needs_hint(facts: Facts) -> bool:
    """Of a table that has caught up, or cannot be seen, the last run has nothing to tell."""
    if facts.table is None or facts.topic is None:
        return False
    return not facts.loaded or bool(waiting_records(facts))


def _show(found: Sequence[Status], *, fresh: int, of: int) -> None:
    out = console()
    if found:
        headings, needed = _fitting(found, out)
        beside = needed + NEXT <= out.width
        out.width = max(out.width, needed)
        out.print(_table(found, headings, with_next=beside))
        for each in found:
            if each.remedy and not beside:
                out.print(f"{each.table}: {each.remedy}", soft_wrap=True)
    out.print(f"{fresh} of {of} fresh", style="dim")
    for each in found:
        if each.unrouted:
            out.print(
                f"{each.table}: of {each.topic} {counted(each.unrouted, 'record')} without a route in `events`"
            )
    weak = [each.table for each in found if each.weak]
    if weak:
        out.print(f"without topic ids, a topic made anew is told by its offsets alone: {', '.join(weak)}")


def _show_backfills(tables: Sequence[str]) -> None:
    for table in tables:
        again = f"tidemark backfill {table}"
        console().print(
            f"{table}: a backfill is under way; {again} goes on with it, --cutover publishes it, --abort drops it"
        )


def _fitting(found: Sequence[Status], out: Console) -> tuple[Sequence[str], int]:
    """The columns that have room beside whole names, and the width that they take without the remedies."""
    unbounded = out.options.update(max_width=_ANY_WIDTH)
    for left_out in range(len(_SPARE) + 1):
        headings = [name for name in _COLUMNS if name not in _SPARE[:left_out]]
        needed = out.measure(_table(found, headings), options=unbounded).maximum
        if needed <= out.width:
            break
    return headings, needed


def _table(found: Sequence[Status], headings: Sequence[str], *, with_next: bool = False) -> RichTable:
    table = RichTable("table", "state", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    for column in table.columns:
        column.no_wrap = True
    if with_next:
        table.add_column("next", overflow="fold")
    for each in found:
        cells = [_COLUMNS[heading](each) for heading in headings]
        table.add_row(each.table, state_text(each.state), *cells, *([Text(each.remedy)] if with_next else ()))
    return table


def _files(each: Status) -> str:
    return number(each.data_files) + (f" +{each.delete_files}" if each.delete_files else "")


_COLUMNS: Mapping[str, Callable[[Status], str]] = {
    "lag": lambda each: number(each.lag_records),
    "behind": lambda each: age(each.lag_seconds),
    "stream": lambda each: ago(each.stream_clock),
    "published": lambda each: ago(each.last_commit),
    "headroom": lambda each: age(each.headroom),
    "rows": lambda each: number(each.rows),
    "files": _files,
    "quarantined": lambda each: number(each.quarantined),
}


def quarantine(tables: Sequence[str], *, as_json: bool) -> None:
    """What lies in quarantine, by table and cause; exit code 1 when a table cannot be seen. Upsert tables have none.

    Raises:
        Stopped, Outage: no table can be seen.
    """
    configuration = load_contracts()
    lake, (contracts, _) = Lake(configuration), chosen_both(configuration, tables)
    lake.loaded = loaded([each.table for each in contracts])
    seen_ones, unknown = each_apart({each.table: partial(_causes, lake, each) for each in contracts})
    if unknown and not seen_ones:
        raise next(iter(unknown.values()))
    found = list(chain.from_iterable(seen_ones))
    if as_json:
        print_json([*(each.as_json() for each in found), *(_unknown(*each) for each in unknown.items())])
    else:
        _show_causes(found)
        for error in unknown.values():
            show_error(error.message, error.next_step)
    if unknown:
        raise typer.Exit(FINDING)


def _causes(lake: Lake, contract: Contract) -> list[CauseCount]:
    with translated(contract.table):
        ledger = seen_table(lake, contract).ledger
        return causes(lake, contract.table, contract.quarantine_table, ledger)


def _unknown(table: str, error: Stopped | Outage) -> Mapping[str, Any]:
    """The shape of `status --quarantine --json` for a table that cannot be seen."""
    return {**CauseCount(table, "").as_json(), "cause": None, "error": error.as_json()}


def _show_causes(found: Sequence[CauseCount]) -> None:
    if not found:
        console().print("Nothing in quarantine.")
        return
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("table", "cause", "waiting", "resolved", "first", "last", "schema ids"):
        table.add_column(heading, overflow="fold")
    for each in found:
        ids = ", ".join(map(str, sorted(each.schema_ids)))
        row: list[Any] = [each.table, each.cause, number(each.count), number(each.resolved)]
        table.add_row(*row, _minute(each.first_seen), _minute(each.last_seen), ids)
    console().print(table)


def _minute(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}Z" if at else "–"
