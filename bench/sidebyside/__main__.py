"""Measure peers side by side: `python -m bench.sidebyside quick|full` (bench/README.md).

    python -m bench.sidebyside full --workloads orders --peers tidemark connect flink --rounds 1 --records 200000

Every round drains each topic size with each peer in turn, each from nothing running; the order turns with the round.
Results go to bench/results; everything that was started ends, nothing temporary is left.
"""

import argparse
import signal
import subprocess
import sys
from dataclasses import dataclass

from bench.sidebyside.ground import Ground, ground
from bench.sidebyside.meter import Failed
from bench.sidebyside.peers.connect import Connect
from bench.sidebyside.peers.flink import Flink
from bench.sidebyside.peers.java_consumer import JavaConsumer
from bench.sidebyside.peers.script import Script
from bench.sidebyside.peers.spark_streaming import SparkStreaming
from bench.sidebyside.peers.tidemark import Tidemark
from bench.sidebyside.report import Report
from bench.sidebyside.run import Peer, Run, WrongRows, measured
from bench.sidebyside.workload import WORKLOADS
from tidemark.services.errors import DownloadFailed

SHARE = 4
"""The small topic of a round has a quarter of the records."""
MOST = 2_000_000
"""Records per trigger of Spark: what Tidemark takes per batch."""
PEERS: tuple[Peer, ...] = (
    Tidemark(),
    Connect(),
    Flink("flink"),
    Flink("flink, with _kafka", kafka=True),
    SparkStreaming("spark availableNow", "availableNow", MOST),
    SparkStreaming("spark availableNow, with _kafka", "availableNow", MOST, kafka=True),
    SparkStreaming("spark 10 s trigger", "10 seconds", MOST),
    Script("pyiceberg + pyruhvro", "table"),
    Script("librdkafka consume", "consume"),
    JavaConsumer(),
    Script("decode only", "decode"),
    Script("parquet only", "parquet"),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """Records per workload, rounds, and who takes part."""

    records: dict[str, int]
    rounds: int
    peers: tuple[str, ...]


EVERYBODY = tuple(peer.name for peer in PEERS)
PROFILES = {
    "quick": Profile(
        {"orders": 500_000},
        1,
        ("tidemark", "spark availableNow", "pyiceberg + pyruhvro", "librdkafka consume"),
    ),
    "full": Profile(
        {
            "orders": 4_000_000,
            "nested": 1_000_000,
            "json": 1_000_000,
            "protobuf": 1_000_000,
            "upserts": 1_000_000,
        },
        3,
        EVERYBODY,
    ),
}


def measure(place: Ground, profile: Profile, failed: dict[str, str]) -> list[Run]:
    """All runs; a peer that fails is left out from then on."""
    runs: list[Run] = []
    peers = _prepared(place, profile, failed)
    for workload, records in profile.records.items():
        for turn in range(profile.rounds):
            for size in (records // SHARE, records):
                topic = place.topic(WORKLOADS[workload], size)
                for peer in [*peers[turn:], *peers[:turn]]:
                    name = f"{peer.name} on {workload}"
                    if WORKLOADS[workload].kind not in peer.kinds or name in failed:
                        continue
                    try:
                        runs.append(measured(peer, place, topic))
                    except (Failed, WrongRows) as error:
                        failed[name] = str(error)
                        print(f"{name}: {error}", flush=True)
                    else:
                        _say(runs[-1], turn)
    return [run for run in runs if f"{run.peer} on {run.workload}" not in failed]


def _prepared(place: Ground, profile: Profile, failed: dict[str, str]) -> list[Peer]:
    """Who takes part; a peer that cannot be made ready has failed on all that it would have been tried on."""
    ready = []
    for peer in (each for each in PEERS if each.name in profile.peers):
        try:
            peer.prepare(place)
        except (Failed, DownloadFailed, OSError, subprocess.CalledProcessError) as error:
            print(f"{peer.name}: {error}", flush=True)
            tried = (each for each in profile.records if WORKLOADS[each].kind in peer.kinds)
            failed |= {f"{peer.name} on {each}": str(error) for each in tried}
        else:
            ready.append(peer)
    return ready


def _say(run: Run, turn: int) -> None:
    print(
        f"{turn + 1} {run.workload:>7} {run.records:>9,} {run.peer:>22} {run.cpu / run.records * 1e6:7.2f} µs/record "
        f"{run.seconds:6.1f} s {run.memory:5} MiB {run.files:4} files {run.commits} commits",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS)
    parser.add_argument("--peers", nargs="+", choices=EVERYBODY)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--records", type=int)
    parser.add_argument("--dry", action="store_true", help="keep no results")
    given = parser.parse_args()
    whole = PROFILES[given.profile]
    sizes = {
        name: given.records or whole.records.get(name, 1_000_000) for name in given.workloads or whole.records
    }
    profile = Profile(sizes, given.rounds or whole.rounds, tuple(given.peers or whole.peers))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is put away
    failed: dict[str, str] = {}
    with ground() as place:
        runs = measure(place, profile, failed)
    report = Report.now(given.profile, runs, failed)
    print(report.markdown() if given.dry else f"{report.markdown()}\nin {report.save()}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
