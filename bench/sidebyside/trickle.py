"""How fresh tables are while their topics trickle, by peer: record produced → readable by another process.

    python -m bench.sidebyside.trickle --topics 20 --rate 10 --every 2 --minutes 10
    python -m bench.sidebyside.trickle --every 60 --peers tidemark connect

`rate` is records per second over all topics; `every` the commit interval of the peers and Tidemark's target_lag. Also
printed: commits per table and minute, CPU (start excluded) and the highest memory of everything that the peer runs,
and what all of it costs while nothing is produced.
"""

import argparse
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import Producer
from pyiceberg.catalog import Catalog

from bench.sidebyside.freshness import Freshness, save
from bench.sidebyside.ground import NAMESPACE, Ground, Stream, ground
from bench.sidebyside.meter import Meter
from bench.sidebyside.peers.connect import Connect
from bench.sidebyside.peers.flink import Flink
from bench.sidebyside.peers.spark_streaming import SparkStreaming
from bench.sidebyside.peers.tidemark import Tidemark
from bench.sidebyside.workload import WORKLOADS
from tidemark.services.catalog import LocalCatalog

LOOK = 0.1
"""Seconds between two looks at the tables: the precision of the figures."""
LOCATIONS = "SELECT table_name, metadata_location FROM iceberg_tables"
"""A look at the catalog alone: one that loaded each table would take a third of a core from whom it measures."""
SETTLE = 60.0
"""Seconds after the start that do not count: processes come up, tables are made."""
PEERS = (Tidemark(), Connect(), Flink("flink"), SparkStreaming("spark", "", 2_000_000))
ORDERS = WORKLOADS["orders"]


@dataclass
class Watched:
    """One table: when each of its records was produced, how many are readable, and how long each took."""

    stream: Stream
    schema_id: int
    produced: list[float] = field(default_factory=list)
    readable: int = 0
    seen: str = ""
    snapshot: int | None = None
    commits: int = 0
    waits: list[tuple[float, float]] = field(default_factory=list)

    def look(self, catalog: Catalog, location: str) -> None:
        """Count what the current snapshot holds, unless it is that of the last look."""
        if location == self.seen:
            return
        self.seen = location
        snapshot = catalog.load_table(self.stream.table).current_snapshot()
        if snapshot is None or snapshot.snapshot_id == self.snapshot or snapshot.summary is None:
            return
        self.snapshot, now = snapshot.snapshot_id, time.time()
        rows = int(snapshot.summary["total-records"] or 0)
        self.commits += rows > self.readable
        self.waits += [(at, now - at) for at in self.produced[self.readable : rows]]
        self.readable = rows


def measured(place: Ground, peer: Any, given: argparse.Namespace) -> Freshness:
    """One peer for so many minutes."""
    tables = [_declared(place, peer, number) for number in range(given.topics)]
    stop = Event()
    producer = Thread(target=_produce, args=(place.bootstrap, tables, given.rate, stop), daemon=True)
    with Meter(place.home / f"trickle-{peer.name}.log") as meter:
        with peer.trickle(place, [each.stream for each in tables], given.every, meter):
            producer.start()
            _watch(place, tables, SETTLE)
            database = _size(place.home / "dagster")
            began, cpu, commits = time.time(), meter.cpu(), sum(each.commits for each in tables)
            _watch(place, tables, given.minutes * 60)
            minutes = (time.time() - began) / 60
            grown = (_size(place.home / "dagster") - database) / minutes * 60 / 1e6
            cores = (meter.cpu() - cpu) / minutes / 60
            commits = sum(each.commits for each in tables) - commits
            stop.set()
            producer.join()
            _watch(place, tables, given.every + 30)
            idle, quiet = meter.cpu(), time.time()
            time.sleep(given.idle)
            idle = (meter.cpu() - idle) / (time.time() - quiet)
        memory = meter.stop().memory
    waits = sorted(wait for each in tables for at, wait in each.waits if at >= began)
    p50, p95 = (waits[int((len(waits) - 1) * share)] for share in (0.5, 0.95))
    commits_each = commits / given.topics / minutes
    return Freshness(
        peer.name, given.every, len(waits), p50, p95, waits[-1], commits_each, cores, idle, memory, grown
    )


def _declared(place: Ground, peer: Any, number: int) -> Watched:
    name = f"{peer.name.replace(' ', '_')}_{number:03}"
    schema_id = place.declare(ORDERS, f"trickle_{name}", 1)
    stream = Stream(f"trickle_{name}", f"{NAMESPACE}.trickle_{name}", ORDERS)
    if not isinstance(peer, Tidemark):
        place.create_table(stream.table, ORDERS)
    return Watched(stream, schema_id)


def _produce(bootstrap: str, tables: list[Watched], rate: float, stop: Event) -> None:
    """One record at a time, to any table at any moment: evenly in turn it would keep step with a commit interval."""
    chance = random.Random(1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    values = [ORDERS.values(1_000_000, each.schema_id) for each in tables]
    while not stop.wait(chance.expovariate(rate)):
        number = chance.randrange(len(tables))
        table = tables[number]
        table.produced.append(time.time())
        producer.produce(table.stream.topic, next(values[number]))
        producer.flush()


def _watch(place: Ground, tables: list[Watched], seconds: float) -> None:
    end = time.time() + seconds
    with closing(sqlite3.connect(LocalCatalog(place.home).file, timeout=60)) as catalog:
        while time.time() < end:
            locations = dict(catalog.execute(LOCATIONS))
            for each in tables:
                if found := locations.get(each.stream.table.rpartition(".")[2]):
                    each.look(place.catalog, found)
            time.sleep(LOOK)


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--every", type=int, default=2, help="seconds")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--idle", type=float, default=60, help="seconds of quiet that are measured at the end"
    )
    parser.add_argument(
        "--peers", nargs="+", choices=[p.name for p in PEERS], default=[p.name for p in PEERS]
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = []
    for peer in (each for each in PEERS if each.name in given.peers):
        with ground() as place:
            peer.prepare(place)
            found.append(measured(place, peer, given))
        f = found[-1]
        print(
            f"{f.peer:>9} every {f.every} s, {given.topics} topics, {f.records} records: produced → readable p50 "
            f"{f.p50:.1f} s, p95 {f.p95:.1f} s, max {f.most:.1f} s; {f.commits:.1f} commits per table and minute; "
            f"{f.cores:.2f} cores, idle {f.idle_cores:.3f}, {f.memory} MiB; "
            f"database {f.database:.1f} MB/hour",
            flush=True,
        )
    print(f"in {save(found, vars(given))}")


if __name__ == "__main__":
    main()
