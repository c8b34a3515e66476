"""`tidemark reconcile`: every committed record is in exactly one place, or the offsets where that is not so."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from tidemark.cli.border import FINDING
from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_records import loaded
from tidemark.cli.output import console, number, print_json
from tidemark.domain.config.units import counted
from tidemark.engine.access.lake import Lake
from tidemark.engine.verify.marks import Count, Runs
from tidemark.engine.verify.reconcile import OnProgress, Reconciliation
from tidemark.engine.verify.reconcile import reconcile as compare

SHOWN = 5
"""Runs of offsets that a line names; the rest is counted."""
_EXPLAINED = {
    True: "compacted since",
    False: "never committed, or deleted",
    None: "compacted since, or never committed: the topic's configuration could not be read",
}
"""Why Kafka has no record for a row: by whether the topic is compacted."""
_UNTOLD = {
    True: "compaction takes skipped records, too, which receipts count",
    False: "the receipts that tell how many were skipped have expired, or count records too that are gone by now",
    None: "the topic's configuration could not be read, and of a compacted one receipts count more than there is",
}
"""Why receipts do not tell how many were skipped."""


def reconcile(table: str, *, as_json: bool) -> None:
    """Exit code 1 on any gap or duplicate, and on rows that Kafka never committed or that lie beyond the ledger."""
    configuration = load_contracts()
    contract = configuration.contract(table)
    lake = Lake(configuration)
    lake.loaded = loaded([table])
    with _progress(as_json=as_json) as show:
        found = compare(lake, contract, show)
    if as_json:
        print_json([each.as_json(compacted=found.compacted) for each in found.counts])
    else:
        console().print(_counts(found))
    _remarks(found, contract.topic)
    if not found.sound:
        raise typer.Exit(FINDING)


@contextmanager
def _progress(*, as_json: bool) -> Iterator[OnProgress]:
    err = console(as_json=True)
    if as_json or not err.is_interactive:
        yield lambda _done, _all: None
        return
    columns = (
        TextColumn("counting"),
        BarColumn(bar_width=40),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, whole: bars.update(task, completed=done, total=whole)


def _counts(found: Reconciliation) -> RichTable:
    table = RichTable(box=None, pad_edge=False)
    for heading in (
        "partition",
        "from",
        "to",
        "Kafka records",
        "rows",
        "quarantined",
        "tombstones",
        "skipped",
    ):
        table.add_column(heading, justify="right")
    table.add_column("gaps")
    table.add_column("duplicates")
    rare = [*(["never committed"] if found.never_committed else []), *(["beyond"] if found.beyond else [])]
    for heading in rare:
        table.add_column(heading)
    for each in found.counts:
        told = {"never committed": _told(each.unknown), "beyond": number(each.beyond)}
        runs = _told(each.gaps), _told(each.duplicates), *(told[heading] for heading in rare)
        table.add_row(str(each.partition), *map(number, _numbers(each)), *runs)
    return table


def _numbers(each: Count) -> tuple[int, ...]:
    return (
        each.start,
        each.end,
        each.kafka_records,
        each.rows,
        each.quarantined,
        each.tombstones,
        each.skipped,
    )


def _told(runs: Runs) -> str:
    """Half-open runs as the offsets they hold; 0 is one of these."""
    named = [f"{a}" if b == a + 1 else f"{a}–{b - 1}" for a, b in runs[:SHOWN]]
    more = [f"and {len(runs) - SHOWN} more"] if len(runs) > SHOWN else []
    return ", ".join([*named, *more]) or "–"


def _remarks(found: Reconciliation, topic: str) -> None:
    """On stderr, for --json has no place for them."""
    say = console(as_json=True)
    for each in found.counts:
        if each.start > found.start.get(each.partition, each.start):
            say.print(
                f"partition {each.partition}: Kafka no longer has offsets {found.start[each.partition]} to "
                f"{each.start - 1}; rows below {each.start} were looked through for duplicates only"
            )
        if each.doubtful:
            say.print(
                f"partition {each.partition}: {counted(each.doubtful, 'record')} without a row, skipped or lost: "
                f"{_UNTOLD[found.compacted]}"
            )
        if each.unknown:
            why = _EXPLAINED[found.compacted]
            say.print(
                f"partition {each.partition}: rows without a record in Kafka ({why}): {_told(each.unknown)}"
            )
    for gap in found.accepted:
        say.print(f"accepted gap: partition {gap.partition}, offsets {gap.start} to {gap.end - 1}")
    if found.beyond:
        say.print(f"{found.beyond} rows lie beyond the ledger", style="red")
    gaps, twice = (sum(b - a for each in found.counts for a, b in kind(each)) for kind in (_gaps, _twice))
    say.print(
        f"{found.table}, epoch {found.epoch}: {counted(gaps, 'gap')}, {counted(twice, 'duplicate')}; "
        f"{counted(found.records, 'record')} in "
        f"{found.seconds:.1f} s, {found.records / max(found.reading, 0.001):,.0f}/s from Kafka",
        style="green" if found.sound else "red",
    )
    lost = next(((each.partition, *each.gaps[0]) for each in found.counts if each.gaps), None)
    if lost:
        partition, first, upto = lost
        again = f"tidemark replay {found.table} --partition {partition} --from {first} --to {upto} --reason …"
        say.print(
            f"Next: tidemark where {topic} {partition}:{first} tells who removed the first of them; if nobody meant "
            f"to, {again} reads them again",
            soft_wrap=True,
        )


def _gaps(each: Count) -> Runs:
    return each.gaps


def _twice(each: Count) -> Runs:
    return each.duplicates
