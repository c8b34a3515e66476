"""A configuration that follows its files: for whoever looks at it every few seconds, and for days."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tidemark.domain.config.configuration import Configuration
from tidemark.domain.errors import ConfigurationError, Problem
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import STACK_FILE, SUFFIXES, Places, load

Stamp = tuple[tuple[str, int, int, int], ...]
"""(path, inode, time of writing in ns, bytes) of each file and folder."""


@dataclass(slots=True)
class Followed:
    """What the files of these places say; they are read again only when one was written, made or removed."""

    where: Places
    _known: tuple[Stamp, Configuration | tuple[Problem, ...]] | None = field(default=None, init=False)

    def begin_with(self, known: Configuration, read_after: float) -> None:
        """Take `known` for what the files say, which spares the first reading; not if one was written since.

        `read_after`: seconds since 1970 before which nothing was read.
        """
        stamp = tuple(_stamps(self.where))
        if all(written < read_after * 1e9 for _, _, written, _ in stamp):
            self._known = (stamp, known)

    def now(self) -> Configuration:
        """What they say now, one and the same object until a file changes. Raises ConfigurationError."""
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
    files = [where.home / STACK_FILE, where.home / discovery.FILE, where.platform_file]
    for file in filter(None, files):
        with suppress(OSError):
            yield _stamp(str(file), file.stat())
    folder = str(where.contracts_dir)
    yield from sorted(_contracts(folder, os.path.realpath(folder), set()))


def _contracts(folder: str, real: str, known: set[str]) -> Iterator[tuple[str, int, int, int]]:
    """Files and folders that are read; of hundreds, every few seconds, nothing but their stamps.

    `real`: without links. A folder that several links lead to is looked at once: then it is in `known`.
    """
    if real in known:
        return
    known.add(real)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):  # a link to nothing or to itself, or gone by now
            is_folder = entry.is_dir()
            if entry.name.startswith(".") or not (is_folder or entry.name.lower().endswith(tuple(SUFFIXES))):
                continue
            yield _stamp(entry.path, entry.stat())
            if is_folder:
                yield from _contracts(entry.path, os.path.realpath(f"{real}/{entry.name}"), known)


def _stamp(path: str, found: os.stat_result) -> tuple[str, int, int, int]:
    return path, found.st_ino, found.st_mtime_ns, found.st_size
