"""`tidemark plan`: what would change about the tables, and its verdict."""

from collections.abc import Sequence

import typer
from rich.table import Table as RichTable

from tidemark.cli.border import FINDING
from tidemark.cli.choice import chosen
from tidemark.cli.output import console, print_json
from tidemark.engine.configuration import load_from_environment
from tidemark.engine.foresee import Foresight, foresee
from tidemark.engine.lake import Lake


def plan(tables: Sequence[str], *, as_json: bool) -> None:
    """Exit code 1 when something awaits review or cannot be done."""
    configuration = load_from_environment()
    lake = Lake(configuration)
    found = [foresee(lake, contract) for contract in chosen(configuration, tables)]
    if as_json:
        print_json([each.as_json() for each in found])
    else:
        _show(found)
    if any(each.verdict in {"review", "impossible"} for each in found):
        raise typer.Exit(FINDING)


def _show(found: Sequence[Foresight]) -> None:
    out = console()
    for each in found:
        heading = f"{each.table}: {each.verdict}" + (f", plan {each.plan}" if each.plan else "")
        out.print(heading, style="bold", markup=False)
        if not each.changes:
            continue
        table = RichTable(box=None, pad_edge=False)
        for name in ("change", "column", "from", "to", "verdict", "why"):
            table.add_column(name)
        for change in each.changes:
            cells = ("kind", "path", "from", "to", "verdict", "reason")
            table.add_row(*(str(change[cell] or "") for cell in cells))
        out.print(table)
        if each.verdict == "review":
            out.print(f"Next: tidemark approve {each.table} {each.plan} --reason …", markup=False)
