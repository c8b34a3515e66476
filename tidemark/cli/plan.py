"""`tidemark plan`: what would change about the tables, and its verdict."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

from tidemark.cli.border import FINDING
from tidemark.cli.choice import chosen_both, without_contracts
from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_records import loaded
from tidemark.cli.each_table import each_apart
from tidemark.cli.output import console, print_json, show_error
from tidemark.domain.config.upsert import UpsertTable
from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.preview.foresee import Foresight, foresee, foresee_releases
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.preview.sample import FATES


def plan(tables: Sequence[str], *, sample: int, as_json: bool) -> None:
    """Exit code 1 when something awaits review or cannot be done, or the plan of a table cannot be made now.

    Raises:
        Refused: there is no such table; or no contract, and no table that one has left.
    """
    configuration = load_contracts()
    lake = Lake(configuration)
    nothing = None if tables else without_contracts(configuration)
    contracts, upserts = chosen_both(configuration, tables) if not nothing else ([], {})
    lake.loaded = loaded([*(each.table for each in contracts), *upserts])
    asked: dict[str, Callable[[], Foresight]] = {
        each.table: partial(foresee, lake, each, sample=sample) for each in contracts
    }
    asked |= {table: partial(foresee_upsert, lake, current) for table, current in upserts.items()}
    found, untold = each_apart(asked)
    unknown: list[tuple[str | None, Stopped | Outage]] = list(untold.items())
    try:
        found += [] if tables else foresee_releases(lake)
    except (Outage, Stopped) as failed:
        if nothing:
            raise nothing from failed
        unknown = unknown or [(failed.fields["table"], failed)]
    if nothing and not (found or unknown):
        raise nothing
    if as_json:
        print_json([*(each.as_json() for each in found), *(_unknown(*each) for each in unknown)])
    else:
        _show(found, upserts, sources=bool(tables))
        for _, error in unknown:
            show_error(error.message, error.next_step)
    if unknown or any(each.verdict in {"review", "impossible"} for each in found):
        raise typer.Exit(FINDING)


def _unknown(table: str | None, error: Stopped | Outage) -> Mapping[str, Any]:
    """The shape of `plan --json` for a table whose plan cannot be made now, or for those that no contract names."""
    nothing = Foresight("", "", "nothing", ()).as_json()
    return {**nothing, "table": table, "verdict": None, "error": error.as_json()}


def _show(found: Sequence[Foresight], upserts: Mapping[str, UpsertTable], *, sources: bool) -> None:
    out = console()
    for each in found:
        heading = f"{each.table}: {each.verdict}" + (f", plan {each.plan}" if each.plan else "")
        out.print(heading, style="bold")
        if each.changes:
            out.print(_table(each))
            out.print(f"affects {', '.join(each.affects)}", style="dim")
        for finding in each.findings:
            out.print(f"note: {finding}", style="yellow")
        if each.sample is not None:
            _show_sample(out, each.sample)
        for source, keys in _by_source(each).items() if sources else ():
            out.print(f"{', '.join(keys)}: from {source}", style="dim")
        if each.plan and any(change["verdict"] == "review" for change in each.changes):
            out.print(f"Next: tidemark approve {each.table} {each.plan} --reason …")
        elif each.verdict == "review":  # of rows to come
            out.print(f"Next: tidemark run {upserts[each.table].append.table}")


def _by_source(found: Foresight) -> dict[str, list[str]]:
    """The keys that each file sets; what is in none is built in."""
    by_file: dict[str, list[str]] = {}
    for key, origin in found.origins.items():
        by_file.setdefault(origin.rpartition(":")[0] or origin, []).append(key)
    return by_file


def _table(found: Foresight) -> RichTable:
    table = RichTable(box=None, pad_edge=False)
    for name in ("change", "column", "from", "to", "verdict", "why"):
        table.add_column(name)
    for change in found.changes:
        cells = ("kind", "path", "from", "to", "verdict", "reason")
        table.add_row(*(str(change[cell] or "") for cell in cells))
    return table


def _show_sample(out: Console, sample: Mapping[str, Any]) -> None:
    fates = ", ".join(f"{sample[fate]} {fate}" for fate in FATES if sample[fate])
    out.print(f"the last {sample['records']} records: {fates or 'the topic is empty'}")
    for cause in sample["causes"]:
        where = f"partition {cause['partition']} offset {cause['offset']}"
        out.print(f"  {cause['count']} {cause['cause']}: {cause['detail'] or ''} ({where})")
