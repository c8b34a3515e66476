"""Results as JSON (all runs), as Markdown (one table per workload) and as SVG (one plot per workload)."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.sidebyside.figures import COMPOSED, OURS, RAW, Figures, Spread, figures, of_peer
from bench.sidebyside.plot import bars
from bench.sidebyside.run import Run

RESULTS = Path(__file__).parent.parent / "results"
COLUMNS = (
    "CPU µs/record, sustained",
    "start included",
    "× tidemark",
    "× raw consume",
    "× limit",
    "records/s, sustained",
    "MB/s",
    "drain s",
    "peak MiB",
    "files",
    "MB stored",
    "commits",
)
BY_KEY = "full read s"
"""Of a table that is written by key: what the changes cost whoever reads it."""


@dataclass(frozen=True, slots=True)
class Report:
    """All runs of one measurement; `failed` says why a peer has no figures."""

    profile: str
    at: str
    machine: dict[str, Any]
    runs: Sequence[Run]
    failed: dict[str, str]

    @classmethod
    def now(cls, profile: str, runs: Sequence[Run], failed: dict[str, str]) -> "Report":
        """With the machine and the time of this moment."""
        return cls(profile, datetime.now(UTC).strftime("%Y-%m-%dT%H%MZ"), machine(), runs, failed)

    def save(self) -> Path:
        """Into bench/results; gives the Markdown file."""
        RESULTS.mkdir(exist_ok=True)
        stem = RESULTS / f"{self.at}-{self.profile}"
        whole = {
            "profile": self.profile,
            "at": self.at,
            "machine": self.machine,
            "runs": [run.as_json() for run in self.runs],
            "failed": self.failed,
        }
        stem.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n")
        for workload in self.workloads():
            stem.with_name(f"{stem.name}-{workload}.svg").write_text(
                bars(figures(self.runs, workload), workload)
            )
        stem.with_suffix(".md").write_text(self.markdown())
        return stem.with_suffix(".md")

    def workloads(self) -> list[str]:
        """Those that were measured."""
        return list(dict.fromkeys(run.workload for run in self.runs))

    def markdown(self) -> str:
        """The page that a reader opens."""
        said = ", ".join(f"{key} {value}" for key, value in self.machine.items())
        pages = [f"# Side by side, {self.profile}, {self.at}\n\n{said}.\n"]
        for workload in self.workloads():
            sizes = sorted({run.records for run in self.runs if run.workload == workload})
            rounds = max(
                sum(r.peer == p and r.records == sizes[-1] and r.workload == workload for r in self.runs)
                for p in {r.peer for r in self.runs}
            )
            both = " and ".join(f"{size:,}" for size in sizes)
            pages.append(
                f"## {workload}: {both} records, {rounds} rounds, interleaved\n\n"
                f"Minimum / median / maximum. Ratios are of the medians of sustained CPU.\n\n{self._table(workload)}\n"
                f"![{workload}]({self.at}-{self.profile}-{workload}.svg)\n"
            )
        pages += [f"{name} has no figures: {why.splitlines()[-1]}\n" for name, why in self.failed.items()]
        return "\n".join(pages)

    def _table(self, workload: str) -> str:
        found = figures(self.runs, workload)
        names = [*COLUMNS, *([BY_KEY] if any(each.reading for each in found) else [])]
        head = f"| | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|\n"
        return head + "".join(_row(each, found, len(names)) for each in found)


def store(name: str, given: Mapping[str, Any], **found: Any) -> Path:
    """Figures of one kind as `<time>-<name>.json`, with the machine and what was asked for; gives the file."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H%MZ")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{at}-{name}.json"
    path.write_text(
        json.dumps({"at": at, "machine": machine(), "given": dict(given), **found}, indent=1) + "\n"
    )
    return path


def load(path: Path) -> Report:
    """A stored report."""
    whole = json.loads(path.read_text())
    return Report(**{**whole, "runs": [Run(**run) for run in whole["runs"]]})


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "cpu": names[0] if names else platform.processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "load_at_the_end": round(os.getloadavg()[2], 1),
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _row(each: Figures, found: list[Figures], columns: int) -> str:
    ratios = [_ratio(each, of_peer(found, other)) for other in (OURS, RAW, COMPOSED)]
    pace = each.pace.median if each.pace.least else 0
    cells = [
        _spread(each.sustained_cpu, ".2f"),
        _spread(each.whole_cpu, ".2f"),
        *ratios,
        *((f"{pace:,.0f}", f"{pace * each.record_bytes / 1e6:.1f}") if pace else ("", "")),
        _spread(each.drain, ".1f") if each.drain.least else "",
        *(str(each.memory or ""), str(each.files or ""), f"{each.stored / 1e6:.1f}" if each.stored else ""),
        str(each.commits or ""),
        f"{each.reading:.2f}" if each.reading else "",
    ]
    return f"| {each.peer} | {' | '.join(cells[:columns])} |\n"


def _ratio(each: Figures, other: Figures | None) -> str:
    return f"{each.sustained_cpu.median / other.sustained_cpu.median:.2f}" if other else ""


def _spread(spread: Spread, form: str) -> str:
    return " / ".join(format(value, form) for value in (spread.least, spread.median, spread.most))
