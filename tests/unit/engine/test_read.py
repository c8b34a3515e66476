"""Rule: what Spark cannot be told of a Kafka cluster is a fault of the platform file, named as such."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import KafkaCluster
from tidemark.domain.errors import Stopped
from tidemark.engine.ingest.read import read_ranges

RSA = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"
"""Of PKCS#1, which librdkafka reads."""


def test_a_key_that_only_librdkafka_reads_is_misconfigured() -> None:
    said = {"bootstrap.servers": "b:1", "security.protocol": "SSL"}
    said |= {"ssl.certificate.pem": "CERT", "ssl.key.pem": RSA}
    platform = SimpleNamespace(kafka={"eu": KafkaCluster.model_validate(said)})
    lake: Any = SimpleNamespace(platform=platform)
    contract = Contract.model_validate({"topic": "orders", "table": "shop.orders", "cluster": "eu"})
    with pytest.raises(Stopped, match=r"kafka.eu in platform.yaml: ssl.key: Java reads PKCS#8") as caught:
        read_ranges(lake, contract, {})
    assert (caught.value.state, caught.value.table) == ("misconfigured", "shop.orders")
