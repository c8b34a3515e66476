"""The local Iceberg catalog: one SQLite file that Spark's JDBC catalog and PyIceberg's SqlCatalog share."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

NAME = "lake"
BUSY_SECONDS = 60
# The V1 layout of Iceberg's JdbcCatalog. Made here because both libraries make it on first use, and race.
TABLES = """\
CREATE TABLE IF NOT EXISTS iceberg_tables (
  catalog_name VARCHAR(255) NOT NULL,
  table_namespace VARCHAR(255) NOT NULL,
  table_name VARCHAR(255) NOT NULL,
  metadata_location VARCHAR(1000),
  previous_metadata_location VARCHAR(1000),
  iceberg_type VARCHAR(5),
  PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
  catalog_name VARCHAR(255) NOT NULL,
  namespace VARCHAR(255) NOT NULL,
  property_key VARCHAR(255),
  property_value VARCHAR(1000),
  PRIMARY KEY (catalog_name, namespace, property_key)
);
"""


@dataclass(frozen=True, slots=True)
class LocalCatalog:
    """home/catalog.db and home/warehouse."""

    home: Path

    @property
    def file(self) -> Path:
        """The SQLite database."""
        return self.home / "catalog.db"

    @property
    def warehouse(self) -> str:
        """Where the tables lie. Not percent-encoded: neither Hadoop nor PyIceberg would decode it (`home_fault`)."""
        return f"file://{self.home / 'warehouse'}"

    def create(self) -> None:
        """Make the file once; write-ahead logging lets readers go on while somebody commits."""
        (self.home / "warehouse").mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(self.file, timeout=BUSY_SECONDS) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.executescript(TABLES)
        database.close()

    def pyiceberg(self) -> dict[str, str]:
        """What `pyiceberg.catalog.load_catalog(NAME, **properties)` takes."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.file}?timeout={BUSY_SECONDS}",
            "warehouse": self.warehouse,
        }

    def spark(self) -> dict[str, str]:
        """What a Spark server is told of it; with the cache on, sessions would not see each other's commits."""
        prefix = f"spark.sql.catalog.{NAME}"
        return {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.catalog-impl": "tidemark.iceberg.ClosingJdbcCatalog",
            f"{prefix}.uri": f"jdbc:sqlite:{self.file}?busy_timeout={BUSY_SECONDS * 1000}",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": self.warehouse,
            f"{prefix}.cache-enabled": "false",
        }
