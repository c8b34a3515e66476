"""The pinned artifacts of the embedded stack: what they are, where they come from, where they lie on disk."""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import platformdirs

ArtifactSet = Literal["kafka", "registry", "spark", "compiler", "hadoop", "aws", "postgres"]
CORE: tuple[ArtifactSet, ...] = ("kafka", "registry", "spark", "compiler")
MANIFEST = Path(__file__).with_name("jars.json")
MAVEN_CENTRAL = "https://repo1.maven.org/maven2"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of a Maven repository; `sha256` in hex, `size` in bytes."""

    group: str
    name: str
    version: str
    sha256: str
    size: int
    extension: str = "jar"
    classifier: str = ""

    @property
    def filename(self) -> str:
        """As Maven names it: name-version[-classifier].extension."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{suffix}.{self.extension}"

    @property
    def path(self) -> str:
        """Relative path, the same in every Maven repository and in our cache."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.filename}"


@cache
def artifacts(name: ArtifactSet) -> tuple[Artifact, ...]:
    """The pinned members of one set."""
    if name not in get_args(ArtifactSet):
        raise KeyError(name)
    return tuple(Artifact(**entry) for entry in json.loads(MANIFEST.read_text())[name])


def maven_url() -> str:
    """Maven Central, or the mirror that TIDEMARK_MAVEN_URL names."""
    return (os.environ.get("TIDEMARK_MAVEN_URL") or MAVEN_CENTRAL).rstrip("/")


def cache_dir() -> Path:
    """Per user, shared by all homes and by the tests; TIDEMARK_CACHE overrides."""
    override = os.environ.get("TIDEMARK_CACHE")
    return (
        Path(override).absolute()
        if override
        else Path(platformdirs.user_cache_dir("tidemark", appauthor=False))
    )


def cached(artifact: Artifact) -> Path:
    """Where an artifact lies once it has been fetched."""
    return cache_dir() / "maven" / artifact.path


def classpath(*names: ArtifactSet) -> list[str]:
    """The jars of these sets, as paths in the cache."""
    return [str(cached(artifact)) for name in names for artifact in artifacts(name)]
