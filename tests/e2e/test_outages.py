"""Rule: an outage moves nothing and is told apart from bad data; when the service is back, the next run continues."""

import struct
import threading

import pytest
from backlogs import BACKLOG, goes_on, until_it_writes, with_backlog
from pyspark.sql.connect.client.core import ChannelBuilder

from tidemark.engine.lane import catch_up


@pytest.fixture
def soon_given_up(monkeypatch):
    """A run tries once more, not for seven seconds."""
    monkeypatch.setattr(catch_up, "RETRIES", 1)


@pytest.mark.long  # that Spark dies then is in test_spark_deaths.py
def test_a_broker_killed_in_mid_write_loses_nothing(lakehouse):
    """Given a broker that dies while its records are read and written, when it is back, then the run's retry or the next run completes the batch."""
    backlog, outcomes = with_backlog(lakehouse), []
    run = threading.Thread(target=lambda: outcomes.append(backlog.run()))
    with until_it_writes(backlog):
        run.start()
    lakehouse.kill("kafka")
    lakehouse.heal()
    run.join(300)
    assert not run.is_alive(), "the run did not end"
    assert outcomes[0].state in {"fresh", "spark_down", "kafka_down", "lagging"}, outcomes[0].error
    goes_on(backlog)
    assert backlog.holds_everything().rows == BACKLOG + 10


@pytest.mark.long  # two minutes, all of them waiting
def test_a_spark_server_that_hangs_is_an_outage(lakehouse, monkeypatch):
    """Given a server that does nothing more in mid write, when it is asked whether it lives, then the run ends, and goes on once it does."""
    backlog, outcomes = with_backlog(lakehouse), []
    sooner = [(k, 5_000 if "keepalive" in k else v) for k, v in ChannelBuilder.GRPC_DEFAULT_OPTIONS]
    patience = ("grpc.min_reconnect_backoff_ms", 2_000)
    monkeypatch.setattr(ChannelBuilder, "GRPC_DEFAULT_OPTIONS", [*sooner, patience])
    lake = lakehouse.open_lake()
    run = threading.Thread(target=lambda: outcomes.append(backlog.run(lake=lake)))
    with until_it_writes(backlog):
        run.start()
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
