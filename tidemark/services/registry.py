"""Apicurio Registry, spoken to in the Confluent dialect."""

import httpx

from tidemark.services.download import unpacked
from tidemark.services.manifest import artifacts
from tidemark.services.ports import LOOPBACK
from tidemark.services.processes import Command
from tidemark.services.progress import Step
from tidemark.services.service import Place


class Registry:
    """The registry at `url`. The in-memory build keeps its H2 database in home/registry when told to."""

    name: Step = "registry"
    ports: tuple[str, ...] = ("registry",)
    patience = 300.0

    def url(self, place: Place) -> str:
        """The base URL for Confluent-compatible clients."""
        return f"{self._root(place)}/apis/ccompat/v7"

    def command(self, place: Place) -> Command:
        """Quarkus reads everything from the environment."""
        folder = place.home / "registry"
        folder.mkdir(parents=True, exist_ok=True)
        (archive,) = artifacts("registry")
        program = unpacked(archive)
        environment = {
            # WRITE_DELAY=0: a schema id that was answered must survive a kill -9.
            "REGISTRY_DATASOURCE_URL": f"jdbc:h2:file:{folder / 'registry'};WRITE_DELAY=0",
            "QUARKUS_DATASOURCE_JDBC_INITIAL_SIZE": "2",
            "QUARKUS_DATASOURCE_JDBC_MIN_SIZE": "2",
            "QUARKUS_DATASOURCE_JDBC_MAX_SIZE": "10",
            "QUARKUS_HTTP_HOST": LOOPBACK,
            "HTTP_PORT": str(place.ports["registry"]),
            "LOG_LEVEL": "WARN",
            "REGISTRY_LOG_LEVEL": "WARN",
        }
        options = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = ["-jar", str(program / f"{archive.name}-{archive.version}-runner.jar")]
        return Command(place.java, options, main, cwd=folder, environment=environment)

    def is_ready(self, place: Place) -> bool:
        """True when its own health check says so."""
        try:
            return httpx.get(f"{self._root(place)}/health/ready", timeout=5, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def prepare(self, place: Place) -> None:
        """Once per home: the global rule, NONE by default, becomes what Confluent clients expect."""
        done = place.home / "registry" / "compatibility-set"
        if not done.exists():
            rule = {"compatibility": "BACKWARD"}
            answer = httpx.put(f"{self.url(place)}/config", json=rule, timeout=30, trust_env=False)
            answer.raise_for_status()
            done.touch()

    def _root(self, place: Place) -> str:
        return f"http://{LOOPBACK}:{place.ports['registry']}"
