"""What platform.yaml says is set on a session; what the server refuses is told without secrets."""

import traceback
from types import SimpleNamespace

import pytest

from tidemark.domain.config.platform import Spark
from tidemark.domain.errors import Stopped
from tidemark.engine.access.spark import configure, connect

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("key", "shown"), [("spark.authenticate.secret", "***"), ("spark.executor.memory", SECRET)]
)
def test_a_setting_that_the_server_refuses_is_named_and_a_secret_is_not_shown(stack, key, shown):
    session = connect(stack["spark"]["remote"])
    catalog = SimpleNamespace(name="lake", spark_conf=dict)
    platform = SimpleNamespace(catalog=catalog, spark=Spark(conf={key: SECRET}))
    with pytest.raises(Stopped, match=rf"the server refuses {key}: ") as caught:
        configure(session, platform)
    told = "".join(traceback.format_exception(caught.value))
    assert (SECRET in told) == (shown == SECRET)
    assert f"{key}: {shown}" in told
