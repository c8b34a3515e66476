"""Every goal in one run, on one machine: `python -m bench.goals --minutes 10`, two hours of it.

The parts are the measurements that stand beside this file, one after the other; a page in bench/results sets what
each found beside what was to be reached. Exit code 1 unless all was.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.sidebyside.figures import OURS, RAW, Figures, figures, of_peer
from bench.sidebyside.report import RESULTS, load, machine
from tidemark.services.ports import without_proxy
from tidemark.services.stack import Stack

ALIKE = ("spark availableNow, with _kafka", "flink, with _kafka")
"""They write the same table."""
FEWER = ("connect", "flink", "spark availableNow")
"""They leave out where a record comes from."""
SCRIPT = "pyiceberg + pyruhvro"
FLAT = 1.25
"""What counts as no growth, on a machine whose speed drifts."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What was to be reached, what was found, and whether that is enough."""

    figure: str
    wanted: str
    found: str
    met: bool


def measured(minutes: float, rounds: int) -> dict[str, Path | None]:
    """Run all parts; gives the stored result of each, by name: None of one that failed."""
    drains = ("--workloads", "orders", "--rounds", str(rounds), "--peers", OURS, *ALIKE, *FEWER, SCRIPT, RAW)
    own = {
        "full": ("-m", "bench.sidebyside", "full", *drains),
        "trickle-2s": ("-m", "bench.sidebyside.trickle", "--every", "2", "--minutes", str(minutes)),
        "trickle-60s": _long_trickle(minutes),
        "many": ("-m", "bench.sidebyside.many"),
        "idle": ("-m", "bench.sidebyside.idle"),
    }
    shared = {f"growth-{what}": ("bench/growth.py", what) for what in ("commits", "partitions", "tables")}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as home:
        found = {name: _result(name, words, home) for name, words in own.items()}
        stack = Stack(Path(home))
        stack.up()
        try:
            return found | {name: _result(name, words, home) for name, words in shared.items()}
        finally:
            stack.down()


def _long_trickle(minutes: float) -> tuple[str, ...]:
    words = ("-m", "bench.sidebyside.trickle", "--every", "60", "--peers", OURS)
    return (*words, "--minutes", str(minutes))


def _result(name: str, words: tuple[str, ...], home: str) -> Path | None:
    """What a part has stored."""
    before = set(RESULTS.glob(f"*Z-{name}.json"))
    print(f"{datetime.now(UTC):%H:%M} {name}", flush=True)
    subprocess.run([sys.executable, *words], env={**os.environ, "TIDEMARK_HOME": home}, check=False)
    return max(set(RESULTS.glob(f"*Z-{name}.json")) - before, default=None)


def goals(results: Mapping[str, Path | None]) -> Iterator[Goal]:
    """What the stored results say, in the order of the page; a part that failed has met nothing."""
    for name, judge in _JUDGES.items():
        path = results[name]
        yield from judge(path) if path else [Goal(name, "measured", "it failed", met=False)]


def _found(path: Path) -> Any:
    return json.loads(path.read_text())["found"]


def _drains(path: Path) -> Iterator[Goal]:
    report = load(path)
    found = figures(report.runs, "orders")
    ours = _of(found, OURS)
    alike = [each for name in ALIKE if (each := of_peer(found, name))]
    everybody = [*alike, *(each for name in FEWER if (each := of_peer(found, name)))]
    for what, peers, times in (("the same table", alike, 2.0), ("whatever they leave out", everybody, 1.0)):
        best = min(peers, key=lambda each: each.sustained_cpu.median)
        ratio = best.sustained_cpu.median / ours.sustained_cpu.median
        begun = min(each.whole_cpu.median for each in peers) / ours.whole_cpu.median
        said = f"{ratio:.2f} × {best.peer}; start included {begun:.2f} × the best"
        yield Goal(f"CPU per record, orders; peers: {what}", f"best ≥ {times:g} × ours", said, ratio >= times)
    script = _of(found, SCRIPT).sustained_cpu.median
    said = f"{ours.sustained_cpu.median:.2f} µs beside {script:.2f} µs"
    yield Goal("the script that one would write", "no more CPU", said, ours.sustained_cpu.median <= script)
    fastest = min(everybody, key=lambda each: each.drain.median)
    said = f"{ours.drain.median:.1f} s; {fastest.peer} {fastest.drain.median:.1f} s"
    yield Goal(
        "drain, start included", "faster than every peer", said, ours.drain.median < fastest.drain.median
    )
    small, large = (
        max(run.memory for run in report.runs if run.peer == OURS and run.records == records)
        for records in sorted({run.records for run in report.runs})
    )
    yield Goal(
        "memory, all processes", "independent of the backlog", f"{large} MiB; for a quarter of the backlog {small}",
        large <= small * FLAT,
    )  # fmt: skip


def _of(found: list[Figures], peer: str) -> Figures:
    if each := of_peer(found, peer):
        return each
    raise LookupError(f"no figures of {peer}")


def _each_2s(path: Path) -> Iterator[Goal]:
    ours, *others = sorted(_found(path), key=lambda each: each["peer"] != OURS)
    beside = ", ".join(f"{each['peer']} {each['p95']:.1f} s" for each in others)
    yield Goal(
        "target_lag 2s, 20 topics", "p95 ≤ 3 s and below every peer",
        f"p50 {ours['p50']:.1f} s, p95 {ours['p95']:.1f} s; p95 of {beside}",
        ours["p95"] <= 3 and all(ours["p95"] < each["p95"] for each in others),
    )  # fmt: skip


def _each_60s(path: Path) -> Iterator[Goal]:
    (ours,) = _found(path)
    yield Goal(
        "target_lag 60s, 20 topics", "p95 ≤ 75 s, at most a commit a minute and table",
        f"p95 {ours['p95']:.1f} s, {ours['commits']:.2f} commits a minute and table",
        ours["p95"] <= 75 and round(ours["commits"], 1) <= 1,
    )  # fmt: skip


def _many(path: Path) -> Iterator[Goal]:
    result = json.loads(path.read_text())
    given, found = result["given"], result["found"]
    at_once, query = found["one run"]["seconds"], found["a streaming query per topic"]["seconds"]
    each = found[f"a run per topic, {given['single']}"]["seconds"] * given["topics"] / given["single"]
    yield Goal(
        f"{given['topics']} topics × {given['records']:,} records in one run",
        "≥ 3 × faster than a run per topic, faster than a streaming query per topic",
        f"{at_once:.0f} s; {each / at_once:.1f} ×; queries {query:.0f} s",
        each >= 3 * at_once and at_once < query,
    )


def _idle(path: Path) -> Iterator[Goal]:
    cores = json.loads(path.read_text())["cores"]
    ours, spark = cores["api grpc"] + cores["dagster-daemon"], cores["ConnectServer"]
    said = f"{ours:.1%} of a core; the Spark server {spark:.1%}"
    yield Goal("200 quiet topics", "sensor and daemon ≤ 3 % of a core", said, ours <= 0.03)


def _commits(path: Path) -> Iterator[Goal]:
    first, *_, last = (each["ms"] for each in _found(path).values())
    said = f"{first:.0f} ms in the first tenth, {last:.0f} ms in the last"
    yield Goal("a microbatch, over 1,000 commits", "flat", said, last <= first * FLAT)


def _partitions(path: Path) -> Iterator[Goal]:
    found = _found(path)
    (few, first), *_, (most, last) = found.items()
    said = "; ".join(
        f"{n} {each['ms']:.0f} ms, {each['cpu_us_per_record']:.2f} µs" for n, each in found.items()
    )
    linear = all(last[key] <= first[key] * int(most) / int(few) for key in first)
    yield Goal("a microbatch, and CPU per record, by partitions", "at most linear", said, linear)


def _tables(path: Path) -> Iterator[Goal]:
    found = _found(path)
    *_, hundred, thousand = found.values()
    said = "; ".join(
        f"{n} definitions {each['definitions_ms'] / 1000:.2f} s, tick {each['tick_cpu_ms']:.0f} ms"
        for n, each in found.items()
    )
    linear = all(thousand[key] <= hundred[key] * 10 * FLAT for key in thousand)
    yield Goal("planning by tables", "at most linear", said, linear)


_JUDGES: Mapping[str, Callable[[Path], Iterator[Goal]]] = {
    "full": _drains,
    "trickle-2s": _each_2s,
    "trickle-60s": _each_60s,
    "many": _many,
    "idle": _idle,
    "growth-commits": _commits,
    "growth-partitions": _partitions,
    "growth-tables": _tables,
}


def page(found: list[Goal], results: Mapping[str, Path | None], at: str) -> str:
    """The page that a reader opens."""
    said = ", ".join(f"{key} {value}" for key, value in machine().items())
    rows = "".join(
        f"| {g.figure} | {g.wanted} | {g.found} | {'yes' if g.met else '**no**'} |\n" for g in found
    )
    parts = ", ".join(path.name for path in results.values() if path)
    return f"# Goals, {at}\n\n{said}.\n\n| figure | goal | found | met |\n|---|---|---|---|\n{rows}\nFrom {parts}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="of each peer's trickle")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    without_proxy(os.environ)
    results = measured(given.minutes, given.rounds)
    found, at = list(goals(results)), datetime.now(UTC).strftime("%Y-%m-%dT%H%MZ")
    text = page(found, results, at)
    (RESULTS / f"{at}-goals").with_suffix(".md").write_text(text)
    print(text)
    sys.exit(not all(each.met for each in found))


if __name__ == "__main__":
    main()
