"""A lakehouse with the Kafka and the registry of the tests, and a catalog of its own, as a platform file names it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lakehouse import Lakehouse

from tidemark.engine.config.configuration import Configuration, load
from tidemark.services.catalog import LocalCatalog
from tidemark.services.download import fetch
from tidemark.services.java import find_java
from tidemark.services.launch import Launch
from tidemark.services.manifest import ArtifactSet
from tidemark.services.ports import Ports
from tidemark.services.progress import silent
from tidemark.services.service import Place
from tidemark.services.spark import Spark


@dataclass
class Elsewhere(Lakehouse):
    """One whose tables are not in the catalog of the stack."""

    platform: Path = Path()

    def configuration(self) -> Configuration:
        return load(self.platform, self.contracts, environ=os.environ, home=self.home)


def elsewhere(stack: Mapping[str, Any], remote: str, catalog: Mapping[str, str], folder: Path) -> Elsewhere:
    """A lakehouse in `catalog`, the block of a platform file, with the Spark server at `remote`."""
    name = catalog["name"]
    written = {
        "kafka": {"main": stack["kafka"]},
        "schema_registry": {"main": stack["schema_registry"]},
        "catalog": dict(catalog),
        "spark": {"remote": remote, "conf": {"spark.sql.defaultCatalog": name}},
    }
    platform = folder / "platform.yaml"
    platform.write_text(yaml.safe_dump(written), encoding="utf-8")
    (folder / "contracts").mkdir()
    properties = {key: value for key, value in catalog.items() if key != "name"}
    properties["pool_pre_ping"] = "true"  # a test looks again through the connection that it has cut
    status = {**stack, "catalog": {"name": name, "properties": properties}}
    environment = {"TIDEMARK_CONFIG": str(platform)}
    return Elsewhere(Path(stack["home"]), folder / "contracts", status, environment, platform=platform)


@contextmanager
def spark_with(extra: ArtifactSet, home: Path) -> Iterator[str]:
    """A Spark server that has these jars too; its address. Whoever made `home` stops it."""
    fetch([extra])
    LocalCatalog(home).create()
    place, service = Place(home, find_java(), Ports(home / "ports.json")), Spark((extra,))
    Launch((service,), place, silent).run()
    yield service.remote(place)
