"""Rules: whether Kafka compacts a topic is None, not a guess, where the broker does not answer; many partitions get
longer to answer than a few."""

import socket

import pytest

from tidemark.domain.config.platform import KafkaCluster
from tidemark.domain.errors import Outage
from tidemark.engine.look import headroom


def test_whether_a_topic_is_compacted_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(headroom, "TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = KafkaCluster.model_validate({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
        with pytest.raises(Outage):
            headroom.kept_for(cluster, ["orders"])
        assert headroom.compacted(cluster, "orders") is None


def test_every_partition_has_its_share_of_the_time() -> None:
    assert [headroom._patience(partitions) for partitions in (0, 500, 10_000)] == [5, 6, 25]
