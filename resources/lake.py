"""Opens the engine's clients for a run, a sensor or a check."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from resources.spark import SparkConnect
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.units import SHOWN
from tidemark.domain.errors import ConfigurationError
from tidemark.engine.alive import alive
from tidemark.engine.config.configuration import STACK_FILE, Places, load, places
from tidemark.engine.config.follow import Followed

if TYPE_CHECKING:
    from tidemark.engine.access.lake import Lake


def places_now() -> Places:
    """Where the configuration of this process lies, as absolute paths."""
    found = places(os.environ)
    platform_file = found.platform_file.absolute() if found.platform_file else None
    return Places(platform_file, found.contracts_dir.absolute(), found.home.absolute())


def configuration_of(where: Places) -> Configuration:
    """The configuration of these places, read once per process and again after the embedded stack has moved."""
    return _configuration(where, _stack_written(where))


def on_disk(where: Places) -> Configuration:
    """What a run that begins now would read, not what this process began with. Raises ConfigurationError."""
    return _followed(where).now()


def unreadable(error: ConfigurationError) -> str:
    """Why nothing can be asked for, or told, while the files are broken."""
    why = "; ".join(str(problem) for problem in error.problems[:SHOWN])
    return f"no run could read its configuration: {why} (tidemark check)"


@lru_cache(maxsize=2)
def _followed(where: Places) -> Followed:
    return Followed(where)


def _stack_written(where: Places) -> float:
    with suppress(OSError):  # not there, or not to be read, which only those who use it need
        return (where.home / STACK_FILE).stat().st_mtime
    return 0.0


@lru_cache(maxsize=2)
def _configuration(where: Places, _written: float) -> Configuration:
    return load(where.platform_file, where.contracts_dir, environ=os.environ, home=where.home)


class LakeResource(dg.ConfigurableResource["LakeResource"]):
    """The lake that platform file and contracts describe. Paths only: secrets stay in the files and environment."""

    platform_file: str | None
    contracts_dir: str
    home: str
    spark: dg.ResourceDependency[SparkConnect]

    @classmethod
    def at(cls, where: Places) -> "LakeResource":
        """The resource of these places."""
        return cls(
            platform_file=str(where.platform_file) if where.platform_file else None,
            contracts_dir=str(where.contracts_dir),
            home=str(where.home),
            spark=SparkConnect(),
        )

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> "Iterator[LakeResource]":
        """A run holds its lock as long as it has the lake, so that it can be told from one whose process died."""
        with alive(self.places.home, context.run.run_id) if context.run else nullcontext():
            yield self

    @property
    def places(self) -> Places:
        """Where the configuration lies."""
        platform_file = Path(self.platform_file) if self.platform_file else None
        return Places(platform_file, Path(self.contracts_dir), Path(self.home))

    @property
    def configuration(self) -> Configuration:
        """What the files say. Raises ConfigurationError."""
        return configuration_of(self.places)

    @contextmanager
    def open(self) -> Iterator["Lake"]:
        """The clients of one run, with a Spark session of its own. Steps on tables use `assets.runs.loaded.opened`."""
        from tidemark.engine.access.lake import Lake  # noqa: PLC0415 - only steps pay for the clients' imports

        _freeze_loaded()
        configuration = self.configuration
        spark = configuration.platform.spark
        lake = Lake(configuration, session=lambda: self.spark.renewed(spark.address))
        try:
            yield lake
        finally:
            lake.close()

    def shared(self) -> "Lake":
        """The clients that the sensors of this process share: Kafka and the catalog, never Spark.

        They are made anew when the platform file says something else, for the contracts of these definitions. Raises
        ConfigurationError when nothing was read yet and nothing can be.
        """
        from tidemark.engine.access.lake import Lake  # noqa: PLC0415 - a code server that runs no sensor never needs them

        lake = _SHARED.get(self.places)
        found = lake.configuration if lake else self.configuration
        try:
            found = replace(found, platform=on_disk(self.places).platform)
        except ConfigurationError:
            if lake is not None:
                return lake
        if lake is None or lake.platform != found.platform:
            _freeze_loaded()
            lake = _SHARED[self.places] = Lake(found)
        return lake


_SHARED: "dict[Places, Lake]" = {}


@cache
def _freeze_loaded() -> None:
    """What this process has loaded by now stays: Python looks for garbage among what comes later alone.

    Else that takes a tenth of a small batch here, and most of the time in which a table's metadata is parsed.
    """
    gc.freeze()
