"""The Kafka reader in `tidemark/jvm` beside Spark's own, which reads where records may be lost: the same rows."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from topics import Cluster, Topic

HEADERS: tuple[Any, ...] = (None, [], [("a", b"1")], [("a", b"1"), ("a", None), ("é", b"")])
FAR = 253_402_300_800_000 + 7


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    return spark


@pytest.fixture(scope="module")
def cluster(stack: dict[str, Any]) -> Cluster:
    return Cluster(stack["kafka"]["bootstrap.servers"], stack["schema_registry"]["url"])


def read(
    spark: SparkSession,
    topic: Topic,
    ranges: Mapping[int, tuple[int, int]],
    *,
    ours: bool = True,
    **more: str,
) -> DataFrame:
    def offsets(at: int) -> str:
        return json.dumps({topic.name: {str(p): each[at] for p, each in ranges.items()}})

    options = {
        "kafka.bootstrap.servers": topic.cluster.bootstrap,
        "assign": json.dumps({topic.name: sorted(ranges)}),
        "startingOffsets": offsets(0),
        "endingOffsets": offsets(1),
        "failOnDataLoss": str(ours).lower(),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        **more,
    }
    return spark.read.format("kafka").options(**options).load()


def rows(found: DataFrame) -> list[Any]:
    """In order, their times in microseconds: Python knows no year 10000."""
    told = found.withColumn("timestamp", F.unix_micros("timestamp"))
    return sorted(told.collect(), key=lambda row: (row.partition, row.offset))


def both(spark: SparkSession, topic: Topic, ranges: Mapping[int, tuple[int, int]], **more: str) -> list[Any]:
    """The rows by our reader, as they are with one task per partition, with one for all, and by Spark's reader."""
    found = rows(read(spark, topic, ranges, **more))
    assert found == rows(read(spark, topic, ranges, **more).coalesce(1))
    assert found == rows(read(spark, topic, ranges, ours=False, **more))
    return found


def test_every_part_of_a_record_is_the_same(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.topic("parts", 3, message_timestamp_after_max_ms=str(2**63 - 1))
    producer = topic._new_producer()
    times = (0, 1, 1_700_000_000_123, FAR - 8, FAR)
    for n in range(120):
        key, value = (None, b"", b"key")[n % 3], (None, b"", bytes(range(n)))[n // 3 % 3]
        producer.produce(
            topic.name, value, key, n % 3, headers=HEADERS[n % len(HEADERS)], timestamp=times[n % len(times)]
        )
    assert producer.flush(30) == 0
    ranges = {0: (0, 40), 1: (3, 37), 2: (39, 40)}
    found = both(spark, topic, ranges)
    assert [sum(row.partition == p for row in found) for p in ranges] == [40, 34, 1]
    assert {row.headers and len(row.headers) for row in found} == {None, 1, 3}
    without = read(spark, topic, ranges, includeHeaders="false")
    assert rows(without) == rows(read(spark, topic, ranges, ours=False, includeHeaders="false"))
    assert "headers" not in without.columns


def test_the_plan_says_who_reads(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = cluster.topic("plan")
    topic.send(range(3))
    read(spark, topic, {0: (0, 3)}).explain()
    assert re.search(r"Ranges \[.*\], 1 tasks, false", capsys.readouterr().out)


def test_many_polls_of_many_partitions(spark: SparkSession, cluster: Cluster) -> None:
    """Ranges that end at different polls, one of them empty, one of them in the middle of what is polled."""
    topic = cluster.topic("polls", 4)
    topic.send(range(40_000))
    ranges = {0: (0, 10_000), 1: (0, 1), 2: (5_000, 5_000), 3: (1, 7_777)}
    more = {"kafka.max.poll.records": "700", "kafka.max.partition.fetch.bytes": "20000"}
    assert len(both(spark, topic, ranges, **more)) == 17_777


def test_a_time_before_1582_is_exact_where_spark_s_reader_goes_by_the_julian_calendar(
    spark: SparkSession, cluster: Cluster
) -> None:
    """Given the first moment of year 1, the last before the Gregorian calendar, and one of 1969."""
    topic, ranges = cluster.topic("julian"), {0: (0, 3)}
    times = (-62_135_596_800_000, -12_219_292_800_001, -1_001)
    producer = topic._new_producer()
    for at in times:
        producer.produce(topic.name, b"", b"", 0, timestamp=at)
    assert producer.flush(30) == 0
    found = rows(read(spark, topic, ranges))
    assert [row.timestamp for row in found] == [at * 1000 for at in times]
    assert found[2] == rows(read(spark, topic, ranges, ours=False))[2]


@pytest.mark.parametrize("way", ["ours", "together", "theirs"])
def test_rows_are_written_as_they_were_read(spark: SparkSession, cluster: Cluster, way: str) -> None:
    """Our reader's rows may wait in the writer, also where one task reads all; others are bytes that the next row is put into.

    It pauses for a writer: after polls that left something to write, and after those that left nothing.
    """
    topic = cluster.topic(f"written-{way}", 2)
    producer = topic._new_producer()
    for n in range(24_000):
        key, value = b"k" * (n % 13), str(n).encode() * (n % 17)
        producer.produce(topic.name, value, key, n % 2, headers=[(f"h{n}", b"v" * (n % 5))] * (n % 3))
    assert producer.flush(30) == 0
    found = read(spark, topic, dict.fromkeys((0, 1), (0, 12_000)), ours=way != "theirs")
    columns = ["text", "key", "value", "topic", "partition", "offset", "headers"]
    told = (found.coalesce(1) if way == "together" else found).select(
        F.decode("value", F.lit("UTF-8")).alias("text"),
        *columns[1:],
        F.expr("IF(offset % 7 = 3 OR offset < 2000 OR offset > 11300, 'skipped', 'written')").alias("fate"),
    )
    counted = told.observe(Observation(), F.count("*").alias("read"))
    kept = counted.where("fate = 'written'").select(*columns)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.readers")
    spark.sql(
        f"CREATE TABLE lake.readers.{way} (text STRING, key BINARY, value BINARY, topic STRING, partition INT, "
        "offset BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    )
    kept.createOrReplaceTempView("kept")
    (plan,) = spark.sql(f"EXPLAIN CODEGEN INSERT INTO lake.readers.{way} SELECT * FROM kept").collect()
    assert f"tidemark.decode.Record({len(columns) + 1}, {str(way != 'theirs').lower()})" in plan[0]
    assert "Found 1 WholeStageCodegen subtrees" in plan[0]
    assert (" tasks, true" in plan[0]) == (way != "theirs")
    kept.writeTo(f"lake.readers.{way}").append()
    written = sorted(
        spark.table(f"lake.readers.{way}").collect(), key=lambda row: (row.partition, row.offset)
    )
    expected = sorted(told.collect(), key=lambda row: (row.partition, row.offset))
    assert [tuple(row) for row in written] == [tuple(row)[:-1] for row in expected if row.fate == "written"]


def test_records_larger_than_a_fetch(spark: SparkSession, cluster: Cluster) -> None:
    """Of one partition, and of all together: Kafka gives at least one."""
    topic = cluster.topic("large", 3, max_message_bytes=str(8_000_000))
    producer = topic._new_producer(**{"message.max.bytes": "8000000"})
    for n in range(30):
        producer.produce(topic.name, b"x" * (7_000_000 if n % 10 == 3 else 40_000 + n), None, n % 3)
    assert producer.flush(30) == 0
    more = {"kafka.max.partition.fetch.bytes": "30000", "kafka.fetch.max.bytes": "50000"}
    found = read(spark, topic, dict.fromkeys(range(3), (0, 10)), **more)
    sizes = found.select("partition", "offset", F.length("value").alias("size")).collect()
    assert len(sizes) == 30
    assert sorted(row.size for row in sizes)[-3:] == [7_000_000] * 3


def test_no_more_tasks_read_than_there_are_cores(spark: SparkSession, cluster: Cluster) -> None:
    """Given more partitions than cores: each task has about as many records, and no task is without a partition."""
    cores = int(str(spark.conf.get("spark.default.parallelism")))
    topic = cluster.topic("spread", 3 * cores)
    topic.send(range(3000 * cores))
    sizes = {p: 1000 if p < cores else 10 * p for p in range(3 * cores)}
    found = read(spark, topic, {p: (0, size) for p, size in sizes.items()})
    tasks = found.groupBy(F.spark_partition_id().alias("task")).agg(F.count("*").alias("count")).collect()
    assert len(tasks) == cores
    assert sum(task["count"] for task in tasks) == sum(sizes.values())
    assert max(task["count"] for task in tasks) < 1.2 * min(task["count"] for task in tasks)
    assert rows(read(spark, topic, dict.fromkeys(sizes, (5, 5)))) == []


def test_ranges_that_are_cut_in_pieces(spark: SparkSession, cluster: Cluster) -> None:
    """One consumer cannot be at two places of a partition."""
    topic = cluster.topic("pieces", 2)
    topic.send(range(1000))
    assert len(both(spark, topic, {0: (0, 500), 1: (7, 400)}, minPartitions="9")) == 893


def test_aborted_records_and_markers_leave_gaps(spark: SparkSession, cluster: Cluster) -> None:
    """At the start, in the middle, and at the end of what is read; ranges of nothing but these as well."""
    topic = cluster.topic("gaps", 2)
    for number in range(6):
        with topic.transaction(abort=number % 2 == 0) as transaction:
            transaction.send(range(number * 10, number * 10 + 10))
    with topic.transaction(abort=True) as transaction:
        transaction.send(range(60, 70))
    ends = {0: (0, 42), 1: (0, 42)}
    assert len(both(spark, topic, ends)) == 30
    assert both(spark, topic, {0: (0, 6), 1: (36, 42)}) == []
    assert both(spark, topic, {0: (5, 6)}) == []


def test_an_offset_that_is_gone_is_an_error(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.topic("gone", 2)
    topic.send(range(100))
    topic.delete_records({1: 20})
    for found in (read(spark, topic, {0: (0, 50), 1: (10, 50)}), read(spark, topic, {1: (10, 50)})):
        for each in (found, found.coalesce(1)):
            with pytest.raises(Exception, match="OffsetOutOfRange"):
                each.collect()
    assert len(rows(read(spark, topic, {0: (0, 50), 1: (20, 50)}))) == 80


def test_records_that_do_not_come_are_an_error_in_time(spark: SparkSession, cluster: Cluster) -> None:
    """What lies behind an open transaction; the ranges before it are of no help."""
    topic = cluster.topic("open", 2)
    topic.send(range(10))
    with topic.transaction() as transaction:
        transaction.send([10])
        transaction.producer.flush(30)
        waiting = read(spark, topic, {0: (0, 6), 1: (0, 5)}, **{"kafkaConsumer.pollTimeoutMs": "1500"})
        for each in (waiting, waiting.coalesce(1)):
            with pytest.raises(Exception, match="Cannot fetch record for offset"):
                each.collect()
    assert len(both(spark, topic, {0: (0, 6), 1: (0, 5)})) == 11


def test_no_connection_outlives_its_task(
    spark: SparkSession, cluster: Cluster, stack: dict[str, Any]
) -> None:
    topic = cluster.topic("closed", 4)
    topic.send(range(40))

    def open_files() -> int:
        return len(list(Path(f"/proc/{stack['processes']['spark']}/fd").iterdir()))

    ranges = dict.fromkeys(range(4), (0, 10))
    rows(read(spark, topic, ranges))
    before = open_files()
    for _ in range(10):
        rows(read(spark, topic, ranges))
    assert open_files() < before + 10
