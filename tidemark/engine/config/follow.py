"""A configuration that follows its files: for whoever looks at it every few seconds, and for days."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.domain.config.configuration import Configuration
from tidemark.domain.errors import ConfigurationError, Problem
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import STACK_FILE, Places, entries, leads_back, load

Stamp = tuple[tuple[str, int, int, int], ...]
"""(path, inode, time of writing in ns, bytes) of each file and folder."""


@dataclass(slots=True)
class Followed:
    """What the files of these places say; they are read again only when one was written, made or removed."""

    where: Places
    _known: tuple[Stamp, Configuration | tuple[Problem, ...]] | None = field(default=None, init=False)

    def now(self) -> Configuration:
        """The same object until a file changes. Raises ConfigurationError."""
        stamp = tuple(_stamps(self.where))
        known = self._known
        if known is None or known[0] != stamp:
            known = self._known = (stamp, _read(self.where))
        if isinstance(known[1], tuple):
            raise ConfigurationError(known[1])
        return known[1]


def _read(where: Places) -> Configuration | tuple[Problem, ...]:
    try:
        return load(where.platform_file, where.contracts_dir, environ=os.environ, home=where.home)
    except ConfigurationError as error:
        return error.problems


def _stamps(where: Places) -> Iterator[tuple[str, int, int, int]]:
    files = [where.home / STACK_FILE, where.home / discovery.FILE, *sorted(_contracts(where.contracts_dir))]
    for file in [where.platform_file, *files] if where.platform_file else files:
        try:
            found = file.stat()
        except OSError:
            continue
        yield str(file), found.st_ino, found.st_mtime_ns, found.st_size


def _contracts(folder: Path) -> Iterator[Path]:
    for entry in entries(folder):
        yield entry
        if entry.is_dir() and not leads_back(entry, folder):
            yield from _contracts(entry)
