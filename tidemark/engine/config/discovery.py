"""The discovery file: what was last seen of topics and tables, so that definitions load without any network.

A cache: sensors and runs refresh it, loading reads it; when it is missing, damaged or of another version it is empty.
Of an incremental mart it alone knows what older rows were made of. `<home>/discovery.json`:
{"version": 1,
 "clusters": {cluster: {"topics": {topic: {"partitions": n, "id": …}}}},
 "tables": {table: {"columns": [{"name", "type", "doc", "required", "from"}], "location", "topic": [cluster, topic]}},
 "served": {table: digest of the columns that the orchestrator's definitions show}}
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidemark.domain.columns.types import Struct
from tidemark.domain.home import PRIVATE
from tidemark.engine.alone import alone
from tidemark.engine.whole_file import replace_whole

VERSION = 1
FILE = "discovery.json"


@dataclass(frozen=True, slots=True)
class Discovery:
    """Topics by cluster ({"partitions": n, "id": …}) and tables ({"columns": [{"name", "type", "doc"}]})."""

    clusters: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    served: Mapping[str, str] = field(default_factory=dict)

    def topics(self, cluster: str) -> Mapping[str, Mapping[str, Any]]:
        """The topics that were last seen on a cluster."""
        return self.clusters.get(cluster, {})

    def columns(self, table: str) -> list[Mapping[str, Any]]:
        """The columns that a table was last seen with."""
        return list(self.tables.get(table, {}).get("columns", []))

    def described(self) -> dict[str, list[Mapping[str, Any]]]:
        """Table -> the columns that it was last seen with."""
        return {table: self.columns(table) for table in self.tables}

    def digests(self) -> dict[str, str]:
        """Of the columns of each table."""
        return {table: digest_of(self.columns(table)) for table in self.tables}

    def shown(self, table: str) -> bool:
        """Whether definitions that are loaded show the columns that the table was last seen with."""
        return self.served.get(table) == digest_of(self.columns(table))

    def with_served(self, digests: Mapping[str, str]) -> "Discovery":
        """With what the definitions show now."""
        return replace(self, served=dict(digests))

    def with_topics(self, cluster: str, topics: Mapping[str, Mapping[str, Any]]) -> "Discovery":
        """With the whole list of a cluster's topics replaced."""
        return replace(self, clusters={**self.clusters, cluster: dict(topics)})

    def location(self, table: str) -> str:
        """Where the files of a table were last seen; empty when that is not known."""
        return str(self.tables.get(table, {}).get("location", ""))

    def loaded(self) -> dict[str, Sequence[str]]:
        """Table -> [cluster, topic] that it was loaded from, where that is known."""
        return {table: each["topic"] for table, each in self.tables.items() if "topic" in each}

    def without_topic(self, tables: Collection[str]) -> "Discovery":
        """With tables that were loaded from no topic any more: they are gone, and so is what they were loaded from."""
        kept = {
            table: {key: said for key, said in each.items() if key != "topic" or table not in tables}
            for table, each in self.tables.items()
        }
        return replace(self, tables=kept)

    def with_columns(
        self, table: str, columns: Struct, location: str = "", topic: Sequence[str] = ()
    ) -> "Discovery":
        """With the columns of a table replaced, and its location and [cluster, topic] where they are given."""
        made = self.with_described(table, columns_to_json(columns))
        more = {key: each for key, each in (("location", location), ("topic", list(topic))) if each}
        return replace(made, tables={**made.tables, table: {**made.tables[table], **more}})

    def with_described(self, table: str, columns: Sequence[Mapping[str, Any]]) -> "Discovery":
        """As `with_columns`, of columns as the file holds them; `from` names what one is made of: [[table, column]]."""
        return replace(
            self, tables={**self.tables, table: {**self.tables.get(table, {}), "columns": list(columns)}}
        )

    def with_renamed(self, names: Mapping[str, str]) -> "Discovery":
        """With tables under their new names (old -> new), and so where they are what a mart's columns are made of."""
        ordered = sorted(self.tables.items(), key=lambda each: each[0] in names)
        return replace(
            self, tables={names.get(table, table): _renamed(each, names) for table, each in ordered}
        )


def _renamed(described: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    columns = [
        {**each, "from": [[names.get(table, table), column] for table, column in each["from"]]}
        if each.get("from")
        else each
        for each in described.get("columns", ())
    ]
    return {**described, **({"columns": columns} if columns else {})}


def digest_of(columns: Sequence[Mapping[str, Any]]) -> str:
    """12 hex digits over columns as the file holds them."""
    return hashlib.sha256(json.dumps(columns, sort_keys=True, default=dict).encode()).hexdigest()[:12]


def columns_to_json(columns: Struct) -> list[dict[str, Any]]:
    """Top-level columns as [{"name", "type", "doc", "required"}], types spelled as docs/types.md does."""
    return [
        {"name": each.name, "type": str(each.type), "doc": each.doc, "required": each.required}
        for each in columns.fields
    ]


def read(home: Path) -> Discovery:
    """What the file says; empty when it says nothing that we understand. The same object until it is written again."""
    try:
        found = (home / FILE).stat()
    except OSError:
        return Discovery()
    return _parsed(home / FILE, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(4)
def _parsed(file: Path, _written: tuple[int, int, int]) -> Discovery:
    """A run asks for each of its tables, and the file grows with their number: it is parsed once."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            return Discovery()
        clusters = {name: dict(each["topics"]) for name, each in content.get("clusters", {}).items()}
        return Discovery(clusters, dict(content.get("tables", {})), dict(content.get("served", {})))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Discovery()


def update(home: Path, change: Callable[[Discovery], Discovery]) -> bool:
    """Apply `change` to the file, one process at a time; nothing is written when nothing changed.

    Returns whether it was written. A home that cannot be written is no error: the file is a cache.
    """
    try:
        home.mkdir(PRIVATE, parents=True, exist_ok=True)
        with alone(home / f"{FILE}.lock"):
            before = read(home)
            after = change(before)
            if after == before:
                return False
            _write(home, after)
    except OSError:
        return False
    return True


def _write(home: Path, discovery: Discovery) -> None:
    content = {
        "version": VERSION,
        "clusters": {name: {"topics": topics} for name, topics in discovery.clusters.items()},
        "tables": discovery.tables,
        "served": discovery.served,
    }
    replace_whole(home / FILE, json.dumps(content, sort_keys=True, default=dict))
