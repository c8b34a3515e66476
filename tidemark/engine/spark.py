"""The Spark Connect session: what must be true of the server before anything is written through it.

No correctness lives in the session; it may be lost at any moment and is then made anew.
"""

from pyspark.sql import SparkSession

from tidemark.domain.errors import Stopped
from tidemark.domain.platform import Platform

REQUIRED_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def connect(remote: str) -> SparkSession:
    """A session of its own on the Connect server at `remote` (sc://host:port)."""
    session: SparkSession = SparkSession.builder.remote(remote).create()
    return session


def configure(spark: SparkSession, platform: Platform) -> None:
    """Give the session what platform.yaml says, and the catalog when the server itself was started without it."""
    catalog = platform.catalog
    if spark.conf.get(f"spark.sql.catalog.{catalog.name}", None) is None:
        for key, value in catalog.spark_conf().items():
            spark.conf.set(key, value)
    for key, value in platform.spark.conf.items():
        spark.conf.set(key, str(value))


def verify(spark: SparkSession, catalog: str) -> None:
    """Refuse a server on which a commit could be wrong.

    Raises:
        Stopped: `misconfigured`: the catalog is missing, its cache is on, or Iceberg's extensions are not loaded.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    if not spark.conf.get(prefix, None):
        raise Stopped(
            "misconfigured", "-", f"the Spark Connect server has no catalog {catalog}: set {prefix} on it"
        )
    if str(spark.conf.get(f"{prefix}.cache-enabled", "true")).lower() != "false":
        raise Stopped(
            "misconfigured",
            "-",
            f"the Spark Connect server caches catalog {catalog}, so a commit could read a stale table: "
            f"start it with {prefix}.cache-enabled=false",
        )
    if REQUIRED_EXTENSIONS not in str(spark.conf.get("spark.sql.extensions", "")):
        raise Stopped(
            "misconfigured", "-", f"the Spark Connect server lacks spark.sql.extensions={REQUIRED_EXTENSIONS}"
        )
