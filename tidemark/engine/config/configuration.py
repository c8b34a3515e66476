"""Finds and reads the files of a configuration. Touches no network: topics come from the discovery file.

Reading is here; what the files mean is in `tidemark.domain.config.assembly`.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemark.domain.config.assembly import ContractFile, Sources, assemble
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.environment import Substitution
from tidemark.domain.config.layering import Document
from tidemark.domain.errors import Problem
from tidemark.engine.config import discovery
from tidemark.engine.config.yaml_source import read_document

DEFAULTS = frozenset({"_defaults.yaml", "_defaults.yml"})
SUFFIXES = frozenset({".yaml", ".yml"})
STACK_FILE = "stack.json"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the configuration lies; no platform file means the embedded stack under `home`."""

    platform_file: Path | None
    contracts_dir: Path
    home: Path


def places(environ: Mapping[str, str]) -> Places:
    """The places that TIDEMARK_CONFIG, TIDEMARK_CONTRACTS and TIDEMARK_HOME name, or their defaults."""
    named = environ.get("TIDEMARK_CONFIG")
    platform_file = Path(named or "platform.yaml")
    return Places(
        platform_file if named or platform_file.exists() else None,
        Path(environ.get("TIDEMARK_CONTRACTS") or "contracts"),
        Path(environ.get("TIDEMARK_HOME") or ".tidemark"),
    )


def load_from_environment() -> Configuration:
    """The configuration of this process. Raises ConfigurationError listing every problem."""
    found = places(os.environ)
    return load(found.platform_file, found.contracts_dir, environ=os.environ, home=found.home)


def load(
    platform_file: Path | None, contracts_dir: Path, *, environ: Mapping[str, str], home: Path
) -> Configuration:
    """The configuration of these files, with `${NAME}` read from `environ`.

    Without a platform file, or with one that names no service, the embedded stack of `home` is used; it need
    not be running. Raises ConfigurationError listing every problem of all files.
    """
    reading = _Reading(environ)
    platform = reading.document(platform_file) if platform_file else None
    stack = reading.stack(home / STACK_FILE)
    reading.folder(contracts_dir, ())
    with suppress(OSError):  # of which the listing has told
        if not contracts_dir.is_dir() and "TIDEMARK_CONTRACTS" in environ:
            reading.problems.append(
                Problem(str(contracts_dir), None, "", "there is no such folder (TIDEMARK_CONTRACTS)")
            )
    seen = discovery.read(home)
    topics = {cluster: list(listed) for cluster, listed in seen.clusters.items()}
    return assemble(
        Sources(platform, stack, reading.contracts, reading.defaults, topics, seen.loaded(), reading.problems)
    )


@dataclass(slots=True)
class _Reading:
    environ: Mapping[str, str]
    contracts: list[ContractFile] = field(default_factory=list)
    defaults: list[tuple[Document, ...]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def document(self, path: Path) -> Document | None:
        document, problems = read_document(path)
        self.problems += problems
        if document is None:
            return None
        substitution = Substitution(self.environ)
        tree = substitution.fill(document.tree)
        filled = Document(document.file, tree, document.lines, substitution.filled)
        self.problems += [filled.problem(finding) for finding in substitution.findings]
        return filled

    def stack(self, path: Path) -> Mapping[str, Any] | None:
        try:
            stack = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.problems.append(Problem(str(path), None, "", f"is not a stack file: {error}"))
            return None
        return stack if isinstance(stack, dict) else None

    def folder(self, folder: Path, above: tuple[Document, ...]) -> None:
        """A folder of contracts, with the defaults of the folders around it."""
        listed, folders = self._entries(folder)
        defaults = [entry.name for entry in listed if entry.name in DEFAULTS]
        if len(defaults) > 1:
            self.problems.append(
                Problem(
                    str(folder / defaults[1]), None, "", f"stands beside {defaults[0]}: keep one of the two"
                )
            )
        for entry in listed:
            if entry.name in DEFAULTS and (document := self.document(entry)):
                above = (*above, document)
                self.defaults.append(above)
        for entry in listed:
            if entry in folders and leads_back(entry, folder):
                self.problems.append(Problem(str(entry), None, "", f"leads back to {entry.resolve()}"))
            elif entry in folders:
                self.folder(entry, above)
            elif entry.suffix not in SUFFIXES:
                meant = entry.stem + entry.suffix.lower()
                self.problems.append(
                    Problem(str(entry), None, "", "only files that end in .yaml or .yml are read", meant)
                )
            elif entry.name.startswith("_") and entry.name not in DEFAULTS:
                message = (
                    "files that begin with _ are not contracts, and only _defaults.yaml is read otherwise"
                )
                self.problems.append(Problem(str(entry), None, "", message, "_defaults.yaml"))
            elif entry.name not in DEFAULTS and (document := self.document(entry)):
                self.contracts.append(ContractFile(document, above))

    def _entries(self, folder: Path) -> tuple[list[Path], set[Path]]:
        """The folders below `folder` and files with the name of a contract, by name; and the folders alone."""
        try:
            found = [each for each in folder.iterdir() if not each.name.startswith(".")]
            folders = {each for each in found if each.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            return [], set()
        except OSError as error:
            self.problems.append(Problem(str(folder), None, "", f"cannot be read: {error.strerror}"))
            return [], set()
        return sorted(e for e in found if e in folders or e.suffix.lower() in SUFFIXES), folders


def leads_back(entry: Path, folder: Path) -> bool:
    """Whether `entry` of `folder` is a link to a folder that it lies in."""
    return entry.resolve() in [folder.resolve(), *folder.resolve().parents]
