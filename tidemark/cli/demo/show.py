"""`tidemark demo` and `tidemark dev`: the stage, the board, and for the demo traffic and tour."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

import tidemark
from tidemark.cli.border import FINDING
from tidemark.cli.demo.board import Board
from tidemark.cli.demo.changes import new_column, parked_change, what_reviewers_see
from tidemark.cli.demo.keys import pressed, single_keys
from tidemark.cli.demo.stage import Stage, in_another_terminal, stage
from tidemark.cli.demo.tour import TABLE, Tour
from tidemark.cli.demo.traffic import Traffic
from tidemark.cli.output import console
from tidemark.domain.errors import Refused
from tidemark.engine.config.configuration import load_from_environment

EVERY = 2.0
REST = 10
"""Times as long as a look had a core: one at hundreds of tables takes a second of it."""
GIB = 1024**3
Step = Callable[[], bool]


def demo(*, script: bool, keep: bool) -> None:
    """Everything from nothing. Without a terminal, or with `script`, the tour runs by itself and may fail."""
    _use_sample_contracts()
    unheeded = ["DAGSTER_HOME"] if os.environ.pop("DAGSTER_HOME", None) else []  # of other work
    out = console()
    alone = script or not (sys.stdin.isatty() and out.is_interactive)
    right = True
    with stage(out) as made:
        traffic = _traffic(made)
        tour = Tour(made, traffic, Board(made.configuration), out)
        try:
            out.print(f"Dagster's UI: [bold]{made.dagster.url}[/]", markup=True)
            _say_where_commands_work(out, *unheeded)
            right = tour.first_rows()
            if alone:
                right = _by_itself(tour, right)
            if keep or not alone:
                _by_keys(tour) if not alone else _wait(made)
        finally:
            traffic.stop()
    if alone and not right:
        raise typer.Exit(FINDING)


def dev() -> None:
    """Stack and Dagster for your own contracts, until Ctrl-C.

    Raises:
        ServiceFailed: one of Dagster's processes is gone; all of it is stopped.
    """
    out = console()
    load_from_environment()
    with stage(out) as made:
        board = Board(made.configuration)
        hint = f"Dagster's UI: {made.dagster.url}   Ctrl-C stops everything; the data stays."
        out.print(hint)
        _say_where_commands_work(out)
        if not made.configuration.contracts:
            out.print(
                "There is no contract yet: write contracts/<topic>.yaml with one line, topic: <topic>, "
                "then press Reload definitions above the asset graph"
            )
        if not out.is_interactive:
            _wait(made)
            return

        def pause() -> None:
            rests = max(1, round(REST * board.cpu / EVERY))
            for _ in range(rests):
                made.dagster.require_alive()
                time.sleep(EVERY)

        with suppress(KeyboardInterrupt):
            _watch(out, board, Counter(), Text(hint), pause)


def _say_where_commands_work(out: Console, *unheeded: str) -> None:
    out.print("The commands that follow work in another terminal, after this:")
    out.print(f"$ {in_another_terminal(*unheeded)}", style="bold cyan", soft_wrap=True)


def _by_itself(tour: Tour, right: bool) -> bool:  # noqa: FBT001
    for step in _steps(tour).values():
        right = right and step()
    tour.console.print(f"\nMemory of all processes: {tour.stage.memory() / GIB:.1f} GiB")
    tour.console.print(
        "All went right." if right else "Something went wrong; see above.",
        style="green" if right else "bold red",
    )
    return right


def _steps(tour: Tour) -> Mapping[str, Step]:
    """By the key that runs them."""
    return {
        "1": tour.rows_by_sql,
        "2": tour.poison,
        "3": tour.kill,
        "4": lambda: new_column(tour),
        "5": lambda: parked_change(tour),
        "6": lambda: what_reviewers_see(tour),
    }


def _by_keys(tour: Tour) -> None:
    """The live table; a key runs a step of the tour, q or Ctrl-C ends it."""
    steps = _steps(tour)
    footer = Text(
        f"Dagster's UI: {tour.stage.dagster.url}\n"
        "1 rows by SQL   2 a poison record   3 kill -9 the run\n"
        "4 a new column  5 a change that waits   6 graph and review pack   q stop"
    )
    chosen: str | None = None

    def key() -> bool:
        nonlocal chosen
        tour.stage.dagster.require_alive()
        chosen = pressed(EVERY)
        return chosen in {*steps, "q"}

    with suppress(KeyboardInterrupt), single_keys():
        while chosen != "q":
            _watch(tour.console, tour.board, tour.traffic.produced, footer, key)
            if chosen and chosen in steps:
                steps[chosen]()


def _watch(
    out: Console, board: Board, produced: Mapping[str, int], footer: Text, over: Callable[[], object]
) -> None:
    """Show the board until `over` says true; it also waits between two looks."""
    with Live(console=out, auto_refresh=False) as live:
        while True:
            board.refresh()
            live.update(board.render(produced, footer, out.height), refresh=True)
            if over():
                return


def _wait(made: Stage) -> None:
    with suppress(KeyboardInterrupt):
        while True:
            made.dagster.require_alive()
            time.sleep(EVERY)


def _traffic(made: Stage) -> Traffic:
    platform = made.configuration.platform
    registry = platform.schema_registry["main"].address
    traffic = Traffic(platform.kafka["main"].client_properties()["bootstrap.servers"], registry)
    traffic.start()
    return traffic


def _use_sample_contracts() -> None:
    """The demo is about the sample topics, on the embedded stack.

    Raises:
        Refused: the sample contracts are not there, or a platform file names other services.
    """
    if "TIDEMARK_CONTRACTS" not in os.environ:
        beside = Path(tidemark.__file__).parent.parent / "contracts"
        os.environ["TIDEMARK_CONTRACTS"] = str(beside if beside.is_dir() else Path("contracts").absolute())
    configuration = load_from_environment()
    if not any(each.table == TABLE for each in configuration.contracts):
        raise Refused(
            "the sample contracts are not here", next_step="run it in a clone of the repository: make demo"
        )
    if not configuration.platform.embedded:
        raise Refused(
            "platform.yaml names services of your own", next_step="tidemark dev, or run the demo elsewhere"
        )
