"""What many microbatches cost readers, and what maintenance costs and gives back.

    tidemark services up
    python bench/maintenance.py --batches 300 --records 200

Two tables are fed the same microbatches, one of them maintained every 30. Then: scans, planning and metadata of both
and of a fresh rewrite; compaction beside a plain rewrite_data_files; ingest while compaction runs. Figures depend on
the machine: quote the ratios.
"""

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent))
from cpu import cpu_of
from records import create, produce
from upsert import beside

from tidemark.domain.config.contract import Contract
from tidemark.domain.maintenance.compaction import HOT_FACTOR
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.lane.catch_up import catch_up
from tidemark.engine.maintain.maintain import maintain
from tidemark.services.stack import Stack

EVERY = 30
SCAN, MEANWHILE = 1.2, 0.8
"""Goals: a scan over that of a fresh rewrite, at most; ingest while compaction runs over ingest alone, at least."""
CALL = "CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map('min-input-files', '2'))"


class Bench:
    """One run: a topic, a table that is left alone, and one that is maintained."""

    def __init__(
        self, lake: Lake, stack: dict[str, Any], batches: int, records: int, topic: str | None
    ) -> None:
        self.lake, self.stack, self.batches, self.records = lake, stack, batches, records
        self.topic = topic or f"bench_{uuid4().hex[:8]}"
        self.schema_id = create(stack, self.topic, 3)
        self.sent = sum(lake.kafka("main").describe([self.topic])[self.topic].end.values())
        self.alone, self.kept = (self._contract(name) for name in ("alone", "kept"))

    def _contract(self, name: str) -> Contract:
        return Contract(
            topic=self.topic,
            table=f"bench.{self.topic}_{name}",
            partition_by=("day(ordered_at)",),
            maintenance={"snapshots": {"max_age": "5m", "min_keep": 20, "max_count": 60}},
        )

    def feed(self, records: int) -> None:
        """So many orders more."""
        produce(self.stack, self.topic, self.schema_id, self.sent, records, 3)
        self.sent += records

    def microbatches(self) -> None:
        """Feed both tables; print planning times on the way."""
        for batch in range(self.sent // self.records + 1, self.batches + 1):
            self.feed(self.records)
            for contract in (self.alone, self.kept):
                while error := catch_up(self.lake, contract, "bench").error:
                    print(f"{batch:>5}: {contract.table}: {error['message']}", flush=True)
            if batch % EVERY == 0:
                began = time.perf_counter()
                done = list(maintain(self.lake, self.kept, ("compaction", "snapshot_expiry")))
                told = "; ".join(
                    f"{g.kind} {g.numbers.get('commits', g.numbers.get('snapshots_after'))}"
                    for g in done
                    if g.acted
                )
                print(
                    f"{batch:>5} batches: planning alone {self.planning(self.alone):6.0f} ms, kept "
                    f"{self.planning(self.kept):6.0f} ms; maintenance {time.perf_counter() - began:.1f} s: {told}",
                    flush=True,
                )

    def planning(self, contract: Contract) -> float:
        """Milliseconds to load the table and plan a full scan."""
        began = time.perf_counter()
        list(self.lake.catalog.load_table(contract.table).scan().plan_files())
        return (time.perf_counter() - began) * 1000

    def look(self, name: str, contract: Contract) -> tuple[float, float]:
        """One line of the table of scans; seconds of the whole and of one day."""
        table = self.lake.catalog.load_table(contract.table)
        identifier = self.lake.identifier(contract.table)
        scan = f"SELECT count(*), sum(amount), max(_kafka.offset) FROM {identifier}"
        day = " WHERE ordered_at >= TIMESTAMP '2026-01-02' AND ordered_at < TIMESTAMP '2026-01-03'"
        whole, part = (
            self._median(lambda s=s: self.lake.spark().sql(s).collect()) for s in (scan, scan + day)
        )
        files = len(list(table.scan().plan_files()))
        size = Path(urlparse(table.metadata_location).path).stat().st_size
        head = table.current_snapshot()
        manifests = len(head.manifests(table.io)) if head else 0
        print(
            f"{name:>12} {files:>6} {manifests:>9} {len(table.metadata.snapshots):>9} "
            f"{size / 1024:>10.0f} {self.planning(contract):>8.0f} {whole * 1000:>9.0f} {part * 1000:>9.0f}",
            flush=True,
        )
        return whole, part

    @staticmethod
    def _median(work: Callable[[], Any], times: int = 5) -> float:
        work()
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    def compaction(self) -> None:
        """Tidemark's compaction of the table left alone, then the plain procedure on the same files."""
        head = self.lake.state(self.alone.table).head
        cold = self.alone.model_copy(update={"maintenance": self.alone.maintenance})
        cpu, seconds, gains = self._measured(lambda: list(maintain(self.lake, cold, ("compaction",))))
        size = gains[0].numbers.get("bytes_rewritten", 0) / 1e6
        print(f"compaction: {size:.1f} MB, {size / seconds:.2f} MB/s, {cpu:.1f} s CPU ({gains[0].reason})")
        catalog = self.lake.platform.catalog.name
        self.lake.spark().sql(
            f"CALL {catalog}.system.rollback_to_snapshot('{self.alone.table}', {head})"
        ).collect()
        call = CALL.format(catalog=catalog, table=self.alone.table)
        cpu, seconds, (row,) = self._measured(lambda: self.lake.spark().sql(call).collect())
        size = row["rewritten_bytes_count"] / 1e6
        print(f"plain procedure: {size:.1f} MB, {size / seconds:.2f} MB/s, {cpu:.1f} s CPU")

    def beside(self) -> None:
        """Microbatches alone, then while the table is compacted again and again."""
        quiet = self._pace()
        small = {"compaction": {"min_input_files": 2, "target_file_size": "1GB"}}
        busy = Contract(**{**self.kept.model_dump(), "maintenance": small})
        over, done, other = threading.Event(), [], Lake(self.lake.configuration)

        def again() -> None:
            while not over.is_set():
                done.extend(g for g in maintain(other, busy, ("compaction",)) if g.acted)
                time.sleep(0.5)

        thread = threading.Thread(target=again)
        thread.start()
        meanwhile = self._pace()
        over.set()
        thread.join()
        other.close()
        print(
            f"ingest: {quiet:.0f} records/s alone, {meanwhile:.0f} while {len(done)} compactions ran "
            f"({meanwhile / quiet:.0%}, goal at least {MEANWHILE:.0%}); conflicts "
            f"{sum(g.numbers['conflicts'] for g in done):.0f}"
        )

    def _pace(self, batches: int = 8) -> float:
        spent = 0.0
        for _ in range(batches):
            self.feed(self.records * HOT_FACTOR)
            began = time.perf_counter()
            catch_up(self.lake, self.kept, "bench")
            spent += time.perf_counter() - began
        return batches * self.records * HOT_FACTOR / spent

    def _measured(self, work: Callable[[], Any]) -> tuple[float, float, Any]:
        began, before = time.perf_counter(), cpu_of(self.stack)
        found = work()
        return cpu_of(self.stack) - before, time.perf_counter() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--records", type=int, default=200)
    parser.add_argument("--topic", help="go on with an earlier run")
    arguments = parser.parse_args()
    stack = Stack(Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))).status()
    bench = Bench(Lake(load_from_environment()), stack, arguments.batches, arguments.records, arguments.topic)
    bench.microbatches()
    print("                files manifests snapshots   json KiB  plan ms   scan ms    day ms")
    bench.look("alone", bench.alone)
    kept = bench.look("maintained", bench.kept)
    bench.compaction()
    rewrite = CALL.replace("'min-input-files', '2'", "'rewrite-all', 'true'")
    name = {"catalog": bench.lake.platform.catalog.name, "table": bench.alone.table}
    bench.lake.spark().sql(rewrite.format(**name)).collect()
    fresh = bench.look("rewritten", bench.alone)
    whole, day = (beside(one / other, SCAN) for one, other in zip(kept, fresh, strict=True))
    print(f"maintained over freshly rewritten: full scan {whole}, one day {day}")
    bench.beside()
    bench.lake.close()


if __name__ == "__main__":
    main()
