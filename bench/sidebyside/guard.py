"""A guard against slow decay: `python -m bench.sidebyside.guard` compares the two newest results of a profile.

Compared is Tidemark's CPU per record as a ratio to raw consumption in the same run, so that machines may differ.
Exit code 1 when it has grown by more than the threshold on any workload.
"""

import argparse
import sys
from pathlib import Path

from bench.sidebyside.figures import OURS, RAW, figures, of_peer
from bench.sidebyside.report import RESULTS, Report, load

THRESHOLD = 1.25


def ratios(report: Report) -> dict[str, float]:
    """By workload: sustained CPU of Tidemark to that of reading only, where both were measured."""
    found = {}
    for workload in report.workloads():
        known = figures(report.runs, workload)
        ours, raw = of_peer(known, OURS), of_peer(known, RAW)
        if ours and raw and raw.sustained_cpu.median > 0:
            found[workload] = ours.sustained_cpu.median / raw.sustained_cpu.median
    return found


def worse(before: Report, after: Report, threshold: float = THRESHOLD) -> list[str]:
    """What has grown by more than the threshold, in words."""
    old = ratios(before)
    return [
        f"{workload}: {ratio:.2f} × raw consume, was {old[workload]:.2f} on {before.at}"
        for workload, ratio in ratios(after).items()
        if workload in old and ratio > old[workload] * threshold
    ]


def stored(profile: str, folder: Path = RESULTS) -> list[Path]:
    """Results of a profile, the oldest first."""
    return sorted(folder.glob(f"*Z-{profile}.json"))


def main() -> None:
    """Exit code 0 when there is nothing to compare with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", nargs="?", default="quick")
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    arguments = parser.parse_args()
    results = stored(arguments.profile)
    if len(results) < 2:
        print(f"guard: no earlier result of {arguments.profile}")
        return
    found = worse(load(results[-2]), load(results[-1]), arguments.threshold)
    print("guard:", "; ".join(found) or "no worse than the result before")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
