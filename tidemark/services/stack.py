"""The embedded stack: Kafka, schema registry and Spark Connect as detached processes of this machine.

Everything lies under one home folder. Nothing is trusted that was written down: which processes live is asked of
the system (processes.py), so a kill, a reboot or a half finished `up` needs no repair.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tidemark.services.catalog import NAME, LocalCatalog
from tidemark.services.download import fetch
from tidemark.services.errors import ServiceFailed
from tidemark.services.java import find_java
from tidemark.services.kafka import Kafka
from tidemark.services.manifest import CORE, ArtifactSet
from tidemark.services.ports import Ports, accepts
from tidemark.services.processes import Mark, server, start, stop
from tidemark.services.progress import Event, OnProgress, silent
from tidemark.services.registry import Registry
from tidemark.services.service import Place, Service
from tidemark.services.spark import Spark

ServiceState = Literal["running", "starting", "killed", "stopped"]
POLL_SECONDS = 0.2


def default_home() -> Path:
    """TIDEMARK_HOME, else .tidemark in the current folder."""
    return Path(os.environ.get("TIDEMARK_HOME", ".tidemark")).absolute()


class Stack:
    """One stack per home. `extras` are further sets of jars for Spark, `spark_conf` overrides its settings."""

    def __init__(
        self, home: Path, *, extras: tuple[ArtifactSet, ...] = (), spark_conf: Mapping[str, str] | None = None
    ) -> None:
        self.home = home.absolute()
        self._extras = extras
        self._kafka, self._registry, self._spark = Kafka(), Registry(), Spark(extras, spark_conf)
        self._services: tuple[Service, ...] = (self._spark, self._kafka, self._registry)  # the slowest first

    def up(self, on_progress: OnProgress = silent) -> dict[str, Any]:
        """Fetch what is missing, start what does not run, wait until all answer; gives `status()`.

        Whatever this call started is stopped again when it fails or is interrupted. Raises ServiceError.
        """
        java = find_java()
        with self._alone():
            fetch([*CORE, *self._extras], on_progress)
            place = Place(self.home, java, Ports(self.home / "ports.json"))
            LocalCatalog(self.home).create()
            up = _Up(self._services, place, on_progress)
            try:
                up.run()
            finally:
                self._write(self.status(expected=True))
        return self.status()

    def down(self) -> dict[str, Any]:
        """Stop everything that belongs to this home, whoever started it; data stays."""
        if self.home.exists():
            with self._alone(), ThreadPoolExecutor(len(self._services)) as pool:
                for future in [pool.submit(stop, self._mark(each)) for each in self._services]:
                    future.result()
                self._write(self.status(expected=False))
        return self.status()

    def status(self, *, expected: bool | None = None) -> dict[str, Any]:
        """What CONTRACT.md lists for `services status`, plus the state of each service.

        A service that does not run is `killed` when it was last seen up, else `stopped`; `expected` overrides that.
        """
        known = self._read()
        place = Place(self.home, Path("java"), Ports(self.home / "ports.json"))
        processes: dict[str, int | None] = {}
        states: dict[str, ServiceState] = {}
        for each in sorted(self._services, key=lambda service: service.name):
            process = server(self._mark(each), known.get("processes", {}).get(each.name))
            was_up = known.get("services", {}).get(each.name, "stopped") != "stopped"
            processes[each.name] = process.pid if process else None
            states[each.name] = self._state(each, place, alive=process is not None, wanted=was_up)
        if expected is False:
            states = {name: "stopped" if processes[name] is None else state for name, state in states.items()}
        placed = all(name in place.ports for each in self._services for name in each.ports)
        return {
            "kafka": {"bootstrap.servers": self._kafka.bootstrap_servers(place) if placed else None},
            "schema_registry": {"url": self._registry.url(place) if placed else None},
            "spark": {"remote": self._spark.remote(place) if placed else None},
            "catalog": {"name": NAME, "properties": LocalCatalog(self.home).pyiceberg()},
            "home": str(self.home),
            "processes": processes,
            "services": states,
        }

    def _state(self, service: Service, place: Place, *, alive: bool, wanted: bool) -> ServiceState:
        if not alive:
            return "killed" if wanted else "stopped"
        answers = service.ports[0] in place.ports and accepts(place.ports[service.ports[0]])
        return "running" if answers else "starting"

    def _mark(self, service: Service) -> Mark:
        return Mark.of(service.name, self.home)

    def _read(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.home / "stack.json").read_text()))
        except (OSError, ValueError):
            return {}

    def _write(self, status: dict[str, Any]) -> None:
        aside = self.home / "stack.json.new"
        aside.write_text(json.dumps(status, indent=1) + "\n")
        aside.replace(self.home / "stack.json")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One `up` or `down` of a home at a time; the next waits. The system gives the lock back when we die."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "stack.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _Up:
    """One attempt to bring every service up, all at the same time."""

    def __init__(self, services: tuple[Service, ...], place: Place, on_progress: OnProgress) -> None:
        self._services = services
        self._place = place
        self._on_progress = on_progress
        self._started: list[Mark] = []
        self._cancelled = threading.Event()

    def run(self) -> None:
        alive = {each.name: self._alive(each) for each in self._services}
        for each in self._services:
            if alive[each.name] is None:
                stop(self._mark(each))  # Python workers of a server that was killed
                self._place.ports.settle(each.ports)
        with ThreadPoolExecutor(len(self._services), thread_name_prefix="up") as pool:
            try:
                waiting = [pool.submit(self._one, each, alive[each.name]) for each in self._services]
                for future in wait(waiting, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                self._cancelled.set()
                for mark in self._started:
                    stop(mark, patience=5)
                raise

    def _alive(self, service: Service) -> int | None:
        """The pid of a server that can be kept: it lives, and we know where it listens."""
        process = server(self._mark(service))
        if process is None or not all(port in self._place.ports for port in service.ports):
            return None
        return process.pid

    def _one(self, service: Service, pid: int | None) -> None:
        began = time.monotonic()
        kept = pid is not None and service.is_ready(self._place)
        if not kept:
            pid = self._start(service, began)
            service.prepare(self._place)
        news = f"up, pid {pid}" if kept else f"up after {time.monotonic() - began:.1f} s, pid {pid}"
        self._on_progress(Event(service.name, news, finished=True))

    def _start(self, service: Service, began: float) -> int:
        mark, log = self._mark(service), self._place.log(service.name)
        stop(mark)  # a server that lives but does not answer
        self._on_progress(Event(service.name, "starting"))
        command = service.command(self._place)
        if self._cancelled.is_set():
            raise ServiceFailed(service.name, "was not started: another service failed", log)
        self._started.append(mark)
        pid = start(command, mark, log)
        while not service.is_ready(self._place):
            if server(mark, pid) is None:
                raise ServiceFailed(service.name, "ended while starting", log)
            if self._cancelled.is_set() or time.monotonic() - began > service.patience:
                raise ServiceFailed(service.name, f"did not answer within {service.patience:.0f} s", log)
            time.sleep(POLL_SECONDS)
        self._on_progress(Event(service.name, "answers, getting ready"))
        return pid

    def _mark(self, service: Service) -> Mark:
        return Mark.of(service.name, self._place.home)
