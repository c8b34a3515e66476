"""What a session takes and what is left of it: nothing in the server's heap, and nothing to do when a process ends."""

import atexit
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import urlparse

import psutil
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from topics import order
from waiting import until

import tidemark.engine.access.lake
from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access.lake import renewing_spark


@pytest.mark.parametrize(
    ("key", "value"), [("spark.sql.warehouse.dir", "/elsewhere"), ("spark.sql.shuffle.partitions", "many")]
)
def test_a_setting_that_the_server_refuses_is_named_and_is_no_outage(lakehouse, key, value):
    lake = lakehouse.open_lake()
    spark = lake.platform.spark.model_copy(update={"conf": {key: value}})
    lake.platform = lake.platform.model_copy(update={"spark": spark})
    with pytest.raises(Stopped) as refused:
        lake.spark()
    assert refused.value.state == "misconfigured"
    assert f"{key}: {value}" in str(refused.value)
    lake.close()


def test_a_process_ends_at_once_whatever_became_of_the_server(lakehouse, monkeypatch):
    """PySpark's own farewell to a server that is gone takes up to ten minutes for each session."""
    left = []
    monkeypatch.setattr(atexit, "register", left.append)
    monkeypatch.setattr(atexit, "unregister", left.remove)
    lake = lakehouse.open_lake()
    lake.spark()
    assert not left
    lake.close()


def test_a_time_in_a_condition_asks_the_session_that_lives(lakehouse):
    """Given a session that its server has closed, as one that has started anew has, when another takes its place, then times are taken by that."""
    lake = lakehouse.open_lake()
    lake.spark().client.release_session()
    lake.lose_spark()
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert lake.spark().range(1).select(F.lit(at) == F.timestamp_seconds(F.lit(1772366400))).collect() == [
        (True,)
    ]
    lake.close()


@pytest.mark.makes_code
def test_no_code_is_made_for_a_batch_of_few_records(lakehouse, monkeypatch):
    """Given a table whose columns no other has, when few records come, then Spark compiles nothing for them; for more it does."""
    kinds = ("long", "string", "boolean", "double", "string")
    fields = [{"name": f"only_here_{n}", "type": kind} for n, kind in enumerate(kinds)]
    topic = lakehouse.cluster.topic("few", schema={"type": "record", "name": "Few", "fields": fields})
    record = dict(zip([each["name"] for each in fields], (1, "a", True, 0.5, "b"), strict=True))
    topic.send_raw([(None, topic.encode(record), 0)] * 5)
    table = lakehouse.table(topic)
    looking = lakehouse.lake.spark(rows=1)
    code = "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator"

    def compiled():
        return looking.sql(f"SELECT java_method('{code}', 'compileTime')").collect()[0][0]

    before = compiled()
    assert table.run().commits == 1
    assert compiled() == before
    topic.send_raw([(None, topic.encode(record), 0)] * 5)
    monkeypatch.setattr(tidemark.engine.access.lake, "FEW_ROWS", 4)
    assert table.run().commits == 1
    assert compiled() != before


@pytest.mark.parametrize("closed", [1, 1_000_000])
def test_nothing_is_begun_when_the_server_has_closed_one_of_the_sessions(lakehouse, closed):
    """Given a process with both kinds of session, when the server has closed either, then that is found before a commit begins, and both are made anew."""
    lake = lakehouse.open_lake()
    few, many = lake.spark(rows=1), lake.spark(rows=1_000_000)
    assert few is not many
    lake.require_spark()
    lake.spark(rows=closed).client.release_session()
    with pytest.raises(Outage) as found, renewing_spark(lake):
        lake.require_spark()
    assert found.value.state == "spark_down"
    assert {lake.spark(rows=1), lake.spark(rows=1_000_000)}.isdisjoint({few, many})
    lake.require_spark()
    lake.close()


def test_the_readers_of_a_backlog_go_with_it(lakehouse):
    """Given a backlog of some batches, when it is drained, then the server reads Kafka meanwhile and soon holds no connection to it."""
    topic = lakehouse.cluster.topic("backlog", 4)
    values = [topic.encode(order(n)) for n in range(1000)]
    topic.send_raw((None, values[n % 1000], n % 4) for n in range(300_000))  # a reader of less is not caught
    server = psutil.Process(lakehouse.status["processes"]["spark"])
    broker = urlparse(f"//{lakehouse.cluster.bootstrap}").port

    def readers():
        return sum(bool(each.raddr) and each.raddr.port == broker for each in server.net_connections("tcp"))

    table = lakehouse.table(topic, ingest={"max_records": 100_000})
    until(lambda: readers() == 0, "readers of earlier tests to go", 20)
    with ThreadPoolExecutor(1) as process:
        drained = process.submit(table.run)
        until(lambda: readers() > 0, "the backlog to be read", 60)
        outcome = drained.result()
    assert (outcome.state, outcome.commits) == ("fresh", 3)
    until(lambda: readers() == 0, "readers of the backlog to go", 20)


def test_the_catalogs_of_sessions_that_ended_hold_no_files(lakehouse):
    """Given twelve sessions that have each asked the catalog, when they have ended and garbage was collected, then the server has no connection to it more than before."""
    server = psutil.Process(lakehouse.status["processes"]["spark"])
    last = lakehouse.open_lake()

    def connections():  # the database's own file is kept for the next one, while any is there
        return sum(each.path.endswith("catalog.db-wal") for each in server.open_files())

    def after_collection():
        last.spark().sql("SELECT java_method('java.lang.System', 'gc')").collect()
        return connections()

    before = after_collection()
    for _ in range(12):
        lake = lakehouse.open_lake()
        lake.spark().sql(f"SHOW NAMESPACES IN {lake.platform.catalog.name}").collect()
        lake.close()
    assert connections() >= before + 6, "one that is collected meanwhile has fewer"
    until(lambda: after_collection() <= before, "connections that nobody uses to be closed", 30)
    last.close()
