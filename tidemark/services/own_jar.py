"""Tidemark's own classes for Spark (`tidemark/jvm`), compiled once per version into a jar in the user's cache.

The Java that Tidemark asks for may be a runtime without a compiler, so the compiler is a jar as well: Eclipse's.
`python -m tidemark.services.own_jar` prints the path of the jar, for a Spark server of one's own.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import tidemark
from tidemark.services.download import fetch
from tidemark.services.errors import ServiceError, ServiceFailed
from tidemark.services.java import find_java
from tidemark.services.manifest import artifacts, cache_dir, classpath

SOURCES = Path(tidemark.__file__).parent / "jvm"
LEVEL = "-17"  # not --release, which asks a newer runtime for the files of a JDK
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def own_jar(java: Path) -> Path:
    """The jar, compiled if this version of the sources was not yet against the pinned jars; those must be there.

    Raises:
        ServiceError: as `pyspark_home`.
        ServiceFailed: it does not compile.
    """
    beside = [*map(Path, classpath("spark")), *sorted((pyspark_home() / "jars").glob("*.jar"))]
    sources = sorted(SOURCES.rglob("*.java"))
    digest = hashlib.sha256("\n".join(jar.name for jar in beside).encode())
    for source in sources:
        digest.update(source.relative_to(SOURCES).as_posix().encode() + source.read_bytes())
    jar = cache_dir() / "jvm" / f"tidemark-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        _compile(java, sources, beside, jar)
    return jar


def pyspark_home() -> Path:
    """The folder of pip's pyspark, which has Spark's jars.

    Raises:
        ServiceError: another pyspark comes first: that of a Spark of one's own has its jars elsewhere.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark")
    home = Path(spec.origin).parent
    (release,) = {each.version for each in artifacts("spark") if each.name.startswith("spark-sql-")}
    if not any(home.glob(f"jars/spark-core_*-{release}.jar")):
        raise ServiceError(
            f"Python takes pyspark from {home}, which has not the jars of Spark {release}: PYTHONPATH names "
            "another Spark, or another release was installed",
            next_step=f"unset PYTHONPATH; if it was not set: pip install 'pyspark[connect]=={release}'",
        )
    return home


def _compile(java: Path, sources: Sequence[Path], beside: Sequence[Path], jar: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, made, log = Path(folder, "classes"), Path(folder, "jar"), jar.with_suffix(".log")
        compiler = [str(java), "-jar", *classpath("compiler"), LEVEL, "-nowarn", "-encoding", "UTF-8"]
        options = ["-cp", os.pathsep.join(map(str, beside)), "-d", str(classes)]
        with log.open("wb") as out:
            ended = subprocess.run([*compiler, *options, *sources], check=False, stdout=out, stderr=out)
        if ended.returncode:
            raise ServiceFailed("spark", "cannot be given Tidemark's classes, which do not compile", log)
        log.unlink(missing_ok=True)  # another process may be making the same one
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
            for each in sorted(classes.rglob("*.class")):
                name = zipfile.ZipInfo(each.relative_to(classes).as_posix(), _LONG_AGO)
                packed.writestr(name, each.read_bytes())
        if not jar.exists():
            made.replace(jar)


def main() -> None:
    """For whoever runs a Spark server: the path of the jar, else what is missing, exit code 2."""
    try:
        fetch(("spark", "compiler"))
        sys.stdout.write(f"{own_jar(find_java())}\n")
    except ServiceError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
