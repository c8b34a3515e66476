"""How cost grows: with the commits of a table, the partitions of a topic, and the number of tables.

    tidemark services up
    python bench/growth.py commits --batches 1000   # seconds per one-record microbatch, by hundreds
    python bench/growth.py partitions               # a record in each of 1 to 256 partitions, and a million over them
    python bench/growth.py tables                   # the planning part alone: definitions, and ticks of the sensor

Maintenance does not run here: 1,000 commits lie in the table. The figures go to bench/results as JSON too.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import psutil

sys.path.insert(0, str(Path(__file__).parent))
from records import create, produce

from bench.sidebyside.report import store
from orchestration.definitions import build_defs
from resources.lake import LakeResource, on_disk
from tidemark.domain.columns.types import LONG, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import Places, load_from_environment, places
from tidemark.engine.lane.catch_up import catch_up
from tidemark.engine.table.first_load import make_or_adopt
from tidemark.services.stack import Stack

RECORDS = 1_000_000
"""Of the batch whose cost per record is told."""
TICKS = 60
"""So many, that every table was read before the half of them that is timed: a tick reads forty at most."""


Figures = dict[int, dict[str, float]]
"""By what grows."""


def commits(batches: int) -> Figures:
    """One record, one commit, again and again."""
    taken: list[float] = []
    found: Figures = {}
    for seconds in _microbatches(3, batches, 1):
        taken.append(seconds)
        if len(taken) % max(batches // 10, 1) == 0:
            median = statistics.median(taken[-max(batches // 10, 1) :]) * 1000
            found[len(taken)] = {"ms": median}
            print(f"{len(taken):>6} commits: median {median:.0f} ms", flush=True)
    return found


def partitions(batches: int) -> Figures:
    """Topics with more and more partitions: `batches` with a record in each, then many records spread over them."""
    found: Figures = {}
    for count in (1, 4, 16, 64, 256):
        taken = list(_microbatches(count, batches, count))[batches // 4 :]
        median, each = statistics.median(taken) * 1000, _per_record(count)
        found[count] = {"ms": median, "cpu_us_per_record": each}
        print(f"{count:>6} partitions: median {median:.0f} ms, {each:.2f} µs a record", flush=True)
    return found


def _per_record(count: int) -> float:
    """CPU of the Spark server in µs, of the better of two loads."""
    stack = _stack()
    server, topic, found = psutil.Process(stack["processes"]["spark"]), f"bench_{uuid4().hex[:8]}", []
    produce(stack, topic, create(stack, topic, count), 0, RECORDS, count)
    lake = Lake(load_from_environment())
    for turn in range(2):
        contract = Contract(topic=topic, table=f"bench.{topic}_{turn}", partition_by=("day(ordered_at)",))
        before = server.cpu_times()
        _loaded(lake, contract)
        after = server.cpu_times()
        found.append((after.user + after.system - before.user - before.system) / RECORDS * 1e6)
        lake.catalog.drop_table(contract.table)
    lake.close()
    return min(found)


def tables(_: int) -> Figures:
    """Contracts to definitions, and ticks of the sensor over quiet topics and their tables."""
    made: list[str] = []
    found: Figures = {}
    for count in (10, 100, 1000):
        with tempfile.TemporaryDirectory() as folder:
            where = Places(None, Path(folder), places(os.environ).home.absolute())
            fresh = [f"quiet_{uuid4().hex[:8]}" for _ in range(count - len(made))]
            made += fresh
            for topic in made:
                Path(folder, f"{topic}.yaml").write_text(f"topic: {topic}\ntable: bench.{topic}\n")
            _prepare(where, fresh)
            built = _seconds(partial(_definitions, where))
            ticks = list(_ticks(where))[TICKS // 2 :]
        median = statistics.median(ticks) * 1000
        found[count] = {"definitions_ms": built * 1000, "tick_cpu_ms": median}
        print(f"{count:>6} tables: definitions {built:.2f} s, a tick {median:.0f} ms of CPU", flush=True)
    return found


def _definitions(where: Places) -> None:
    build_defs(where=where).resolve_all_asset_specs()


def _prepare(where: Places, topics: list[str]) -> None:
    """Empty topics, and the tables that a first look at them makes."""
    lake = Lake(on_disk(where))
    for name in topics:
        create(_stack(), name, 1)
    contracts = {each.topic: each for each in lake.configuration.contracts}
    for name, topic in lake.kafka("main").describe(topics).items():
        make_or_adopt(lake, contracts[name], topic, Struct((Field("order_id", LONG),)), "bench", says={})
    lake.close()


def _ticks(where: Places) -> Iterator[float]:
    """Seconds of CPU that each of some ticks takes, the first of which read the tables."""
    defs, cursor = build_defs(where=where), None
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(TICKS):
            given = {"lake": LakeResource.at(where)}
            with dg.build_sensor_context(
                instance=instance, cursor=cursor, definitions=defs, resources=given
            ) as context:
                before = time.process_time()
                found = defs.resolve_sensor_def("kafka_lag").evaluate_tick(context)
                yield time.process_time() - before
            if found.run_requests:
                raise SystemExit(f"a run was asked for: {found.run_requests[0].tags}")
            cursor = found.cursor


def _stack() -> Any:
    return Stack(places(os.environ).home).status()


def _microbatches(count: int, batches: int, each: int) -> Iterator[float]:
    """Seconds that each of so many batches takes, of `each` records in a topic of `count` partitions."""
    lake, topic = Lake(load_from_environment()), f"bench_{uuid4().hex[:8]}"
    contract = Contract(topic=topic, table=f"bench.{topic}", partition_by=("day(ordered_at)",))
    schema_id = create(_stack(), topic, count)
    for number in range(batches):
        produce(_stack(), topic, schema_id, number * each, each, count)
        yield _seconds(lambda: _loaded(lake, contract))
    lake.catalog.drop_table(contract.table)
    lake.close()


def _loaded(lake: Lake, contract: Contract) -> None:
    outcome = catch_up(lake, contract, "bench")
    if outcome.error:
        raise SystemExit(outcome.error["message"])


def _seconds(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["commits", "partitions", "tables"])
    parser.add_argument("--batches", type=int)
    given = parser.parse_args()
    standard = {"commits": 1000, "partitions": 20, "tables": 0}[given.what]
    measure = {"commits": commits, "partitions": partitions, "tables": tables}[given.what]
    store(f"growth-{given.what}", vars(given), found=measure(given.batches or standard))


if __name__ == "__main__":
    main()
