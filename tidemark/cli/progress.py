"""Progress of a run as its tables show it: committed offsets on the way to the end offsets seen at start."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from tidemark.cli.output import console
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import TidemarkError
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.engine.access.lake import Lake

SHOWN = 12
"""Tables with a bar of their own; of more, the first so many."""
EVERY = 1.0


@contextmanager
def watching(configuration: Configuration, contracts: Sequence[Contract], *, as_json: bool) -> Iterator[None]:
    """Bars on a terminal while the block works; nothing elsewhere."""
    err = console(as_json=True)
    if as_json or not err.is_interactive:
        yield
        return
    over = Event()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bars:
        watcher = Thread(
            target=_watch, args=(Lake(configuration), contracts[:SHOWN], bars, over), daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(2 * EVERY)


def _watch(lake: Lake, contracts: Sequence[Contract], bars: Progress, over: Event) -> None:
    tasks = {each.table: bars.add_task(each.table, total=None) for each in contracts}
    goals: dict[str, tuple[dict[int, int], int]] = {}
    while not over.wait(EVERY if goals else 0):
        for contract in contracts:
            with suppress(TidemarkError):  # the run itself says what is wrong
                state = lake.state(contract.table)
                committed = dict(state.ledger.next) if state.ledger else {}
                if contract.table not in goals:
                    topic = lake.topic(contract)
                    first = committed or dict(topic.log_start)
                    goals[contract.table] = dict(topic.end), total(waiting(first, topic.end))
                goal, whole = goals[contract.table]
                left = total(waiting(committed, goal)) if committed else whole
                bars.update(
                    tasks[contract.table], total=max(whole, 1), completed=whole - left if whole else 1
                )
        if len(goals) < len(contracts) and over.wait(EVERY):
            return
