"""A session of each module's own, on the session's stack."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.engine.access.spark import connect


@pytest.fixture(scope="module")
def spark(stack: dict[str, Any]) -> Iterator[SparkSession]:
    session = connect(stack["spark"]["remote"])
    yield session
    session.stop()
