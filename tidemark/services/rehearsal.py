"""A second Spark server that does what every batch does and ends: `python -m … HOME JAVA [EXTRA …]`.

As it ends it leaves the class archive with which all later servers of this environment start in half the time. Once per
environment, behind the first `services up`, with the least priority; `services down` ends it.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil

from tidemark.domain.formats.avro_decoder import AVRO_OPTIONS
from tidemark.services.catalog import LocalCatalog
from tidemark.services.class_archive import ClassArchive, folder, forget_oldest
from tidemark.services.errors import ServiceFailed
from tidemark.services.manifest import ArtifactSet
from tidemark.services.ports import Ports
from tidemark.services.processes import MARK, Mark, has_ended, start, stop
from tidemark.services.service import Place
from tidemark.services.spark import Spark

FOLDER = "rehearsal"
NICE = 19
PATIENCE = 600.0
"""Seconds for its end: it gets what others leave of the machine."""
_TERMINATED = 128 + signal.SIGTERM
"""What the JVM ends with once it has tidied up."""
_HEAP = "-Xmx640m"


def begin(home: Path, java: Path, extras: Sequence[ArtifactSet]) -> None:
    """Start it in the background if there is no archive yet; its log is logs/rehearsal.log."""
    if _archive(java, extras).path.exists():
        return
    with (home / "logs" / "rehearsal.log").open("ab") as out:
        subprocess.Popen(
            [sys.executable, "-m", "tidemark.services.rehearsal", str(home), str(java), *extras],
            env={**os.environ, MARK: str(_mark(home))},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def end(home: Path) -> None:
    """Stop it, if it is under way; the next `services up` begins anew."""
    stop(_mark(home), patience=1)
    shutil.rmtree(home / FOLDER, ignore_errors=True)


def _mark(home: Path) -> Mark:
    """What all its processes are known by: a Spark of a home of its own."""
    return Mark.of("spark", home / FOLDER)


def rehearse(home: Path, java: Path, extras: Sequence[ArtifactSet]) -> None:
    """Make the archive unless it is there or another process makes one; below `home`, of which nothing is left."""
    archive = _archive(java, extras)
    with _alone() as alone:
        if not alone or archive.path.exists():
            return
        place = home / FOLDER
        shutil.rmtree(place, ignore_errors=True)
        try:
            for left in folder().glob("*.new"):  # of rehearsals that were ended
                left.unlink()
            aside = folder() / f"{archive.path.name}.new"
            _run(Place(place, java, Ports(place / "ports.json")), _mark(home), extras, aside)
            aside.touch()  # empty: this java cannot make one, and is not asked again
            aside.replace(archive.path)
            forget_oldest()
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _run(place: Place, mark: Mark, extras: Sequence[ArtifactSet], aside: Path) -> None:
    spark = Spark(tuple(extras))
    place.ports.settle(spark.ports)
    LocalCatalog(place.home).create()
    command = spark.command(place)
    options = [*command.options, _HEAP, *ClassArchive.make(aside)]
    server = psutil.Process(start(replace(command, options=options), mark, place.log("spark")))
    try:
        _let_other_sessions_first(server.pid)
        while not spark.is_ready(place):
            if has_ended(server.pid):
                raise ServiceFailed("spark", "ended while it was started for a rehearsal", place.log("spark"))
            time.sleep(0.5)
        _walk(spark.remote(place))
        server.terminate()  # its last act is the archive
        ended = server.wait(PATIENCE)
        if ended != _TERMINATED:
            raise ServiceFailed(
                "spark", f"ended with {ended} in the middle of a rehearsal", place.log("spark")
            )
    finally:
        if server.is_running():
            server.kill()


def _walk(remote: str) -> None:
    """What batches and merges do: create, write to a branch, MERGE, decode."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - `services up` does without

    spark = SparkSession.builder.remote(remote).create()
    schema = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}'
    try:
        spark.sql("CREATE NAMESPACE lake.rehearsal")
        spark.sql(
            "CREATE TABLE lake.rehearsal.t (id BIGINT, at TIMESTAMP, v STRING) PARTITIONED BY (days(at)) "
            "TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"
        )
        rows = spark.sql("SELECT id, timestamp_seconds(id) AS at, CAST(id AS STRING) AS v FROM range(20)")
        rows.writeTo("lake.rehearsal.t").option("snapshot-property.rehearsal", "1").append()
        spark.sql("ALTER TABLE lake.rehearsal.t CREATE BRANCH stage")
        rows.writeTo("lake.rehearsal.t.branch_stage").append()
        spark.sql(
            "MERGE INTO lake.rehearsal.t t USING (SELECT * FROM lake.rehearsal.t WHERE id < 5) s ON t.id = s.id "
            "WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        spark.sql("ALTER TABLE lake.rehearsal.t DROP BRANCH stage")
        options = ", ".join(f"'{key}', '{value}'" for key, value in AVRO_OPTIONS.items())
        value = "CAST(CAST(id AS STRING) AS BINARY)"
        spark.sql(f"SELECT from_avro({value}, '{schema}', map({options})) AS r FROM range(1)").collect()
    finally:
        spark.stop()


def _stand_back() -> None:
    """Let all others go first, and be the first to go when memory runs out."""
    os.nice(NICE)
    _let_other_sessions_first(os.getpid())
    with suppress(OSError):  # there is no such file but on Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


def _let_other_sessions_first(pid: int) -> None:
    """Where Linux shares the processor among sessions (autogroup), a priority counts only within its own."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICE))


def _archive(java: Path, extras: Sequence[ArtifactSet]) -> ClassArchive:
    return Spark(tuple(extras)).archive(java)


@contextmanager
def _alone() -> Iterator[bool]:
    """False when another process of this user rehearses."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / "rehearsal.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


if __name__ == "__main__":
    _, at, with_java, *more = sys.argv
    _stand_back()
    rehearse(Path(at), Path(with_java), cast("list[ArtifactSet]", more))
