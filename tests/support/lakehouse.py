"""A topic and its table as a test tells them: write the contract, run, kill, look.

In-process runs call the engine; `Run` starts it in a process of its own, which a test may stop at a named line of the
commit path and SIGKILL there.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import headless
import oracle
import yaml
from confluent_kafka import KafkaException
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table as IcebergTable
from pyspark.sql import SparkSession
from topics import Cluster, Topic
from waiting import until

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.domain.outcome import Outcome
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.spark import connect
from tidemark.engine.access.spark_limits import NO_CODE
from tidemark.engine.config.configuration import Configuration, load
from tidemark.engine.lane.catch_up import catch_up
from tidemark.services.stack import Stack

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parent.parent
NAMESPACE = "proof"


@dataclass
class Lakehouse:
    """A running stack and a contracts folder of one test."""

    home: Path
    contracts: Path
    status: Mapping[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    runs: list["Run"] = field(default_factory=list)
    """What was started in processes of their own."""
    makes_code: bool = False
    """Whether Spark makes code for whatever the in-process runs do, as it does where many rows are at work.

    It is what most of a test's CPU goes to, and Spark's own affair; processes of their own have it as the product does.
    """

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.status["kafka"]["bootstrap.servers"], self.status["schema_registry"]["url"])

    @cached_property
    def catalog(self) -> Catalog:
        block = self.status["catalog"]
        return load_catalog(block["name"], **block["properties"])

    @cached_property
    def lake(self) -> Lake:
        return self.open_lake()

    def open_lake(self, *, session: Callable[[], SparkSession] | None = None) -> Lake:
        """Clients of their own, as every process has them."""
        return Lake(self.configuration(), session=session or self._session)

    def _session(self) -> SparkSession:
        spark = connect(self.status["spark"]["remote"])
        for key, value in ({} if self.makes_code else NO_CODE).items():
            spark.conf.set(key, value)
        return spark

    def configuration(self) -> Configuration:
        return load(None, self.contracts, environ=os.environ, home=self.home)

    def commit_group(self, group: str, topic: str, following: Mapping[int, int]) -> None:
        """What a consumer group has read; a new broker takes a moment until it keeps what groups commit."""

        def taken() -> bool:
            try:
                self.lake.kafka("main").commit_group(group, topic, following)
            except (KafkaException, Outage):
                return False
            return True

        until(taken, "the broker to keep what groups commit")

    def spark(self) -> SparkSession:
        """The session of the in-process runs, for looking."""
        return self.lake.spark()

    def heal(self) -> None:
        """Start again whatever a test has killed; every client finds it at its old address."""
        before, self.status = self.status, Stack(self.home).up()
        for block in ("kafka", "schema_registry", "spark"):
            assert self.status[block] == before[block], f"{block} has moved from {before[block]}"

    def kill_runs(self) -> None:
        """SIGKILL those that a test that failed has left, paused as a rule."""
        for run in self.runs:
            if run.process.poll() is None:
                run.kill()

    def close(self) -> None:
        for name in ("lake", "catalog"):
            found = self.__dict__.pop(name, None)
            if name == "lake" and found is not None:
                try:
                    found.close()
                except Exception as error:  # noqa: BLE001 - its server may have been killed
                    print(f"closing a lake whose server is gone: {error}")

    def kill(self, service: str) -> None:
        """SIGKILL a service of the stack and wait until it is gone."""
        pid = Stack(self.home).status()["processes"][service]
        os.kill(pid, signal.SIGKILL)
        until(lambda: Stack(self.home).status()["processes"][service] is None, f"{service} to be gone")

    @contextmanager
    def hanging(self, service: str) -> Iterator[None]:
        """Within the block a service of the stack lives and does nothing."""
        pid = Stack(self.home).status()["processes"][service]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def table(self, topic: Topic, name: str | None = None, **contract: Any) -> "Table":
        """Write the contract of `topic`; a second call replaces it."""
        table = f"{NAMESPACE}.{name or topic.name}"
        content = {"topic": topic.name, "table": table, **contract}
        (self.contracts / f"{table}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return Table(self, topic, table)


@dataclass(frozen=True)
class Table:
    """One table of a lakehouse, with the topic it is fed from."""

    lakehouse: Lakehouse
    topic: Topic
    name: str

    @property
    def contract(self) -> Contract:
        return next(c for c in self.lakehouse.configuration().contracts if c.table == self.name)

    def run(self, *, loaded_before: bool = False, lake: Lake | None = None, run_id: str = "test") -> Outcome:
        """One run in this process, until it has caught up."""
        return catch_up(lake or self.lakehouse.lake, self.contract, run_id, loaded_before=loaded_before)

    def start(self, *, pause_at: str | None = None, command: Sequence[str] | None = None) -> "Run":
        """The same in a process of its own."""
        return Run.start(self.lakehouse, [self.name], pause_at=pause_at, command=command)

    def act(self, verb: Mapping[str, Any], *, pause_at: str | None = None) -> "Run":
        """What an operator asks for, as `headless.change` takes it, in a process of its own."""
        return Run.start(self.lakehouse, [self.name, json.dumps(verb)], pause_at=pause_at)

    def iceberg(self) -> IcebergTable:
        return self.lakehouse.catalog.load_table(self.name)

    @property
    def snapshots(self) -> int:
        return len(self.iceberg().metadata.snapshots)

    @property
    def head(self) -> int | None:
        return self.iceberg().metadata.current_snapshot_id

    @property
    def branches(self) -> set[str]:
        """Attempt branches that are still there."""
        return {
            name
            for name in self.iceberg().metadata.refs
            if name.startswith("tidemark_") and name != "tidemark_ledger"
        }

    @property
    def ledger(self) -> dict[str, Any]:
        return oracle.ledgers(self.iceberg())[-1]

    def ids(self) -> list[int]:
        """The column `id` as PyIceberg reads it, sorted."""
        return sorted(self.iceberg().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())

    def rows(self) -> list[dict[str, Any]]:
        """All rows by `id` as PyIceberg reads them, without `_kafka`."""
        found = self.iceberg().scan().to_arrow().sort_by("id").to_pylist()
        return [{name: row[name] for name in row if name != "_kafka"} for row in found]

    def causes(self) -> dict[str, int]:
        """Unresolved quarantine rows by cause."""
        found = oracle.quarantined_by_pyiceberg(self.lakehouse.catalog, self.name)["cause"].to_pylist()
        return {cause: found.count(cause) for cause in set(found)}

    def holds_everything(self, **how: Any) -> oracle.Verdict:
        """The oracle's verdict by PyIceberg, and Spark sees the same rows; the files are sound."""
        verdict = oracle.exactly_once(
            self.lakehouse.catalog, self.lakehouse.cluster.bootstrap, self.topic.name, self.name, **how
        )
        loaded = self.iceberg()
        by_spark = oracle.count_by_spark(self.lakehouse.spark(), self.name)
        by_pyiceberg = oracle.count_by_pyiceberg(loaded)
        assert by_spark == by_pyiceberg, f"{self.name}: Spark reads {by_spark}, PyIceberg {by_pyiceberg}"
        oracle.files_are_sound(loaded)
        return verdict


@dataclass
class Run:
    """A run in a process of its own: the engine's by default, or `tidemark <command>` with the tables."""

    process: headless.Forked
    marker: Path
    log: Path

    @classmethod
    def start(
        cls,
        lakehouse: Lakehouse,
        tables: Sequence[str],
        *,
        pause_at: str | None = None,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "Run":
        stem = lakehouse.contracts.parent / f"run-{time.monotonic_ns()}"
        marker, log = stem.with_suffix(".paused"), stem.with_suffix(".log")
        environ = {
            **os.environ,
            **lakehouse.environment,
            **(environment or {}),
            "TIDEMARK_HOME": str(lakehouse.home),
            "TIDEMARK_CONTRACTS": str(lakehouse.contracts),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(SUPPORT)]),
        }
        if pause_at:
            environ |= {"TIDEMARK_PAUSE_AT": pause_at, "TIDEMARK_PAUSE_FILE": str(marker)}
        log.touch()
        output = stem.with_suffix(".out")
        if command is None:
            process = headless.start(tables, environ, output, log)
        else:
            process = headless.command([*command, *tables], environ, output, log)
        run = cls(process, marker, log)
        lakehouse.runs.append(run)
        return run

    def reaches_its_pause(self, seconds: float = 90) -> int:
        """Wait until the run stands at its pause point; the pid that stands there."""
        until(
            lambda: (self.marker.exists() and self.marker.read_text()) or self._ended(),
            f"the run to reach its pause point; {self._last_words()}",
            seconds,
        )
        assert not self._ended(), f"the run ended before its pause point: {self._last_words()}"
        return int(self.marker.read_text())

    def kill(self) -> None:
        """SIGKILL the process that does the work, and the one that started it."""
        if self.marker.exists():
            with suppress(ProcessLookupError):
                os.kill(int(self.marker.read_text()), signal.SIGKILL)
        self.process.kill()
        self.process.communicate()

    def dies(self) -> None:
        """SIGKILL at its pause point."""
        self.reaches_its_pause()
        self.kill()

    def release(self) -> None:
        """Let a paused run go on."""
        self.marker.unlink()

    def result(self, seconds: float = 400) -> list[dict[str, Any]]:
        """Wait for the end; what the run printed."""
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the run did not end within {seconds} s: {self._last_words()}") from None
        try:
            return list(json.loads(out))
        except ValueError as error:
            raise AssertionError(f"the run printed {out!r}: {self._last_words()}") from error

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def _last_words(self) -> str:
        """What it said so far: its log, and what it printed when it had ended."""
        return self.log.read_text(encoding="utf-8")[-2000:] + self.process.printed()[-2000:]


def at_once(runs: Iterable[Run]) -> list[Run]:
    """Runs of which none goes on before each has reached its pause point."""
    started = list(runs)
    for run in started:
        run.reaches_its_pause()
    for run in started:
        run.release()
    return started


def lakehouse(status: Mapping[str, Any], folder: Path, *, makes_code: bool = False) -> Iterator[Lakehouse]:
    """A lakehouse for a fixture: fresh contracts, a stack that is healthy afterwards."""
    contracts = folder / "contracts"
    contracts.mkdir()
    home = Path(status["home"])
    made = Lakehouse(
        home, contracts, Stack(home).status(), makes_code=makes_code
    )  # an earlier test may have restarted a service
    try:
        yield made
    finally:
        made.kill_runs()
        made.close()
        gone = [name for name, pid in Stack(made.home).status()["processes"].items() if pid is None]
        for service in gone:
            last_words = (made.home / "logs" / f"{service}.log").read_text(encoding="utf-8", errors="replace")
            print(f"{service} is gone: {last_words[-3000:]}")
        if gone:
            Stack(made.home).up()
