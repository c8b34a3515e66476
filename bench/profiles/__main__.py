"""Where the CPU goes, as flame graphs: `python -m bench.profiles drain|microbatch|merge`.

Services of its own start and end with it. The Spark server is sampled by async-profiler (by CPU time, without any
rights), the process of the run by py-spy. A warm-up goes before. Written to bench/results: an SVG of each of the two,
and the frames that most of the CPU is spent in as text.
"""

import argparse
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench.profiles import flame
from bench.sidebyside import jars
from bench.sidebyside.ground import NAMESPACE, Ground, Stream, ground
from bench.sidebyside.meter import Meter
from bench.sidebyside.peers.tidemark import CLI, Tidemark, declared
from bench.sidebyside.report import RESULTS, machine
from bench.sidebyside.workload import WORKLOADS
from bench.upsert import VALUES, append, contract_of
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.ingest.microbatch import microbatch as one_batch
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.merge.merge import merge_once
from tidemark.engine.table.create import create
from tidemark.engine.table.first_load import base_properties
from tidemark.services.stack import Stack

INTERVAL = "2ms"
WARM = 10
"""Microbatches or merges that go before."""
CHANGED = 1000
PARTS = {"server": "SparkConnectPlanner.", "run": "tidemark/"}
PY_SPY = (
    str(Path(sys.executable).with_name("py-spy")),
    "record",
    "--gil",
    "--format",
    "raw",
    "--rate",
    "200",
)


@dataclass
class Profiled:
    """CPU seconds of the server and of the run while they were sampled, and their stacks."""

    folder: Path
    server: int
    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def server_sampled(self) -> Iterator[None]:
        """Samples the Spark server; further times add to what was sampled."""
        self._tell(
            "resume" if "server" in self.cpu else "start", "event=ctimer", f"interval={INTERVAL}", "threads"
        )
        before = _cpu(self.server)
        try:
            yield
        finally:
            self.cpu["server"] = self.cpu.get("server", 0.0) + _cpu(self.server) - before
            self._tell("stop")

    @contextmanager
    def run_sampled(self, pid: int) -> Iterator[None]:
        """Samples a process of Python."""
        command = [*PY_SPY, "-o", str(self.folder / "run"), "-p", str(pid)]
        watcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            watcher.send_signal(signal.SIGINT)
            watcher.wait(120)

    def dump(self) -> None:
        """Write what was sampled of the server."""
        self._tell("dump", "collapsed", "threads", f"file={self.folder / 'server'}")

    def _tell(self, *words: str) -> None:
        library = self.folder / "libasyncProfiler.so"
        if not library.exists():
            with zipfile.ZipFile(jars.single("profiler")) as jar:
                library.write_bytes(jar.read("linux-x64/libasyncProfiler.so"))
        command = ["jcmd", str(self.server), "JVMTI.agent_load", str(library), f'"{",".join(words)}"']
        subprocess.run(command, check=True, capture_output=True)


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextmanager
def served(place: Ground, streams: list[Stream]) -> Iterator[Profiled]:
    """A Spark server and these contracts, for this process and what it starts."""
    with declared(place, streams, {}) as environ:
        with Meter(place.home / "start.log") as meter:
            Tidemark.spark(place, environ, meter)
        os.environ.update(environ)
        yield Profiled(place.home, Stack(place.home).status()["processes"]["spark"])


def drain(place: Ground, given: argparse.Namespace) -> Profiled:
    """A backlog of orders through `tidemark run`, after one of a quarter of its size."""
    workload = WORKLOADS[given.workload]
    topics = [place.topic(workload, size) for size in (given.records // 4, given.records)]
    small, large = (Stream(t.name, place.new_table("profile"), workload) for t in topics)
    with served(place, [small, large]) as found, Meter(place.home / "run.log") as meter:
        meter.run([*CLI, "run", small.table, "--json"])
        before = meter.cpu()
        with found.server_sampled():
            pid = meter.start([*CLI, "run", large.table, "--json"])
            with found.run_sampled(pid):
                meter.wait(pid, 3600)
        found.cpu["run"] = meter.stop().cpu - before
        found.dump()
    if place.rows(large.table) != given.records:
        raise SystemExit(f"{large.table} is not complete")
    return found


def microbatch(place: Ground, given: argparse.Namespace) -> Profiled:
    """One record and one commit, so many times, in this process."""
    workload, topic = WORKLOADS["orders"], "profile_small"
    values = workload.values(1_000_000, place.declare(workload, topic))
    producer = Producer({"bootstrap.servers": place.bootstrap})
    with served(place, [Stream(topic, f"{NAMESPACE}.profile_small", workload)]) as found:
        configuration = load_from_environment()
        lake, (contract,) = Lake(configuration), configuration.contracts

        def batches(times: int) -> None:
            for _ in range(times):
                producer.produce(topic, next(values))
                producer.flush()
                if one_batch(lake, contract, "profile") is None:
                    raise SystemExit("nothing was read")

        batches(WARM)
        with found.run_sampled(os.getpid()), found.server_sampled():
            before = _cpu(os.getpid())
            batches(given.times)
            found.cpu["run"] = _cpu(os.getpid()) - before
        found.dump()
        lake.close()
    return found


def merge(place: Ground, given: argparse.Namespace) -> Profiled:
    """A thousand changed keys into a table of `--records` rows, so many times; appending them is not sampled."""
    with served(place, []) as found:
        lake, contract = Lake(load_from_environment()), contract_of(2)
        current, offset, step = upsert_table_of(contract), given.records, given.records // CHANGED
        create(lake, contract, VALUES, {**base_properties(contract), "tidemark.topic": contract.topic})
        append(lake, contract, "n", 0, given.records)
        catch_up_merges(lake, current, "profile")
        for number in range(WARM + given.times):
            append(lake, contract, f"n * {step}", offset, CHANGED)
            offset += CHANGED
            with found.server_sampled() if number >= WARM else nullcontext():
                merge_once(lake, current, "profile")
        found.dump()
        lake.close()
    return found


def report(name: str, cpu: dict[str, float], collapsed: dict[str, str], given: str) -> str:
    """Write the flame graphs; gives the words."""
    stem = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%MZ}-profile-{name}"
    lines = [given, f"{machine()}"]
    for who, text in collapsed.items():
        stacks = flame.read(text)
        stem.with_name(f"{stem.name}-{who}.svg").write_text(flame.svg(stacks, f"{name}, {who}"))
        lines.append(f"\n{who}: {cpu[who]:.1f} s CPU, {stacks.total():,} samples")
        lists = {
            "by thread": flame.threads(stacks),
            "with all that it calls": flame.through(stacks, PARTS[who], 20),
            "in itself": flame.top(stacks, 15),
        }
        for what, listed in lists.items():
            lines += (
                [f"  {what}", *(f"    {share:6.1%} {frame}" for frame, share in listed)] if listed else []
            )
    text = "\n".join(lines) + "\n"
    stem.with_name(f"{stem.name}.txt").write_text(text)
    return text


WORK: dict[str, Callable[[Ground, argparse.Namespace], Profiled]] = {
    "drain": drain,
    "microbatch": microbatch,
    "merge": merge,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=WORK)
    parser.add_argument("--records", type=int, default=2_000_000, help="of a drain; rows of a merged table")
    parser.add_argument("--times", type=int, default=60, help="microbatches or merges")
    parser.add_argument("--workload", choices=WORKLOADS, default="orders", help="of a drain")
    parser.add_argument("--keep", type=Path, help="a folder for the collapsed stacks")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    RESULTS.mkdir(exist_ok=True)
    with ground() as place:
        found = WORK[given.what](place, given)
        collapsed = {who: (found.folder / who).read_text() for who in found.cpu}
    said = f"{given.what} --records {given.records} --times {given.times} --workload {given.workload}"
    print(report(given.what, found.cpu, collapsed, said))
    if given.keep:
        given.keep.mkdir(exist_ok=True)
        for who, text in collapsed.items():
            (given.keep / f"{given.what}-{who}.collapsed").write_text(text)


if __name__ == "__main__":
    main()
