"""Rule: an outage moves nothing and is told apart from bad data; when the service is back, the next run continues."""

import struct
import threading
from pathlib import Path
from urllib.parse import urlparse

import pytest
from lakehouse import until
from pyspark.sql.connect.client.core import ChannelBuilder

from tidemark.domain.states import OUTAGES
from tidemark.engine.lane import catch_up

BACKLOG = 400_000


@pytest.fixture
def backlog(lakehouse):
    """A loaded table with a large batch waiting."""
    topic = lakehouse.cluster.topic("backlog", 2)
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    payload = topic.encode({"id": 7, "customer": "c", "amount": 1.0, "at": 0})
    topic.send_raw((None, payload, n % 2) for n in range(BACKLOG))
    return table


@pytest.fixture
def soon_given_up(monkeypatch):
    """A run tries once more, not for seven seconds."""
    monkeypatch.setattr(catch_up, "RETRIES", 1)


def goes_on(table):
    """Run as the sensor would until all is there; a run may still find the service coming up, and say so."""
    seen = []
    until(
        lambda: seen.append(table.run().state) or seen[-1] not in OUTAGES, "the service to be seen again", 90
    )
    assert seen[-1] == "fresh", seen


@pytest.mark.parametrize("service", ["spark", pytest.param("kafka", marks=pytest.mark.long)])
def test_a_service_killed_in_mid_write_loses_nothing(lakehouse, backlog, service):
    """Given a server that dies while it reads and writes, when it is back, then the run's retry or the next run completes the batch."""
    folder = Path(urlparse(backlog.iceberg().location()).path) / "data"
    there = set(folder.rglob("*.parquet"))
    outcomes = []
    run = threading.Thread(target=lambda: outcomes.append(backlog.run()))
    run.start()
    until(lambda: set(folder.rglob("*.parquet")) - there, "the server to begin writing", 120)
    lakehouse.kill(service)
    lakehouse.heal()
    run.join(300)
    assert not run.is_alive(), "the run did not end"
    assert outcomes[0].state in {"fresh", "spark_down", "kafka_down", "lagging"}, outcomes[0].error
    goes_on(backlog)
    assert backlog.holds_everything().rows == BACKLOG + 10


@pytest.mark.long  # two minutes, all of them waiting
def test_a_spark_server_that_hangs_is_an_outage(lakehouse, backlog, monkeypatch):
    """Given a server that does nothing more in mid write, when it is asked whether it lives, then the run ends, and goes on once it does."""
    sooner = [(k, 5_000 if "keepalive" in k else v) for k, v in ChannelBuilder.GRPC_DEFAULT_OPTIONS]
    patience = ("grpc.min_reconnect_backoff_ms", 2_000)
    monkeypatch.setattr(ChannelBuilder, "GRPC_DEFAULT_OPTIONS", [*sooner, patience])
    lake = lakehouse.open_lake()
    folder = Path(urlparse(backlog.iceberg().location()).path) / "data"
    there = set(folder.rglob("*.parquet"))
    outcomes = []
    run = threading.Thread(target=lambda: outcomes.append(backlog.run(lake=lake)))
    run.start()
    until(lambda: set(folder.rglob("*.parquet")) - there, "the server to begin writing", 120)
    with lakehouse.hanging("spark"):
        run.join(300)
        assert not run.is_alive(), "the run did not end"
    lake.close()
    assert outcomes[0].state == "spark_down", outcomes[0].error
    goes_on(backlog)
    assert backlog.holds_everything().rows == BACKLOG + 10


@pytest.mark.parametrize(
    ("service", "state"),
    [
        ("spark", "spark_down"),
        ("kafka", "kafka_down"),
        pytest.param("registry", "registry_down", marks=pytest.mark.long),
    ],
)
def test_a_service_that_is_down_moves_nothing(lakehouse, soon_given_up, service, state):
    topic = lakehouse.cluster.topic("patient", 2)
    topic.send(range(20))
    table = lakehouse.table(topic)
    table.run()
    topic.send(range(20, 40))
    before = table.iceberg().metadata_location
    lakehouse.kill(service)
    outcome = table.run()
    assert outcome.state == state
    assert table.iceberg().metadata_location == before
    lakehouse.heal()
    goes_on(table)
    assert table.ids() == list(range(40))
    table.holds_everything()


def test_registry_down_is_an_outage_but_an_unknown_schema_id_is_bad_data(lakehouse, soon_given_up):
    """Given a record whose id no schema has, when the registry is down, then nothing moves; when it answers, then the record is quarantined."""
    topic = lakehouse.cluster.topic("orders")
    topic.send(range(40))
    topic.send_raw([(None, struct.pack(">bI", 0, 424_242) + b"\x02", 0)])
    table = lakehouse.table(topic)
    lakehouse.kill("registry")
    assert table.run().state == "registry_down"
    assert not lakehouse.catalog.table_exists(table.name)
    lakehouse.heal()
    goes_on(table)
    assert table.causes() == {"unknown_schema_id": 1}
    registry = lakehouse.lake.registry("main")
    assert (registry.numbers("nobody"), registry.latest("nobody"), registry.by_id(424_242)) == (
        (),
        None,
        None,
    )
    assert registry.compatibility("nobody") == "BACKWARD"
    table.holds_everything()
