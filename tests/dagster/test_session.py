"""A Spark server that takes connections and answers nothing is down within seconds, whatever is to be set on it."""

import socket
import time

import pytest

from resources.lake import LakeResource
from tidemark.domain.errors import Outage
from tidemark.engine.config.configuration import Places


@pytest.mark.long
def test_a_server_that_does_not_answer_is_down_soon_also_when_it_is_to_be_given_settings(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        (tmp_path / "platform.yaml").write_text(
            'kafka: {main: {bootstrap.servers: "127.0.0.1:1"}}\n'
            'catalog: {type: rest, uri: "http://127.0.0.1:1"}\n'
            # TLS against a server that has none: the handshake is never answered.
            f'spark: {{remote: "sc://127.0.0.1:{mute.getsockname()[1]}/;token=x", conf: {{spark.sql.ansi.enabled: true}}}}\n'
        )
        resource = LakeResource.at(Places(tmp_path / "platform.yaml", tmp_path / "contracts", tmp_path))
        began = time.monotonic()
        with resource.open() as lake, pytest.raises(Outage) as raised:
            lake.spark()
    assert raised.value.state == "spark_down"
    assert time.monotonic() - began < 200
