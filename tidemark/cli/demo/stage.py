"""Everything that `demo` and `dev` run on: the embedded stack and Dagster, brought up, and taken down behind them."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from tidemark.cli.contracts import load_contracts
from tidemark.cli.dagster_services import DagsterServices
from tidemark.cli.demo.hold import held
from tidemark.cli.in_dagster import dagster_instance, require_our_settings
from tidemark.domain.config.configuration import Configuration
from tidemark.engine.config.configuration import load_from_environment, places
from tidemark.services.progress import on_console
from tidemark.services.stack import Stack

SETTINGS = {"TIDEMARK_HOME": ".tidemark", "TIDEMARK_CONTRACTS": "contracts", "TIDEMARK_CONFIG": None}
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        Refused: another demo or dev holds the home, or DAGSTER_HOME names a Dagster for other work.
        ConfigurationError, ServiceError.
    """
    found = places(os.environ)
    with held(found.home.absolute()):
        with dagster_instance() as instance:
            require_our_settings(instance)
        stack = Stack(found.home) if load_from_environment().platform.embedded else None
        dagster = DagsterServices(found)
        ours = stack is not None and not all(stack.status()["processes"].values())
        try:
            if stack:
                with on_console(console) as show:
                    stack.up(show)
            load_contracts()  # Dagster's definitions know of topics what was seen last
            with console.status("Dagster: code server, webserver, daemon"):
                dagster.up()
            yield Stage(load_from_environment(), dagster, stack)
        finally:
            with _undisturbed():
                _say(console, "Stopping …")
                try:
                    dagster.down()
                finally:
                    if stack and ours:
                        stack.down()
                _say(console, f"{_left(stack, ours=ours)} The data stays in {found.home}.")


def in_another_terminal(*unheeded: str) -> str:
    """What makes the commands that are printed work there: this folder, this environment, the same settings.

    `unheeded`: variables that a terminal has and that count for nothing here.
    """
    here = Path.cwd()
    words = [f"cd {shlex.quote(str(here))}"]
    activate = Path(sys.executable).with_name("activate")
    if activate.is_file():
        near = activate.relative_to(here) if activate.is_relative_to(here) else activate
        words.append(f". {shlex.quote(str(near))}")
    words += [f"unset {name}" for name in unheeded]
    dagster = Path(os.environ.get("TIDEMARK_HOME") or ".tidemark") / "dagster"
    for name, default in {**SETTINGS, "DAGSTER_HOME": dagster}.items():
        said = os.environ.get(name)
        if said and (default is None or Path(said).absolute() != here / default):
            words.append(f"export {name}={shlex.quote(str(Path(said).absolute()))}")
    return " && ".join(words)


def _left(stack: Stack | None, *, ours: bool) -> str:
    """What runs on, in words: a stack that was up before is not ours to end."""
    if stack is None:
        return "Dagster has ended."
    if ours:
        return "Nothing runs any more."
    return "Dagster has ended; Kafka, registry and Spark were up before and run on (tidemark services down ends them)."


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second signal does not end the ending: it would leave processes behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(console: Console, text: str) -> None:
    """The terminal may be closed already."""
    with suppress(OSError):
        console.print(text, style="dim", soft_wrap=True)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
