"""Spark sessions over Spark Connect. One session per run and never a shared one."""

from collections.abc import Mapping
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession


class SparkConnect(LazyPySparkResource):
    """A session of its own on the Connect server of `spark_config["spark.remote"]`, made on first use.

    Left empty, address and settings come from the platform file; so no token of a URL shows in Dagster's UI.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    def renewed(self, address: str, conf: Mapping[str, str]) -> SparkSession:
        """A new session, whatever became of the last one; `spark_config` wins over what is given."""
        settings = {"spark.remote": address, **conf, **self.spark_config}
        builder = SparkSession.builder.remote(str(settings.pop("spark.remote")))
        self._spark_session = builder.config(map={k: str(v) for k, v in settings.items()}).create()
        session: SparkSession = self._spark_session
        return session

    def _init_session(self) -> None:
        if self._spark_session is None:
            self.renewed(str(self.spark_config["spark.remote"]), {})
