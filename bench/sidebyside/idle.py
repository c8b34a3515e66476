"""What 200 quiet topics cost: `python -m bench.sidebyside.idle --topics 200 --minutes 5`.

Every topic has one record, which is loaded first. When the run that loaded them has ended, CPU is counted by process:
Dagster's daemon, code server (`api grpc` evaluates the sensors, `dagster-code` is the proxy before it) and webserver,
runs (there should be none), and the Spark server (no job should run). A window in which a schedule asked for a run is
thrown away, and another opened; exit code 1 when there was one in each.
"""

import argparse
import signal
import sys
import time
from collections import defaultdict

import psutil
from confluent_kafka import Producer
from pyiceberg.exceptions import NoSuchTableError

from bench.sidebyside.ground import NAMESPACE, Ground, Stream, ground
from bench.sidebyside.meter import Meter
from bench.sidebyside.peers.tidemark import Tidemark
from bench.sidebyside.report import store
from bench.sidebyside.workload import WORKLOADS

ORDERS = WORKLOADS["orders"]
RUN = "spawn_main"
ROLES = (
    "api grpc",
    "dagster-code",
    "dagster-webserver",
    "dagster-daemon",
    RUN,
    "ConnectServer",
)
ENDED = "ended children"
PATIENCE = 600.0
"""Seconds after the last table was loaded in which the run waits for more and ends."""
SETTLED = 30.0
"""Seconds without a run before the window opens."""
WINDOWS = 3


def cpu_by_role(pids: list[int]) -> dict[str, float]:
    """Seconds of CPU so far of these trees. A parent is charged with an ended child at once: a role of its own."""
    found: dict[str, float] = defaultdict(float)
    for pid in pids:
        root = psutil.Process(pid)
        for each in (root, *root.children(recursive=True)):
            try:
                words, times = " ".join(each.cmdline()), each.cpu_times()
            except psutil.NoSuchProcess:
                continue
            role = next((role for role in ROLES if role in words), "other")
            found[role] += times.user + times.system
            found[ENDED] += times.children_user + times.children_system
    return dict(found)


def _run_over(meter: Meter) -> None:
    """Until no run was there for a while; raises TimeoutError."""
    latest, quiet_since = time.monotonic() + PATIENCE, time.monotonic()
    while time.monotonic() < quiet_since + SETTLED:
        if RUN in cpu_by_role(meter.roots()):
            quiet_since = time.monotonic()
        if time.monotonic() > latest:
            raise TimeoutError(f"a run is still there {PATIENCE:g} s after the last table was loaded")
        time.sleep(5)


def _loaded(place: Ground, streams: list[Stream]) -> bool:
    try:
        return all(place.rows(stream.table) for stream in streams)
    except NoSuchTableError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ground() as place, Meter(place.home / "idle.log") as meter:
        producer, streams = Producer({"bootstrap.servers": place.bootstrap}), []
        for number in range(given.topics):
            stream = Stream(f"quiet_{number:03}", f"{NAMESPACE}.quiet_{number:03}", ORDERS)
            (value,) = ORDERS.values(1, place.declare(ORDERS, stream.topic, 1))
            producer.produce(stream.topic, value)
            streams.append(stream)
        producer.flush()
        with Tidemark().trickle(place, streams, 60, meter):
            while not _loaded(place, streams):
                time.sleep(5)
            for _ in range(WINDOWS):
                _run_over(meter)
                before = cpu_by_role(meter.roots())
                time.sleep(given.minutes * 60)
                after = cpu_by_role(meter.roots())
                if quiet := RUN not in after and after[ENDED] - before[ENDED] <= 1:
                    break
    shares = {role: (after[role] - before.get(role, 0)) / given.minutes / 60 for role in after}
    for role, share in shares.items():
        print(f"{role:>20}: {share:.2%} of a core")
    if not quiet:
        sys.exit(f"a run was under way in each of {WINDOWS} windows: measure again")
    store("idle", vars(given), cores=shares)


if __name__ == "__main__":
    main()
