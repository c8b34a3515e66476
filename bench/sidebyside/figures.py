"""From runs to figures: minimum, median, maximum over the rounds, with the start and without it.

Every round drains a small topic and a large one. What the large one costs more, by its additional records, is the
sustained figure: the start of processes and their warm-up is in both and drops out. It is the same rule for a server
that starts, a JVM that compiles and a script that imports.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.sidebyside.run import Run

RAW, PARTS = "librdkafka consume", ("librdkafka consume", "decode only", "parquet only")
COMPOSED = "consume + decode + parquet"
OURS = "tidemark"


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one figure over the rounds."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """At least one value."""
        return cls(min(values), statistics.median(values), max(values))


@dataclass(frozen=True, slots=True)
class Figures:
    """One peer on one workload. CPU in µs per record, times in seconds.

    `pace` is in records per second; 0 of a round in which the large drain took no longer: a wait is no speed.
    """

    peer: str
    whole_cpu: Spread
    sustained_cpu: Spread
    drain: Spread
    pace: Spread
    record_bytes: float
    memory: int
    files: int
    stored: int
    commits: int
    reading: float = 0.0


def figures(runs: Sequence[Run], workload: str) -> list[Figures]:
    """Of every peer that drained both sizes, the composed limit last."""
    peers = dict.fromkeys(run.peer for run in runs if run.workload == workload)
    found = [_of([run for run in runs if run.workload == workload and run.peer == peer]) for peer in peers]
    parts = [each for each in found if each.peer in PARTS]
    return [*found, _composed(parts)] if len(parts) == len(PARTS) else found


def of_peer(found: Sequence[Figures], peer: str) -> Figures | None:
    """The figures of one peer."""
    return next((each for each in found if each.peer == peer), None)


def _of(runs: list[Run]) -> Figures:
    most = max(run.records for run in runs)
    large = [run for run in runs if run.records == most]
    small = [run for run in runs if run.records < most]
    more = most - small[0].records if small else most
    pairs = list(zip(small, large, strict=False)) or [(None, each) for each in large]
    cpu = [(b.cpu - (a.cpu if a else 0)) / more * 1e6 for a, b in pairs]
    longer = [b.seconds - (a.seconds if a else 0) for a, b in pairs]
    last = large[-1]
    return Figures(
        peer=last.peer,
        whole_cpu=Spread.of([run.cpu / most * 1e6 for run in large]),
        sustained_cpu=Spread.of(cpu),
        drain=Spread.of([run.seconds for run in large]),
        pace=Spread.of([more / each if each > 0 else 0.0 for each in longer]),
        record_bytes=last.bytes / most,
        memory=max(run.memory for run in large),
        files=last.files,
        stored=last.stored,
        commits=last.commits,
        reading=statistics.median([run.reading for run in large]),
    )


def _composed(parts: list[Figures]) -> Figures:
    """What one pass would cost at least: the sum of its parts; time is not added up."""

    def added(spreads: list[Spread]) -> Spread:
        return Spread(*(sum(getattr(s, n) for s in spreads) for n in ("least", "median", "most")))

    nothing = Spread(0, 0, 0)
    whole, sustained = (added([getattr(p, n) for p in parts]) for n in ("whole_cpu", "sustained_cpu"))
    return Figures(COMPOSED, whole, sustained, nothing, nothing, parts[0].record_bytes, 0, 0, 0, 0)
