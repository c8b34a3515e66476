"""What the stack needs to know of a service: how to run it and when it is ready."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidemark.services.ports import Ports
from tidemark.services.processes import Command
from tidemark.services.progress import Step


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stack lives: its home folder, the java to run with, its ports."""

    home: Path
    java: Path
    ports: Ports

    def log(self, service: str) -> Path:
        """What a service writes to stdout and stderr."""
        return self.home / "logs" / f"{service}.log"


class Service(Protocol):
    """One server process of the stack."""

    name: Step
    ports: tuple[str, ...]
    patience: float

    def command(self, place: Place) -> Command:
        """Write the configuration files and say what to run."""

    def is_ready(self, place: Place) -> bool:
        """Ask the service; False as long as it does not answer."""

    def prepare(self, place: Place) -> None:
        """Whatever has to happen once after it answers and before it counts as up; called with every `up`."""
