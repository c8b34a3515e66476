"""How cost grows: with the commits of a table, the partitions of a topic, and the number of tables.

    tidemark services up
    python bench/growth.py commits --batches 1000   # seconds per one-record microbatch, by hundreds
    python bench/growth.py partitions               # the same for topics of 1 to 256 partitions
    python bench/growth.py tables                   # the planning part alone: definitions and one decision

Maintenance does not run here: 1,000 commits lie in the table.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent))
from records import create, produce

from tidemark.domain.cadence.request import Runs, Seen, ask
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.guard import Topic
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import Places, load_from_environment
from tidemark.engine.lane.catch_up import catch_up
from tidemark.services.stack import Stack


def commits(batches: int) -> None:
    """One record, one commit, again and again."""
    taken: list[float] = []
    for seconds in _microbatches(3, batches):
        taken.append(seconds)
        if len(taken) % max(batches // 10, 1) == 0:
            last = taken[-max(batches // 10, 1) :]
            print(f"{len(taken):>6} commits: median {statistics.median(last) * 1000:.0f} ms", flush=True)


def partitions(batches: int) -> None:
    """Topics with more and more partitions, `batches` in each."""
    for count in (1, 4, 16, 64, 256):
        taken = list(_microbatches(count, batches))[batches // 4 :]
        print(f"{count:>6} partitions: median {statistics.median(taken) * 1000:.0f} ms", flush=True)


def tables(_: int) -> None:
    """Contracts to definitions, and one decision of the sensor, without any service."""
    from orchestration.definitions import build_defs  # noqa: PLC0415 - only this needs Dagster

    for count in (10, 100, 1000):
        contracts = [Contract(topic=f"t{n}", table=f"bench.t{n}") for n in range(count)]
        now = datetime.now(UTC)
        seen = [Seen(each, _topic(each), {0: 10}, exists=True) for each in contracts]
        decided = _seconds(lambda seen=seen, now=now: ask(seen, Runs(), now))
        with tempfile.TemporaryDirectory() as folder:
            for each in contracts:
                Path(folder, f"{each.topic}.yaml").write_text(f"topic: {each.topic}\ntable: {each.table}\n")
            where = Places(None, Path(folder), Path(folder) / "home")
            built = _seconds(lambda where=where: build_defs(where=where).resolve_all_asset_specs())
        print(
            f"{count:>6} tables: definitions {built:.2f} s, one decision {decided * 1000:.1f} ms", flush=True
        )


def _topic(contract: Contract) -> Topic:
    return Topic(contract.topic, "cluster", "id", {0: 0}, {0: 10}, {0: 10})


def _microbatches(count: int, batches: int) -> Iterator[float]:
    stack = Stack(Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))).status()
    lake, topic = Lake(load_from_environment()), f"bench_{uuid4().hex[:8]}"
    contract = Contract(topic=topic, table=f"bench.{topic}", partition_by=("day(ordered_at)",))
    schema_id = create(stack, topic, count)
    for number in range(batches):
        produce(stack, topic, schema_id, number, 1, count)
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
    {"commits": commits, "partitions": partitions, "tables": tables}[given.what](given.batches or standard)


if __name__ == "__main__":
    main()
