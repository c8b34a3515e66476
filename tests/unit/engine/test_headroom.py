"""Rule: whether Kafka compacts a topic is None, not a guess, where the broker does not answer."""

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
