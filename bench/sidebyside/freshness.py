"""How fresh tables were, by peer: results as JSON, Markdown and SVG."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.sidebyside.figures import OURS
from bench.sidebyside.plot import spans
from bench.sidebyside.report import RESULTS, machine

COLUMNS = (
    "p50 s",
    "p95 s",
    "max s",
    "p95 × tidemark",
    "commits per table and minute",
    "CPU ms per record",
    "cores",
    "CPU s of an idle minute",
    "peak MiB",
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Seconds from produced to readable; commits per table and minute; cores; MiB; Dagster's database in MB/hour."""

    peer: str
    every: int
    records: int
    p50: float
    p95: float
    most: float
    commits: float
    cores: float
    idle_cores: float
    memory: int
    database: float


def page(found: Sequence[Freshness], given: Mapping[str, Any], at: str) -> str:
    """The page that a reader opens."""
    ours = next((each for each in found if each.peer == OURS), None)
    rows = "".join(_row(each, ours, given["minutes"] * 60) for each in found)
    said = ", ".join(f"{key} {value}" for key, value in machine().items())
    head = f"| | {' | '.join(COLUMNS)} |\n{'|---' * (len(COLUMNS) + 1)}|\n"
    what = (
        f"{given['topics']} topics, {given['rate']:g} records a second over all, {given['minutes']:g} minutes"
    )
    return (
        f"# Freshness, every {given['every']} s, {at}\n\n{said}.\n\n{what}; produced → readable by another process.\n\n"
        f"{head}{rows}\n![freshness]({_stem(given, at)}.svg)\n"
    )


def save(found: Sequence[Freshness], given: Mapping[str, Any]) -> Path:
    """Into bench/results; gives the Markdown file."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H%MZ")
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / _stem(given, at)
    whole = {"at": at, "machine": machine(), "given": dict(given), "found": [asdict(each) for each in found]}
    stem.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n")
    title = f"Seconds from produced to readable, every {given['every']} s: p50, p95, maximum"
    stem.with_suffix(".svg").write_text(
        spans([(each.peer, each.p50, each.p95, each.most) for each in found], title)
    )
    stem.with_suffix(".md").write_text(page(found, given, at))
    return stem.with_suffix(".md")


def _stem(given: Mapping[str, Any], at: str) -> str:
    return f"{at}-trickle-{given['every']}s"


def _row(each: Freshness, ours: Freshness | None, seconds: float) -> str:
    cells = (
        f"{each.p50:.1f}",
        f"{each.p95:.1f}",
        f"{each.most:.1f}",
        f"{each.p95 / ours.p95:.2f}" if ours else "",
        f"{each.commits:.1f}",
        f"{each.cores * seconds / each.records * 1000:.1f}",
        f"{each.cores:.2f}",
        f"{each.idle_cores * 60:.1f}",
        str(each.memory),
    )
    return f"| {each.peer} | {' | '.join(cells)} |\n"
