"""A guard against decay: `python -m bench.sidebyside.guard` judges the newest result of a profile by those before it.

Compared is Tidemark's CPU per record as a ratio to raw consumption in the same run, so that machines may differ, on
the same workload in the same sizes. Exit code 1 when it has grown by more than STEP since the result before, or by more
than DECAY since the best one (small steps add up, but the best of many was lucky: hence the wide limit), and when
Tidemark or raw consumption has no figures on a workload that was tried: a bench whose peers fail must not look like one
that is well. The first result of a profile has nothing to compare with.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.sidebyside.figures import OURS, RAW, figures, of_peer
from bench.sidebyside.report import RESULTS, Report, load

STEP, DECAY = 1.25, 2.0


def ratios(report: Report) -> dict[str, float]:
    """By workload: sustained CPU of Tidemark to that of reading only, where both were measured."""
    found = {}
    for workload in report.workloads():
        known = figures(report.runs, workload)
        ours, raw = of_peer(known, OURS), of_peer(known, RAW)
        if ours and raw and raw.sustained_cpu.median > 0:
            found[workload] = ours.sustained_cpu.median / raw.sustained_cpu.median
    return found


def missing(report: Report) -> list[str]:
    """Workloads on which Tidemark or raw consumption was tried and gave no figures."""
    tried = {w for w in report.workloads() if of_peer(figures(report.runs, w), RAW)}
    tried |= {w for peer, _, w in (key.partition(" on ") for key in report.failed) if peer in {OURS, RAW}}
    return sorted(tried - ratios(report).keys())


def worse(earlier: Sequence[Report], newest: Report, step: float = STEP, decay: float = DECAY) -> list[str]:
    """What has grown too much since the result before, or since the best, in words."""
    found = []
    for workload, ratio in ratios(newest).items():
        alike = [each for each in earlier if _sizes(each, workload) == _sizes(newest, workload)]
        known = [(ratios(each)[workload], each.at) for each in alike if workload in ratios(each)]
        for (was, at), limit in [(known[-1], step), (min(known), decay)] if known else []:
            if ratio > was * limit:
                found.append(f"{workload}: {ratio:.2f} × raw consume, was {was:.2f} on {at}")
                break
    return found


def _sizes(report: Report, workload: str) -> set[int]:
    return {run.records for run in report.runs if run.workload == workload}


def verdict(results: Sequence[Report], step: float = STEP) -> tuple[bool, str]:
    """Whether all is well, and why, of results in order of time; the last is judged."""
    if not results:
        return False, "there is no result"
    *earlier, newest = results
    now = ratios(newest)
    if not now:
        return False, f"{newest.at} has no figures of {OURS} beside {RAW}"
    if lost := missing(newest):
        return False, f"{newest.at} has no figures of {OURS} beside {RAW} on {', '.join(lost)}"
    found = worse(earlier, newest, step)
    said = ", ".join(f"{workload} {ratio:.2f} × raw consume" for workload, ratio in now.items())
    return not found, "; ".join(found) or f"{said}; {len(earlier)} earlier results"


def stored(profile: str, folder: Path = RESULTS) -> list[Path]:
    """Results of a profile, the oldest first."""
    return sorted(folder.glob(f"*Z-{profile}.json"))


def main() -> None:
    """Exit code 1 unless all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", nargs="?", default="quick")
    parser.add_argument("--threshold", type=float, default=STEP)
    arguments = parser.parse_args()
    well, why = verdict([load(path) for path in stored(arguments.profile)], arguments.threshold)
    print(f"guard: {why}")
    sys.exit(not well)


if __name__ == "__main__":
    main()
