"""What the stack says while it works, and how a terminal shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

Step = Literal["stack", "download", "kafka", "registry", "spark"]


@dataclass(frozen=True, slots=True)
class Event:
    """One piece of news; `done` and `total` are bytes while downloading, else 0."""

    step: Step
    text: str
    done: int = 0
    total: int = 0
    finished: bool = False


OnProgress = Callable[[Event], None]


def silent(_event: Event) -> None:
    """For programs that do not care."""


@contextmanager
def on_console(console: Console) -> Iterator[OnProgress]:
    """One line per step; a terminal gets moving bars, a log file one line per change."""
    if not console.is_interactive:
        yield _as_lines(console)
        return
    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks: dict[Step, TaskID] = {}

        def show(event: Event) -> None:
            if event.step not in tasks:
                tasks[event.step] = bars.add_task(event.step, total=None, text="")
            total = event.total or (1 if event.finished else None)
            done = event.done if event.total else int(event.finished)
            bars.update(tasks[event.step], total=total, completed=done, text=event.text)

        yield show


def _as_lines(console: Console) -> OnProgress:
    said: dict[Step, tuple[str, int]] = {}

    def show(event: Event) -> None:
        tenth = 10 * event.done // event.total if event.total else 0
        news = ("", tenth) if event.total and not event.finished else (event.text, 0)
        if said.get(event.step) != news:
            said[event.step] = news
            console.print(f"{event.step:<9} {event.text}", highlight=False)

    return show
