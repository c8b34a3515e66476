"""A guard against slow decay: `python -m bench.sidebyside.guard` compares the two newest results of a profile.

Compared is Tidemark's CPU per record as a ratio to raw consumption in the same run, so that machines may differ.
Exit code 1 when it has grown by more than the threshold on any workload, and when the newest result has no such ratio:
a bench whose peers fail must not look like one that is well. The first result of a profile has nothing to compare with.
"""

import argparse
import sys
from collections.abc import Sequence
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


def verdict(results: Sequence[Report], threshold: float = THRESHOLD) -> tuple[bool, str]:
    """Whether all is well, and why, of results in order of time; the last is judged by the newest that it can be."""
    if not results:
        return False, "there is no result"
    *earlier, newest = results
    now = ratios(newest)
    if not now:
        return False, f"{newest.at} has no figures of {OURS} beside {RAW}"
    before = next((each for each in reversed(earlier) if ratios(each).keys() & now.keys()), None)
    said = ", ".join(f"{workload} {ratio:.2f} × raw consume" for workload, ratio in now.items())
    if before is None:
        return True, f"{said}; no earlier result to compare with"
    found = worse(before, newest, threshold)
    return not found, "; ".join(found) or f"{said}; no worse than {before.at}"


def stored(profile: str, folder: Path = RESULTS) -> list[Path]:
    """Results of a profile, the oldest first."""
    return sorted(folder.glob(f"*Z-{profile}.json"))


def main() -> None:
    """Exit code 1 unless all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", nargs="?", default="quick")
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    arguments = parser.parse_args()
    well, why = verdict([load(path) for path in stored(arguments.profile)], arguments.threshold)
    print(f"guard: {why}")
    sys.exit(not well)


if __name__ == "__main__":
    main()
