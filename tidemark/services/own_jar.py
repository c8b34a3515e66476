"""Tidemark's own classes for Spark (`tidemark/jvm`), compiled once per version into a jar in the user's cache.

The Java that Tidemark asks for may be a runtime without a compiler, so the compiler is a jar as well: Eclipse's.
"""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import tidemark
from tidemark.services.errors import ServiceFailed
from tidemark.services.manifest import cache_dir, classpath

SOURCES = Path(tidemark.__file__).parent / "jvm"
RELEASE = "17"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def own_jar(java: Path, against: Sequence[str]) -> Path:
    """The jar, compiled if this version of the sources was not yet; `against` is the class path that it will join.

    Raises:
        ServiceFailed: it does not compile against these jars.
    """
    sources = sorted(SOURCES.rglob("*.java"))
    digest = hashlib.sha256("\n".join(Path(jar).name for jar in against).encode())
    for source in sources:
        digest.update(source.relative_to(SOURCES).as_posix().encode() + source.read_bytes())
    jar = cache_dir() / "jvm" / f"tidemark-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        _compile(java, sources, against, jar)
    return jar


def _compile(java: Path, sources: Sequence[Path], against: Sequence[str], jar: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, log, made = Path(folder, "classes"), Path(folder, "log"), Path(folder, "jar")
        beside = os.pathsep.join(str(file) for each in against for file in _files(each))
        command = [str(java), "-jar", *classpath("compiler"), "--release", RELEASE, "-nowarn", "-cp", beside]
        with log.open("wb") as out:
            ended = subprocess.run(
                [*command, "-encoding", "UTF-8", "-d", classes, *sources], check=False, stdout=out, stderr=out
            )
        if ended.returncode:
            raise ServiceFailed("spark", "cannot be given Tidemark's classes, which do not compile", log)
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
            for each in sorted(classes.rglob("*.class")):
                packed.writestr(
                    zipfile.ZipInfo(each.relative_to(classes).as_posix(), _LONG_AGO), each.read_bytes()
                )
        made.replace(jar)  # another process may have made the same one


def _files(jar: str) -> list[Path]:
    return sorted(Path(jar).parent.glob("*.jar")) if jar.endswith("/*") else [Path(jar)]
