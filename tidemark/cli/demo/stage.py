"""Everything that `demo` and `dev` run on: the embedded stack and Dagster, brought up, and taken down behind them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import psutil
from rich.console import Console

from tidemark.cli.dagster_services import DagsterServices
from tidemark.engine.config.configuration import Configuration, load_from_environment, places
from tidemark.services.progress import on_console
from tidemark.services.stack import Stack


@dataclass(frozen=True, slots=True)
class Stage:
    """What is up: the stack (None: the platform file names other services) and Dagster."""

    configuration: Configuration
    dagster: DagsterServices
    stack: Stack | None

    def memory(self) -> int:
        """Resident bytes of all processes, this one included."""
        mains = [psutil.Process()]
        if self.stack:
            pids = [pid for pid in self.stack.status()["processes"].values() if pid]
            mains += [psutil.Process(pid) for pid in pids]
        family = [each for main in mains[1:] for each in (main, *main.children(recursive=True))]
        return sum(_resident(each) for each in [mains[0], *family, *self.dagster.processes()])


@contextmanager
def stage(console: Console) -> Iterator[Stage]:
    """Bring everything up; when the block ends, however it ends, nothing that was started here runs on.

    Raises:
        ConfigurationError, ServiceError.
    """
    signal.signal(signal.SIGTERM, _as_interrupt)
    found = places(os.environ)
    stack = Stack(found.home) if load_from_environment().platform.embedded else None
    dagster = DagsterServices(found)
    ours = stack is not None and not all(stack.status()["processes"].values())
    try:
        if stack:
            with on_console(console) as show:
                stack.up(show)
        with console.status("Dagster: code server, webserver, daemon"):
            dagster.up()
        yield Stage(load_from_environment(), dagster, stack)
    finally:
        patient = signal.signal(signal.SIGINT, signal.SIG_IGN)
        console.print("Stopping …", style="dim")
        dagster.down()
        if stack and ours:
            stack.down()
        signal.signal(signal.SIGINT, patient)
        console.print(f"Nothing runs any more. The data stays in {found.home}.", style="dim")


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
