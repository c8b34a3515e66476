"""How fresh tables are while their topics trickle: record produced → readable by another process.

    python bench/freshness.py --topics 20 --rate 0.5 --target-lag 10s --minutes 5

Starts a stack and Dagster (webserver, daemon, code server) of its own in a temporary home. This process produces, and
it reads: a record is readable when the catalog's current snapshot counts it. Also printed: commits per table and
minute, CPU and memory of what Tidemark runs beside the services, and the growth of Dagster's database.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

sys.path.insert(0, str(Path(__file__).parent))
from records import create, produce

from tidemark.services.stack import Stack

POLL = 0.1
"""Seconds between two looks at the tables: the precision of the figures."""
SETTLE = 60.0
"""Seconds after the start that do not count: Dagster and the first run come up, tables are made."""


@dataclass
class Watched:
    """One table: when each of its records was produced, how many are readable, and what came of it."""

    topic: str
    schema_id: int
    produced: list[float] = field(default_factory=list)
    readable: int = 0
    snapshot: int | None = None
    commits: int = 0
    waits: list[tuple[float, float]] = field(default_factory=list)

    @property
    def table(self) -> str:
        """Its name."""
        return f"bench.{self.topic}"

    def look(self, catalog: Catalog) -> None:
        """Count what the current snapshot holds."""
        try:
            snapshot = catalog.load_table(self.table).current_snapshot()
        except NoSuchTableError:
            return
        if snapshot is None or snapshot.snapshot_id == self.snapshot or snapshot.summary is None:
            return
        self.snapshot, now = snapshot.snapshot_id, time.time()
        rows = int(snapshot.summary["total-records"] or 0)
        self.commits += rows > self.readable
        self.waits += [(produced, now - produced) for produced in self.produced[self.readable : rows]]
        self.readable = rows


def _produce(stack: dict[str, Any], tables: list[Watched], rate: float, stop: Event) -> None:
    """One record at a time, each table in turn, evenly over time."""
    pause = 1 / rate / len(tables)
    number = 0
    while not stop.wait(pause):
        table = tables[number % len(tables)]
        table.produced.append(time.time())
        produce(stack, table.topic, table.schema_id, number, 1, 1)
        number += 1


@contextmanager
def _dev(home: Path, contracts: Path) -> Iterator[psutil.Process]:
    environ = {**os.environ, "TIDEMARK_HOME": str(home), "TIDEMARK_CONTRACTS": str(contracts)}
    log = (home / "dev.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemark.cli.main", "dev"],
        env=environ,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def _footprint(root: psutil.Process, services: set[int]) -> tuple[float, dict[str, int]]:
    """CPU seconds of Dagster's processes and runs so far, ended children included; memory by kind in MiB."""
    cpu, memory = 0.0, {"dagster": 0, "run": 0}
    for each in (root, *root.children(recursive=True)):
        try:
            if each.pid in services:
                continue
            times = each.cpu_times()
            cpu += times.user + times.system + times.children_user + times.children_system
            kind = "run" if "spawn_main" in " ".join(each.cmdline()) else "dagster"
            memory[kind] = memory[kind] + (each.memory_info().rss >> 20)
        except psutil.NoSuchProcess:
            continue
    return cpu, memory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rate", type=float, default=0.5, help="records per second and topic")
    parser.add_argument("--target-lag", default="10s")
    parser.add_argument("--minutes", type=float, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        _measure(Path(folder), arguments)


def _measure(home: Path, arguments: argparse.Namespace) -> None:
    contracts = home / "contracts"
    contracts.mkdir()
    stack = Stack(home)
    status = stack.up()
    try:
        tables = [Watched(name, create(status, name, 1)) for name in _names(arguments.topics)]
        for each in tables:
            (contracts / f"{each.topic}.yaml").write_text(
                f"topic: {each.topic}\ntable: {each.table}\ntarget_lag: {arguments.target_lag}\n"
            )
        catalog = load_catalog(status["catalog"]["name"], **status["catalog"]["properties"])
        stop = Event()
        producer = Thread(target=_produce, args=(status, tables, arguments.rate, stop), daemon=True)
        services = {pid for pid in status["processes"].values() if pid}
        with _dev(home, contracts) as root:
            producer.start()
            _watch(tables, catalog, SETTLE)
            began, rows = time.time(), {each.table: each.commits for each in tables}
            before, database = _footprint(root, services)[0], _size(home / "dagster")
            peak = _watch(tables, catalog, arguments.minutes * 60, root, services, status)
            minutes = (time.time() - began) / 60
            _print(tables, began, minutes, rows)
            cpu = _footprint(root, services)[0] - before
            grown = _size(home / "dagster") - database
            print(
                f"Dagster: {cpu / minutes / 60:.1%} of a core, {grown / minutes * 60 / 1e6:.1f} MB/hour of database"
            )
            print("peak memory, MiB:", ", ".join(f"{name} {size}" for name, size in peak.items()))
            stop.set()
            producer.join()
    finally:
        stack.down()


def _names(count: int) -> list[str]:
    return [f"trickle_{number:03}" for number in range(count)]


def _watch(
    tables: list[Watched],
    catalog: Catalog,
    seconds: float,
    root: psutil.Process | None = None,
    services: set[int] | None = None,
    status: dict[str, Any] | None = None,
) -> dict[str, int]:
    peak: dict[str, int] = {}
    end = time.time() + seconds
    while time.time() < end:
        for each in tables:
            each.look(catalog)
        if root and services and status:
            _, memory = _footprint(root, services)
            memory["spark"] = psutil.Process(status["processes"]["spark"]).memory_info().rss >> 20
            peak = {name: max(size, peak.get(name, 0)) for name, size in memory.items()}
        time.sleep(POLL)
    return peak


def _print(tables: list[Watched], began: float, minutes: float, before: dict[str, int]) -> None:
    waits = sorted(wait for each in tables for produced, wait in each.waits if produced >= began)
    commits = sum(each.commits - before[each.table] for each in tables) / len(tables) / minutes
    if not waits:
        raise SystemExit("nothing became readable")
    cut = [waits[min(len(waits) - 1, int(len(waits) * share))] for share in (0.5, 0.95)]
    print(
        f"{len(waits)} records of {len(tables)} tables in {minutes:.1f} min: produced → readable "
        f"p50 {cut[0]:.1f} s, p95 {cut[1]:.1f} s, max {waits[-1]:.1f} s; {commits:.1f} commits per table and minute"
    )


if __name__ == "__main__":
    main()
