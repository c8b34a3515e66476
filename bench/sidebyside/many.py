"""Many small topics at once: one run of Dagster, a run per topic, and a streaming query per topic.

    python -m bench.sidebyside.many --topics 100 --records 1000 --single 10 --rounds 3

One run and the queries take turns, `rounds` each, and the median counts: one that meets a busy disk is not the word of
all. A run per topic is measured for `single` topics and scaled up; Spark's start is in no figure but that of the
streaming driver and the one run, which begin from nothing.
"""

import argparse
import signal
import statistics
import sys
from dataclasses import asdict

from confluent_kafka import Producer

from bench.sidebyside.ground import NAMESPACE, Ground, Stream, ground
from bench.sidebyside.meter import Cost
from bench.sidebyside.peers.spark_streaming import SparkStreaming
from bench.sidebyside.peers.tidemark import Tidemark
from bench.sidebyside.report import store
from bench.sidebyside.workload import WORKLOADS

ORDERS = WORKLOADS["orders"]
PARALLEL = 4
"""Queries at once: as many tables as a lane works on."""


def _filled(place: Ground, topics: int, records: int, kind: str) -> list[Stream]:
    producer, streams = Producer({"bootstrap.servers": place.bootstrap}), []
    for number in range(topics):
        stream = Stream(f"many_{kind}_{number:03}", f"{NAMESPACE}.many_{kind}_{number:03}", ORDERS)
        for value in ORDERS.values(records, place.declare(ORDERS, stream.topic, 1)):
            producer.produce(stream.topic, value)
        producer.flush()
        streams.append(stream)
    return streams


def _one_run(place: Ground, given: argparse.Namespace, number: int) -> Cost:
    streams = _filled(place, given.topics, given.records, f"one_run_{number}")
    return _dropped(place, streams, Tidemark().drain(place, streams, given.records))


def _run_each(place: Ground, given: argparse.Namespace) -> Cost:
    streams = _filled(place, given.single, given.records, "single")
    return _dropped(place, streams, Tidemark().one_by_one(place, streams))


def _query_each(place: Ground, given: argparse.Namespace, number: int) -> Cost:
    streams = _filled(place, given.topics, given.records, f"query_{number}")
    for each in streams:
        place.create_table(each.table, ORDERS)
    queries = SparkStreaming("spark", "availableNow", 2_000_000)
    return _dropped(place, streams, queries.drain(place, streams, PARALLEL))


def _dropped(place: Ground, streams: list[Stream], cost: Cost) -> Cost:
    """The next begins with as few tables in the catalog."""
    for each in streams:
        place.drop(each.table)
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--single", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    per_topic = f"a run per topic, {given.single}"
    costs: dict[str, list[Cost]] = {"one run": [], per_topic: [], "a streaming query per topic": []}
    with ground() as place:
        Tidemark().prepare(place)
        for number in range(given.rounds):
            costs["one run"].append(_one_run(place, given, number))
            if not number:
                costs[per_topic].append(_run_each(place, given))
            costs["a streaming query per topic"].append(_query_each(place, given, number))
    seconds = {name: statistics.median(each.seconds for each in every) for name, every in costs.items()}
    for name, every in costs.items():
        for each in every:
            print(f"{name:>28}: {each.seconds:6.1f} s, {each.cpu:6.1f} s CPU, {each.memory} MiB")
    single = seconds[per_topic] * given.topics / given.single
    print(f"a run for each of {given.topics} would take {single:.0f} s: {single / seconds['one run']:.1f} ×")
    found = {
        name: {"seconds": seconds[name], "rounds": [asdict(each) for each in every]}
        for name, every in costs.items()
    }
    store("many", vars(given), found=found)


if __name__ == "__main__":
    main()
