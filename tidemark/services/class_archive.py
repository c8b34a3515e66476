"""What the JVM has read and checked of a server's classes, kept in a file that the next server maps into memory.

Java makes it when a server ends that was told to (`rehearsal`), and passes over one that does not fit. Half of what a
start of Spark costs is this work.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.services.manifest import cache_dir

KEPT = 4
"""Archives of other environments that are left in the cache; each takes 210 MB."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Of one java and one class path: jars, and folders of jars that end in `/*`."""

    java: Path
    jars: Sequence[str]

    @property
    def path(self) -> Path:
        """Where it lies in the cache: another one for each version of java or of any jar, wherever they are."""
        files = [file for jar in self.jars for file in _files(jar)]
        text = "\n".join(map(_identity, [self.java.resolve(), *files]))
        return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsa"

    def use(self) -> list[str]:
        """JVM options of a server: none as long as there is no archive, or when this java cannot make one."""
        path = self.path
        return [f"-XX:SharedArchiveFile={path}"] if path.exists() and path.stat().st_size else []

    @staticmethod
    def make(path: Path) -> list[str]:
        """JVM options of a server that writes it to `path` as it ends."""
        return [f"-XX:ArchiveClassesAtExit={path}"]


def folder() -> Path:
    """The archives of this user."""
    return cache_dir() / "classes"


def forget_oldest() -> None:
    """Remove all but the newest archives."""
    by_age = sorted(folder().glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in by_age[KEPT:]:
        file.unlink(missing_ok=True)


def _files(jar: str) -> list[Path]:
    return sorted(Path(jar).parent.glob("*.jar")) if jar.endswith("/*") else [Path(jar)]


def _identity(file: Path) -> str:
    found = file.stat()
    return f"{file} {found.st_size} {found.st_mtime_ns}"
