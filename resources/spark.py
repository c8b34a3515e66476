"""Spark sessions over Spark Connect. One session per run and never a shared one."""

from typing import Any

from dagster import DagsterInvariantViolationError
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession


class SparkConnect(LazyPySparkResource):
    """A session of its own on the Connect server, made by `LakeResource.open` at the platform file's address.

    `spark_config` has settings, and `spark.remote` for another server. Without that no token of a URL shows in
    Dagster's UI, and `spark_session` has to be asked for after `open`.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    def renewed(self, address: str) -> SparkSession:
        """A new session, whatever became of the last one; `spark_config` may name another server, and settings."""
        from tidemark.engine.access.spark import connect  # noqa: PLC0415 - only steps pay for the client's imports

        settings = {"spark.remote": address, **self.spark_config}
        session = connect(str(settings.pop("spark.remote")))
        for key, value in settings.items():
            session.conf.set(key, str(value))
        self._spark_session = session
        return session

    def _init_session(self) -> None:
        if self._spark_session is not None:
            return
        if "spark.remote" not in self.spark_config:
            raise DagsterInvariantViolationError("Open the lake first, or set spark_config['spark.remote'].")
        self.renewed(str(self.spark_config["spark.remote"]))
