"""Many small topics at once: one run of Dagster, a run per topic, and a streaming query per topic.

    python -m bench.sidebyside.many --topics 100 --records 1000 --single 10

A run per topic is measured for `single` topics and scaled up; Spark's start is in no figure but that of the streaming
driver and the one run, which begin from nothing.
"""

import argparse
import signal
import sys

from confluent_kafka import Producer

from bench.sidebyside.ground import NAMESPACE, Ground, Stream, ground
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--single", type=int, default=10)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tidemark, spark, found = Tidemark(), SparkStreaming("spark", "availableNow", 2_000_000), {}
    with ground() as place:
        streams = _filled(place, given.topics, given.records, "one_run")
        found["one run"] = tidemark.drain(place, streams, given.records)
        streams = _filled(place, given.single, given.records, "single")
        found[f"a run per topic, {given.single}"] = tidemark.one_by_one(place, streams)
        streams = _filled(place, given.topics, given.records, "query")
        for each in streams:
            place.create_table(each.table, ORDERS)
        found["a streaming query per topic"] = spark.drain(place, streams, PARALLEL)
    single = found[f"a run per topic, {given.single}"].seconds * given.topics / given.single
    for name, cost in found.items():
        print(f"{name:>28}: {cost.seconds:6.1f} s, {cost.cpu:6.1f} s CPU, {cost.memory} MiB")
    print(
        f"a run for each of {given.topics} would take {single:.0f} s: {single / found['one run'].seconds:.1f} ×"
    )
    costs = {name: {"cpu": c.cpu, "seconds": c.seconds, "memory": c.memory} for name, c in found.items()}
    store("many", vars(given), found=costs)


if __name__ == "__main__":
    main()
