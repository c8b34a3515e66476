"""PostgreSQL of the jars that other projects embed it from: nothing has to be installed.

`python tests/support/postgres.py` pins them anew (needs the network).
"""

import io
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg2
import pytest
from guarded import Guarded, free_port

from tidemark.services.download import fetch_artifacts
from tidemark.services.manifest import Artifact, cached
from tidemark.services.pin import pinned
from tidemark.services.ports import LOOPBACK

PINS = Path(__file__).with_name("postgres.json")
MACHINES = {("Linux", "x86_64"): "linux-amd64", ("Linux", "aarch64"): "linux-arm64v8"}
JAR = "io.zonky.test.postgres:embedded-postgres-binaries-{}:16.6.0"
USER, PASSWORD = "tide", "m@rk/1"


@contextmanager
def postgres(warehouse: Path) -> Iterator[tuple[Guarded, dict[str, str]]]:
    """The server, and the `catalog` block of a platform file with it."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # not pytest's, which is its user's alone
    user = "" if os.geteuid() else "nobody"  # root may not run it
    try:
        _unpack(folder)
        (folder / "password").write_text(PASSWORD)
        initial = ["-D", "data", "-U", USER, "--pwfile=password", "--auth=scram-sha-256", "-E", "UTF8"]
        if user:
            shutil.chown(folder, user)
            folder.chmod(0o755)
        subprocess.run(
            [folder / "bin" / "initdb", *initial, "--no-sync"],
            cwd=folder,
            user=user or None,
            check=True,
            capture_output=True,
        )
        port = free_port()
        options = ["-D", folder / "data", "-h", LOOPBACK, "-p", str(port), "-k", "", "-c", "fsync=off"]
        uri = f"postgresql://{USER}:{quote(PASSWORD, safe='')}@{LOOPBACK}:{port}/postgres"
        server = Guarded(
            [folder / "bin" / "postgres", *options],
            folder / "log",
            lambda: _answers(uri),
            user=user,
            number=signal.SIGQUIT,  # it leaves as if it had crashed, and takes its children along
        )
        server.start()
        try:
            yield server, _block(uri, warehouse)
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)


def _block(uri: str, warehouse: Path) -> dict[str, str]:
    driver = uri.replace("postgresql", "postgresql+psycopg2")
    return {"name": "pg", "type": "sql", "uri": driver, "warehouse": warehouse.as_uri()}


def _unpack(folder: Path) -> None:
    machine = MACHINES.get((platform.system(), platform.machine()))
    if machine is None:
        pytest.skip(f"no PostgreSQL is pinned for {platform.system()} on {platform.machine()}")
    entries = [Artifact(**entry) for entry in json.loads(PINS.read_text())]
    [jar] = [each for each in entries if each.name.endswith(machine)]
    fetch_artifacts([jar])
    with zipfile.ZipFile(cached(jar)) as archive:
        [packed] = [name for name in archive.namelist() if name.endswith(".txz")]
        with tarfile.open(fileobj=io.BytesIO(archive.read(packed))) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder)  # noqa: S202 - its bytes are the pinned ones


def _answers(uri: str) -> bool:
    try:
        psycopg2.connect(uri).close()
    except psycopg2.OperationalError:
        return False
    return True


if __name__ == "__main__":
    PINS.write_text(json.dumps([pinned(JAR.format(each)) for each in MACHINES.values()], indent=1) + "\n")
