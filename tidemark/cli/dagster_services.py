"""Dagster on this machine for `demo` and `dev`: code server, webserver and daemon as detached, marked processes.

One code server serves both others, so the definitions are loaded once; the UI's reload button works.
"""

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

import orchestration
from assets.names import LOCATION, table_key
from jobs.ingest import INGEST
from orchestration.instance import prepare_dagster_home
from sensors.dead_runs import bury, canceled
from tidemark.cli.demo.hold import CODE, DAEMON, WEB
from tidemark.cli.in_dagster import dagster_instance
from tidemark.engine.alive import held_by
from tidemark.engine.config.configuration import Places
from tidemark.services.errors import ServiceFailed
from tidemark.services.ports import LOOPBACK, Ports, accepts
from tidemark.services.processes import Command, Mark, has_ended, rotate, server, start, stop

PATIENCE = 90.0
GRACE = 6.0
"""Seconds that runs get to drop their stages."""
FRESHNESS_EVERY = "FRESHNESS_DAEMON_INTERVAL_SECONDS"
"""Dagster judges here whether a topic is silent for longer than its contract allows, hours as a rule, of all assets."""
OURS = Path(orchestration.__file__).resolve().parents[1]
"""Dagster leaves out the first folder of those that modules are sought in, which may be this one, unless told of it."""
_RUN_PROCESS = "spawn_main"
"""Dagster starts each run as a multiprocessing child of the code server."""
_LOCATIONS = """{workspaceOrError {... on Workspace {locationEntries {
    locationOrLoadError {__typename ... on PythonError {message}}}}}}"""


@dataclass(slots=True)
class DagsterServices:
    """The three processes of one home."""

    places: Places
    _pids: dict[str, int] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Tidemark's home, absolute."""
        return self.places.home.absolute()

    @property
    def ports(self) -> Ports:
        """Remembered, so that the UI keeps its address."""
        return Ports(self.home / "ports.json")

    @property
    def url(self) -> str:
        """Of the UI."""
        return f"http://{LOOPBACK}:{self.ports[WEB]}"

    def environment(self) -> dict[str, str]:
        """What every process needs to see the same home, contracts and platform file."""
        named = {
            "TIDEMARK_HOME": str(self.home),
            "TIDEMARK_CONTRACTS": str(self.places.contracts_dir.absolute()),
            "DAGSTER_HOME": os.environ.get("DAGSTER_HOME") or str(prepare_dagster_home(self.home)),
            FRESHNESS_EVERY: os.environ.get(FRESHNESS_EVERY, "300"),
            # also for what they start: a `secrets.py` or `assets` in the working folder is none of Python's or ours
            "PYTHONSAFEPATH": "1",
        }
        if self.places.platform_file:
            named["TIDEMARK_CONFIG"] = str(self.places.platform_file.absolute())
        return named

    def up(self) -> None:
        """Start all three afresh and wait until the UI answers. Raises ServiceFailed."""
        self.down()
        with dagster_instance() as instance:
            bury(instance, self.home, orphans=True)
        ports = self.ports
        ports.settle((CODE, WEB))
        workspace = self.home / "dagster" / "workspace.yaml"
        environment = self.environment()
        workspace.parent.mkdir(parents=True, exist_ok=True)
        workspace.write_text(
            f"load_from:\n  - grpc_server: {{host: {LOOPBACK}, port: {ports[CODE]}, location_name: {LOCATION}}}\n",
            encoding="utf-8",
        )
        definitions = ("-m", "orchestration.definitions", "-d", str(OURS))
        code = ("start", "-h", LOOPBACK, "-p", str(ports[CODE]), *definitions)
        self._start(CODE, ("-m", "orchestration.code_server", *code), environment)
        self._await(CODE, ports[CODE])
        web = ("-h", LOOPBACK, "-p", str(ports[WEB]), "-w", str(workspace), "--suppress-warnings")
        self._start(WEB, ("-m", "orchestration.webserver", *web), environment)
        self._start(DAEMON, ("-m", "orchestration.daemon", "run", "-w", str(workspace)), environment)
        self._await(WEB, ports[WEB])
        self._await_location()

    def down(self) -> None:
        """Stop the daemon, which launches runs; cancel those that are, which drop what they staged; stop the others."""
        stop(self._mark(DAEMON), patience=5)
        runs = self.run_processes()
        try:
            if runs:
                with dagster_instance() as instance, canceled(instance, self.ports[CODE]):
                    self._end(runs)
        finally:
            with ThreadPoolExecutor(2) as pool:
                for stopped in [pool.submit(stop, self._mark(each), patience=5) for each in (WEB, CODE)]:
                    stopped.result()

    def require_alive(self) -> None:
        """Without one of the three tables fall behind, and nothing else says so. Keeps their logs small, too.

        Raises:
            ServiceFailed: one has ended by itself, or was killed.
        """
        for name, pid in self._pids.items():
            with suppress(OSError):  # a full disk
                rotate(self._log(name))
            if has_ended(pid):
                raise self._failed(
                    name, "has ended by itself or was killed; tables would fall behind in silence"
                )

    def _end(self, runs: Sequence[psutil.Process]) -> None:
        for each in runs:
            with suppress(psutil.Error):
                each.terminate()
        psutil.wait_procs(runs, timeout=GRACE)

    def run_processes(self) -> list[psutil.Process]:
        """The processes that execute runs right now."""
        code = server(self._mark(CODE))
        if code is None:
            return []
        return [each for each in code.children(recursive=True) if _RUN_PROCESS in " ".join(_words(each))]

    def ingests(self, process: psutil.Process, table: str) -> bool:
        """Whether a process executes a run that reads records into a table."""
        try:
            run_id = held_by(self.home, [each.path for each in process.open_files()])
        except psutil.Error:
            return False
        if run_id is None:
            return False
        with dagster_instance() as instance:
            run = instance.get_run_by_id(run_id)
        chosen = run.asset_selection if run else None
        return run is not None and (run.job_name == INGEST if chosen is None else table_key(table) in chosen)

    def processes(self) -> list[psutil.Process]:
        """All of them, with what they have started."""
        found = [server(self._mark(name)) for name in (CODE, WEB, DAEMON)]
        return [each for main in found if main for each in (main, *main.children(recursive=True))]

    def _mark(self, name: str) -> Mark:
        return Mark.of(name, self.home)

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    def _failed(self, name: str, reason: str) -> ServiceFailed:
        return ServiceFailed(name, reason, self._log(name), "tidemark dev")

    def _start(self, name: str, main: tuple[str, ...], environment: Mapping[str, str]) -> None:
        # -X takes any word: here the mark by which a process is found again.
        command = Command(Path(sys.executable), ("-X",), main, Path.cwd(), environment, without=())
        with _heeding_interrupts():
            self._pids[name] = start(command, self._mark(name), self._log(name))

    def _await(self, name: str, port: int) -> None:
        until = time.monotonic() + PATIENCE
        while not accepts(port):
            if has_ended(self._pids[name]):
                raise self._failed(name, "ended while starting")
            if time.monotonic() > until:
                raise self._failed(name, f"did not answer within {PATIENCE:.0f} s")
            time.sleep(0.2)

    def _await_location(self) -> None:
        """Wait until the UI has the definitions. Raises ServiceFailed with what Dagster has against them."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                entries = _ask(f"{self.url}/graphql", _LOCATIONS)["workspaceOrError"]["locationEntries"]
                found = entries[0]["locationOrLoadError"] if entries else None
            except (OSError, LookupError) as error:
                if time.monotonic() > until:
                    raise self._failed(WEB, f"does not answer: {error}") from error
                found = None
            if found and found["__typename"] == "PythonError":
                raise self._failed(CODE, f"cannot load the definitions: {found['message']}")
            if found:
                return
            time.sleep(0.2)


@contextmanager
def _heeding_interrupts() -> Iterator[None]:
    """What is started here can be ended with SIGTERM, which Dagster treats as SIGINT.

    A shell starts background jobs of a script with SIGINT ignored, and so would be whatever they start.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ask(url: str, query: str) -> dict[str, Any]:
    """The data of a GraphQL answer; proxies of the environment are not for our own machine."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - our own
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
        return dict(json.load(answer)["data"])


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
