"""`tidemark compare`: two tables side by side, for the parallel run of a migration."""

from collections.abc import Sequence

import typer
import yaml
from rich.table import Table as RichTable

from tidemark.cli.border import FINDING
from tidemark.cli.contracts import load_contracts
from tidemark.cli.options import asked_time
from tidemark.cli.output import console, number, print_json
from tidemark.engine.access.lake import Lake
from tidemark.engine.config import discovery
from tidemark.engine.verify.compare import compare as compare_tables
from tidemark.engine.verify.comparison import Comparison, Wanted
from tidemark.services.stack import default_home

Asked = tuple[Sequence[str], str, str, str, Sequence[str], int]
"""Keys, by, from, to, ignored columns, size of the sample."""


def compare(table: str, other: str, asked: Asked, *, as_json: bool) -> None:
    """Exit code 1 when they differ."""
    keys, by, since, until, ignore, sample = asked
    wanted = Wanted(tuple(keys), by, asked_time(since), asked_time(until), frozenset(ignore), sample)
    found = compare_tables(Lake(load_contracts()), table, other, wanted, discovery.read(default_home()))
    if as_json:
        print_json(found.as_json())
    else:
        _show(found)
    if not found.equal:
        raise typer.Exit(FINDING)


def _show(found: Comparison) -> None:
    out = console()
    out.print(_sides(found))
    if found.by:
        out.print(_groups(found))
    said = {k: v for k, v in found.columns.as_json().items() if v and k != "compared"}
    closer = {k: v for k, v in found.closer.as_json().items() if v}
    for told in (said, closer):
        if told:
            out.print(yaml.safe_dump(told, sort_keys=False, allow_unicode=True).rstrip())
    how = f"by {', '.join(found.keys)}" if found.keys else "row by row, for no key is known (--key)"
    verdict = "equal" if found.equal else "different"
    out.print(
        f"{found.table.table} and {found.other.table} are {verdict}; compared {how}",
        style="green" if found.equal else "red",
    )


def _sides(found: Comparison) -> RichTable:
    table = RichTable(box=None, pad_edge=False)
    for heading in ("table", "snapshot", "committed", f"newest {found.by}", "rows", "keys", "checksum"):
        table.add_column(heading)
    for side in (found.table, found.other):
        at = side.committed_at.isoformat(timespec="seconds") if side.committed_at else "–"
        figures = (number(side.whole.rows), number(side.whole.keys), side.whole.checksum)
        table.add_row(side.table, str(side.snapshot_id), at, side.newest or "–", *figures)
    return table


def _groups(found: Comparison) -> RichTable:
    """One line per group; equal ones are only counted."""
    table = RichTable(box=None, pad_edge=False)
    for heading in (found.by, "rows", "rows there", "keys", "keys there", "checksum", "checksum there"):
        table.add_column(heading)
    equal = 0
    for group, one, other in found.groups:
        if one == other:
            equal += 1
            continue
        counts = (number(n) for n in (one.rows, other.rows, one.keys, other.keys))
        table.add_row(str(group), *counts, one.checksum, other.checksum)
    table.caption = f"{equal} groups are equal"
    return table
