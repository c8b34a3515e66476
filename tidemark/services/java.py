"""Find a Java that Spark 4.1 and Kafka 4.3 run on: JAVA_HOME, then our own, then the PATH."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tidemark.services.errors import DownloadFailed, JavaMissing
from tidemark.services.manifest import cache_dir

OLDEST, INSTALLED = 17, 21
WAYS = (
    "install Java 17, 21 or 25 (Debian 12, Ubuntu 24.04 or newer: apt install default-jre-headless; Fedora: dnf "
    "install java-21-openjdk-headless; macOS: brew install openjdk@21) and set JAVA_HOME if it is not on the PATH, "
    "or let Tidemark fetch one for itself: tidemark services install-java"
)


def find_java() -> Path:
    """The java executable to run services with; raises JavaMissing with every way to get one."""
    seen = []
    for java in _candidates():
        version = version_of(java)
        if version is not None and version >= OLDEST:
            return java
        seen.append(f"{java} is {f'Java {version}' if version else 'not a Java that answers'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise JavaMissing(f"Java {OLDEST} or newer was not found{found}", next_step=WAYS)


@cache
def version_of(java: Path) -> int | None:
    """The major version that an executable reports, None when it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def _own_java_dir() -> Path:
    """Where `install-java` puts a JDK of its own; removing the folder undoes it."""
    return cache_dir() / "java"


def install_java() -> Path:
    """Fetch a JDK into the cache; the caller has asked for consent.

    Raises:
        OSError: the cache takes nothing; said before anything is fetched.
        DownloadFailed: Adoptium does not answer, or what it sends cannot be unpacked.
    """
    import jdk  # noqa: PLC0415 - asks for the system's kind when it is imported

    folder = _own_java_dir()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        jdk.install(str(INSTALLED), path=str(folder))
    except jdk.JdkError as error:
        raise DownloadFailed(
            f"Java {INSTALLED} could not be fetched into {folder}: {error}",
            next_step="check the network (a proxy goes into HTTPS_PROXY), or install Java yourself",
        ) from error
    return find_java()


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    yield from sorted(_own_java_dir().glob("*/bin/java"), reverse=True)
    yield from sorted(_own_java_dir().glob("*/Contents/Home/bin/java"), reverse=True)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def main() -> None:
    """For the Makefile: nothing when Java is there, else how to get it, exit code 2."""
    try:
        find_java()
    except JavaMissing as error:
        command = Path(sys.executable).with_name("tidemark")  # which `make` has not put on the PATH
        sys.stderr.write(f"{error}\n".replace("tidemark services", f"{shlex.quote(str(command))} services"))
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
