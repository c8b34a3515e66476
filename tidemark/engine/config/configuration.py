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
from tidemark.domain.config.platform import CONNECTIONS
from tidemark.domain.errors import Problem
from tidemark.domain.home import ANOTHER, home_fault
from tidemark.engine.config import discovery
from tidemark.engine.config.yaml_source import read_document

DEFAULTS = frozenset({"_defaults.yaml", "_defaults.yml"})
SUFFIXES = frozenset({".yaml", ".yml"})
STACK_FILE = "stack.json"
PLATFORM_FILE = Path("platform.yaml")
MISNAMED = PLATFORM_FILE.with_suffix(".yml")
MOST_REPEATS = 100
"""Times that links may lead to folders which were read before: folders that link to each other have 2^n ways."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the configuration lies; no platform file means the embedded stack under `home`."""

    platform_file: Path | None
    contracts_dir: Path
    home: Path


def places(environ: Mapping[str, str]) -> Places:
    """The places that TIDEMARK_CONFIG, TIDEMARK_CONTRACTS and TIDEMARK_HOME name, or their defaults."""
    named = environ.get("TIDEMARK_CONFIG")
    lying = [each for each in (PLATFORM_FILE, MISNAMED) if each.exists() or each.is_symlink()]
    return Places(
        Path(named) if named else next(iter(lying), None),
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
    platform = reading.platform(platform_file) if platform_file else None
    names_none = platform is not None and not set(CONNECTIONS) & set(platform.tree)
    stack = reading.stack(home.absolute()) if names_none or platform_file is None else None
    reading.folder(contracts_dir, contracts_dir.resolve(), ())
    with suppress(OSError):  # of which the listing has told
        if not contracts_dir.is_dir() and contracts_dir.exists():
            reading.refuse(contracts_dir, "is not a folder: contracts lie in one, a file each")
        elif not contracts_dir.is_dir() and "TIDEMARK_CONTRACTS" in environ:
            reading.refuse(contracts_dir, "there is no such folder (TIDEMARK_CONTRACTS)")
    seen = discovery.read(home)
    return assemble(
        Sources(
            platform,
            stack,
            reading.contracts,
            reading.defaults,
            outermost=reading.defaults_of(contracts_dir),
            topics={cluster: list(listed) for cluster, listed in seen.clusters.items()},
            loaded=seen.loaded(),
            problems=reading.problems,
        )
    )


@dataclass(slots=True)
class _Reading:
    environ: Mapping[str, str]
    contracts: list[ContractFile] = field(default_factory=list)
    defaults: list[tuple[Document, ...]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    known: set[Path] = field(default_factory=set)
    repeats: int = 0

    def refuse(self, path: Path, message: str, suggestion: str | None = None) -> None:
        self.problems.append(Problem(str(path), None, "", message, suggestion))

    def platform(self, path: Path) -> Document | None:
        if path.name == MISNAMED.name and "TIDEMARK_CONFIG" not in self.environ:
            self.refuse(path, "is not read under this name", str(PLATFORM_FILE))
        return self.document(path)

    def document(self, path: Path) -> Document | None:
        document, problems = read_document(path)
        self.problems += problems
        if document is None:
            return None
        substitution = Substitution(self.environ)
        tree = substitution.fill(document.tree)
        filled = Document(document.file, tree, document.lines, substitution.filled)
        self.problems += [document.problem(finding) for finding in substitution.findings]
        return filled

    def _listed(self, path: Path) -> Document | None:
        """A document of a folder; nobody named it, so there may be a pipe, which is never read to its end."""
        if path.exists() and not path.is_file():
            self.refuse(path, "is not a regular file")
            return None
        return self.document(path)

    def stack(self, home: Path) -> Mapping[str, Any] | None:
        path = home / STACK_FILE
        if fault := home_fault(str(home)):
            self.refuse(home, f"{fault}; {ANOTHER}")
        try:
            stack = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            self.refuse(path, f"cannot be read: {error.strerror}; let this user read it, or {ANOTHER}")
            return None
        except ValueError:
            stack = None
        if not isinstance(stack, dict):
            self.refuse(path, "is damaged: tidemark services up writes it anew")
            return None
        return stack

    def folder(
        self, folder: Path, real: Path, above: tuple[Document, ...], way: frozenset[Path] = frozenset()
    ) -> None:
        """A folder of contracts, with the defaults of the folders around it.

        `real`: without links. `way`: what it and the folders on the way to it are and lie in: a link to one of them
        goes round for ever.
        """
        way |= {real, *real.parents}
        listed, folders = self._entries(folder)
        defaults = [entry for entry in listed if entry.name in DEFAULTS]
        if len(defaults) > 1:
            self.refuse(defaults[1], f"stands beside {defaults[0].name}: keep one of the two")
        for entry in defaults:
            if document := self._listed(entry):
                above = (*above, document)
                self.defaults.append(above)
        for entry in listed:
            if entry in folders:
                inner = (real / entry.name).resolve()
                if inner in way:
                    self._leads_back(entry, real / entry.name, inner)
                elif self._is_wanted(entry, inner):
                    self.folder(entry, inner, above, way)
            elif entry.name not in DEFAULTS:
                self._contract(entry, above)

    def defaults_of(self, folder: Path) -> tuple[Document, ...]:
        """Those that hold for a contract which lies in `folder`, if some lie there too."""
        return next((chain for chain in self.defaults if Path(chain[-1].file).parent == folder), ())

    def _is_wanted(self, folder: Path, real: Path) -> bool:
        repeats = self.repeats + (real in self.known)
        if repeats > MOST_REPEATS >= self.repeats:
            self.refuse(folder, f"links lead more than {MOST_REPEATS} times to folders that were read before")
        self.repeats = repeats
        self.known.add(real)
        return repeats <= MOST_REPEATS

    def _leads_back(self, entry: Path, link: Path, target: Path) -> None:
        """Said once of a link, on whatever way it was found."""
        if link not in self.known:
            self.refuse(entry, f"leads back to {target}")
        self.known.add(link)

    def _contract(self, entry: Path, above: tuple[Document, ...]) -> None:
        if entry.suffix not in SUFFIXES:
            meant = entry.stem + entry.suffix.lower()
            self.refuse(entry, "only files that end in .yaml or .yml are read", meant)
        elif entry.name.startswith("_"):
            message = "files that begin with _ are not contracts, and only _defaults.yaml is read otherwise"
            self.refuse(entry, message, "_defaults.yaml")
        elif document := self._listed(entry):
            self.contracts.append(ContractFile(document, above))

    def _entries(self, folder: Path) -> tuple[list[Path], set[Path]]:
        """The folders below `folder` and files with the name of a contract, by name; and the folders alone."""
        try:
            found = [each for each in folder.iterdir() if not each.name.startswith(".")]
            folders = {each for each in found if each.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            return [], set()
        except OSError as error:
            self.refuse(folder, f"cannot be read: {error.strerror}")
            return [], set()
        return sorted(e for e in found if e in folders or e.suffix.lower() in SUFFIXES), folders
