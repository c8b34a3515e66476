"""The local Iceberg catalog: one SQLite file that Spark's JDBC catalog and PyIceberg's SqlCatalog share."""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tidemark.domain.errors import Refused
from tidemark.domain.home import ANOTHER

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
LOCATIONS = "SELECT metadata_location FROM iceberg_tables WHERE metadata_location LIKE 'file:/%'"


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
        return f"file://{self._folder}"

    @property
    def _folder(self) -> Path:
        return self.home / "warehouse"

    def create(self) -> None:
        """Make the file once; write-ahead logging lets readers go on while somebody commits.

        Raises:
            Refused: the home was moved or copied: its tables would be those of the place where it was made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.file, timeout=BUSY_SECONDS)) as database, database:
            database.execute("PRAGMA journal_mode=WAL")
            database.executescript(TABLES)
            made = self._made_at(location for (location,) in database.execute(LOCATIONS))
        if made:
            raise Refused(
                f"{self.home} was made at {made}, where its catalog still has its tables: it was moved or copied",
                next_step=f"move it back, or, where nothing is left at {made}, put a link to it there; "
                f"instead of a copy {ANOTHER}",
                home=str(self.home),
            )

    def _made_at(self, locations: Iterable[str]) -> Path | None:
        """The home of a table whose metadata is in that one's warehouse and in this one's, too."""
        for location in locations:
            file = Path(re.sub("^file:/*", "/", location))
            for place in (each for each in file.parents if each.name == self._folder.name):
                own = self._folder / file.relative_to(place)
                if not _same(place, self._folder) and (own.exists() or _names(own) & _names(file)):
                    return place.parent
        return None

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


def _same(one: Path, other: Path) -> bool:
    """Also by another path, as through a link."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _names(file: Path) -> set[str]:
    """Of what lies beside it. Two tables have no metadata file of the same name, a table and its copy have."""
    try:
        return {each.name for each in file.parent.iterdir()}
    except OSError:
        return set()
