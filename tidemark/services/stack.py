"""The embedded stack: Kafka, schema registry and Spark Connect as detached processes of this machine.

Everything lies under one home folder. Nothing is trusted that was written down: which processes live is asked
of the system (processes.py), so a kill, a reboot or a half finished `up` needs no repair.
"""

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tidemark.domain.errors import Refused
from tidemark.domain.home import ANOTHER, PRIVATE, home_fault
from tidemark.engine.whole_file import replace_whole
from tidemark.services import rehearsal
from tidemark.services.catalog import NAME, LocalCatalog
from tidemark.services.download import fetch
from tidemark.services.java import find_java
from tidemark.services.kafka import Kafka
from tidemark.services.launch import Launch
from tidemark.services.manifest import CORE, ArtifactSet
from tidemark.services.ports import Ports, accepts
from tidemark.services.processes import Mark, server, stop
from tidemark.services.progress import OnProgress, silent
from tidemark.services.registry import Registry
from tidemark.services.service import Place, Service
from tidemark.services.spark import Spark, jars_beside
from tidemark.services.turn import turn

ServiceState = Literal["running", "starting", "killed", "stopped"]


def default_home() -> Path:
    """TIDEMARK_HOME, else .tidemark in the current folder."""
    return Path(os.environ.get("TIDEMARK_HOME") or ".tidemark").absolute()


class Stack:
    """One stack per home. `extras` are further jars for Spark, `spark_conf` overrides its settings."""

    def __init__(
        self, home: Path, *, extras: tuple[ArtifactSet, ...] = (), spark_conf: Mapping[str, str] | None = None
    ) -> None:
        self.home = home.absolute()
        self._extras = extras
        self._kafka, self._registry, self._spark = Kafka(), Registry(), Spark(extras, spark_conf)
        self._services: tuple[Service, ...] = (self._spark, self._kafka, self._registry)  # the slowest first

    def up(self, on_progress: OnProgress = silent) -> dict[str, Any]:
        """Fetch what is missing, start what does not run, wait until all answer; gives `status()`.

        Whatever this call started is stopped again when it fails or is interrupted.

        Raises:
            Refused: the home has a name that the catalog's address cannot hold, or was made elsewhere.
            ServiceError.
        """
        if fault := home_fault(str(self.home)):
            raise Refused(f"{self.home} {fault}", next_step=ANOTHER, home=str(self.home))
        java = find_java()
        with self._alone(on_progress):
            LocalCatalog(self.home).create()
            fetch([*CORE, *jars_beside(java), *self._extras], on_progress)
            place = Place(self.home, java, Ports(self.home / "ports.json"))
            try:
                Launch(self._services, place, on_progress).run()
            finally:
                self._write(self.status())
            rehearsal.begin(self.home, java, self._extras)
        return self.status()

    def down(self) -> dict[str, Any]:
        """Stop everything that belongs to this home, whoever started it; data stays."""
        if self.home.exists():
            with self._alone(silent), ThreadPoolExecutor(len(self._services)) as pool:
                for future in [pool.submit(stop, self._mark(each)) for each in self._services]:
                    future.result()
                rehearsal.end(self.home)
                (self.home / "stack.json").unlink(missing_ok=True)  # nothing is wanted up any more
                self._write(self.status())
        return self.status()

    def status(self) -> dict[str, Any]:
        """What `services status --json` prints: addresses, home, and pid and state of each service.

        A service that does not run is `killed` when it was up and nobody asked it to stop, else `stopped`.
        """
        known = self._read()
        place = Place(self.home, Path("java"), Ports(self.home / "ports.json"))
        processes: dict[str, int | None] = {}
        states: dict[str, ServiceState] = {}
        for each in sorted(self._services, key=lambda service: service.name):
            process = server(self._mark(each), known.get("processes", {}).get(each.name))
            was_up = known.get("services", {}).get(each.name, "stopped") != "stopped"
            processes[each.name] = process.pid if process else None
            states[each.name] = _state(each, place, alive=process is not None, was_up=was_up)
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

    def _mark(self, service: Service) -> Mark:
        return Mark.of(service.name, self.home)

    def _read(self) -> dict[str, Any]:
        file = self.home / "stack.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        except OSError as error:
            raise Refused(
                f"{file} cannot be read: {error.strerror}", next_step=f"let this user read it, or {ANOTHER}"
            ) from None
        return found if isinstance(found, dict) else {}

    def _write(self, status: dict[str, Any]) -> None:
        replace_whole(self.home / "stack.json", json.dumps(status, indent=1) + "\n")

    @contextmanager
    def _alone(self, on_progress: OnProgress) -> Iterator[None]:
        """One `up` or `down` of a home at a time, the next waits; our death gives the lock back."""
        self.home.mkdir(PRIVATE, parents=True, exist_ok=True)
        waits = "another `up` or `down` is at work, waiting for it"
        with turn(self.home / "stack.lock", "stack", waits, on_progress):
            yield


def _state(service: Service, place: Place, *, alive: bool, was_up: bool) -> ServiceState:
    if not alive:
        return "killed" if was_up else "stopped"
    port = service.ports[0]
    return "running" if port in place.ports and accepts(place.ports[port]) else "starting"
