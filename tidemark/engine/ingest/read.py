"""Kafka as a Spark DataFrame: exactly the offsets of a plan, committed records only.

`assign`, because `subscribe` breaks when partitions grow; the isolation level with its `kafka.` prefix, because
without it Spark ignores it in silence (docs/guide.md, The way of a record).
"""

import json

from pyspark.sql import DataFrame

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.offsets import Ranges, total
from tidemark.engine.access.lake import Lake

POLL_TIMEOUT_MS = 30_000
# The ranges are known to hold records, so waiting for more (500 ms by default) only delays the end of a small batch.
# What was fetched outlives many collections, each of which copies it: with 16 MB collections took twice as long.
_FETCHES = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(2 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(16 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    "kafka.fetch.max.wait.ms": "20",
}
SMALL_BATCH = 100_000
"""Offsets up to which one task reads, decodes and writes everything: N partitions of the table make N files."""


def read_ranges(lake: Lake, contract: Contract, ranges: Ranges, *, alone: bool = False) -> DataFrame:
    """Columns key, value, topic, partition, offset, timestamp, timestampType, headers of the records in `ranges`.

    `alone`: no other rows go through the plan.

    Raises:
        Stopped: `misconfigured`, PEM files that librdkafka reads and Java does not.
    """
    cluster = lake.platform.kafka[contract.cluster]
    try:
        connection = cluster.spark_options()
    except ValueError as error:
        why = f"kafka.{contract.cluster} in platform.yaml: {error}"
        raise Stopped("misconfigured", contract.table, why, cluster=contract.cluster) from error
    options = {
        "groupIdPrefix": f"{cluster.group_id_prefix}-{contract.table}",
        **_FETCHES,
        **connection,
        "assign": json.dumps({contract.topic: sorted(ranges)}),
        "startingOffsets": _offsets(contract.topic, {p: each.start for p, each in ranges.items()}),
        "endingOffsets": _offsets(contract.topic, {p: each.end for p, each in ranges.items()}),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.allow.auto.create.topics": "false",  # a topic that somebody deletes meanwhile stays deleted
        "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_MS),
    }
    offsets = total(ranges)
    spark = lake.spark(rows=offsets) if alone else lake.spark()
    records = spark.read.format("kafka").options(**options).load()
    return records.coalesce(1) if offsets <= SMALL_BATCH and len(ranges) > 1 else records


def _offsets(topic: str, offsets: dict[int, int]) -> str:
    return json.dumps({topic: {str(p): offset for p, offset in sorted(offsets.items())}})
