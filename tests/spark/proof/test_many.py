"""Rule: a bad topic never stops the others, many small ones cost little, a large one is taken in bounded bites."""

from collections import Counter

import psutil
import pytest
from pyspark.sql.connect.client import SparkConnectClient
from topics import order

from tidemark.domain.config.platform import Lane
from tidemark.engine.ingest.microbatch import microbatch
from tidemark.engine.lane.append_work import AppendWork
from tidemark.engine.lane.catch_up import catch_up
from tidemark.engine.lane.serve import catch_up_all

MEGABYTE = 1024 * 1024


def run_all(lakehouse, tables, parallel=4):
    """One run over several tables, as a click on all of them makes it."""
    contracts = [c for c in lakehouse.configuration().contracts if c.table in {t.name for t in tables}]
    work = AppendWork(lakehouse.lake, "test", ())
    reports = catch_up_all(work, contracts, Lane(parallel=parallel))
    return {report.outcome.table: report.outcome for report in reports}


def test_one_broken_table_among_five_stops_alone(lakehouse):
    topics = [lakehouse.cluster.topic(f"five_{n}") for n in range(5)]
    for topic in topics:
        topic.send(range(20))
    tables = [lakehouse.table(topic) for topic in topics]
    run_all(lakehouse, tables)
    broken, *healthy = tables
    broken.topic.recreate(1)
    for topic in topics:
        topic.send(range(20, 30))
    outcomes = run_all(lakehouse, tables)
    assert outcomes[broken.name].state == "topic_recreated"
    assert [outcomes[table.name].state for table in healthy] == ["fresh"] * 4
    for table in healthy:
        assert table.ids() == list(range(30))
    healthy[0].holds_everything()


@pytest.fixture
def statements(monkeypatch):
    """Counts what is asked of the Spark server, by kind of request."""
    asked: Counter[str] = Counter()
    for name in ("_execute", "_execute_and_fetch", "_analyze"):
        inner = getattr(SparkConnectClient, name)

        def counting(self, *args, _name=name, _inner=inner, **kwargs):
            asked[_name] += 1
            return _inner(self, *args, **kwargs)

        monkeypatch.setattr(SparkConnectClient, name, counting)
    return asked


@pytest.mark.long
def test_twenty_small_topics_are_caught_up_by_one_run(lakehouse, statements):
    """Given twenty loaded tables with a few new records each, when run at once, then each costs a bounded number of statements."""
    topics = [lakehouse.cluster.topic(f"small_{n:02}") for n in range(20)]
    tables = [lakehouse.table(topic) for topic in topics]
    for topic in topics:
        topic.send(range(3))
    first = run_all(lakehouse, tables)
    assert {outcome.state for outcome in first.values()} == {"fresh"}
    for topic in topics:
        topic.send(range(3, 10))
    statements.clear()
    outcomes = run_all(lakehouse, tables)
    assert {outcome.state for outcome in outcomes.values()} == {"fresh"}
    assert {outcome.rows.written for outcome in outcomes.values()} == {7}
    assert {outcome.commits for outcome in outcomes.values()} == {1}
    assert {outcome.files for outcome in outcomes.values()} == {1}
    assert sum(statements.values()) <= 20 * 25, statements
    for table in tables[::4]:
        table.holds_everything()
    assert all(table.ids() == list(range(10)) for table in tables)


@pytest.mark.parametrize(
    ("records", "at_once"), [(210_000, 30_000), pytest.param(1_000_000, 150_000, marks=pytest.mark.long)]
)
def test_a_backlog_drains_in_bounded_batches_with_steady_memory(lakehouse, monkeypatch, records, at_once):
    topic = lakehouse.cluster.topic("backlog", 4)
    values = [topic.encode(order(n)) for n in range(1000)]
    topic.send_raw((None, values[n % 1000], n % 4) for n in range(records))
    table = lakehouse.table(topic, ingest={"max_records": at_once})
    server = psutil.Process(lakehouse.status["processes"]["spark"])
    seen = []

    def noted(*args, **kwargs):
        commit = microbatch(*args, **kwargs)
        if commit is not None:
            assert commit.rows.read <= at_once
            seen.append((psutil.Process().memory_info().rss, server.memory_info().rss))
        return commit

    monkeypatch.setattr("tidemark.engine.lane.catch_up.microbatch", noted)
    outcome = catch_up(lakehouse.lake, table.contract, "test")
    assert (outcome.state, outcome.rows.written, outcome.commits) == ("fresh", records, 7)
    client = [mine for mine, _ in seen]
    assert client[-1] - client[1] < 100 * MEGABYTE, f"the run's own memory grows with the backlog: {client}"
    heap = 1536 * MEGABYTE
    assert max(theirs for _, theirs in seen) < 2 * heap, f"the server's memory grows with the backlog: {seen}"
    assert table.holds_everything().rows == records
