"""Rule: what a merge reads follows the new rows, not the tables: every other file may be gone meanwhile."""

from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlparse

import pyarrow.parquet as pq
import pytest
from append_log import AppendLog

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.merge.batch import FEW

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = Struct((Field("id", LONG), Field("v", STRING), KAFKA_COLUMN))
MANY = FEW + 50


class Growing:
    """One Kafka partition of (id, v); `rows` is the map."""

    def __init__(self, lakehouse, **how):
        self.lakehouse, self.next, self.rows = lakehouse, 0, {}
        layout = {"keys": ["id"], "partition_by": how.pop("partition_by")}
        self.log = AppendLog(lakehouse, COLUMNS, value={"format": "json"}, upsert=layout, **how)
        self.name = self.log.current.contract.table

    def send(self, ids, value):
        """One commit of the append table; the offsets of its rows."""
        first, made = self.next, []
        for key in ids:
            made.append((key, value, ("t", 0, self.next, NOON, 0, None, None, None, False, 0)))
            self.rows[key] = value
            self.next += 1
        self.log.commit(made, {0: self.next})
        return range(first, self.next)

    def merge(self):
        outcome = catch_up_merges(self.log.lake, self.log.current, "test")
        assert outcome.error is None, outcome.error["message"]

    def holds_all(self):
        found = self.lakehouse.catalog.load_table(self.name).scan().to_arrow().to_pylist()
        return len(found) == len(self.rows) and {row["id"]: row["v"] for row in found} == self.rows

    @contextmanager
    def only(self, ids, offsets):
        """Nothing can be read but files of the upsert table that may hold one of `ids`, by their partition and by their
        least and greatest key, and of the append table that hold one of `offsets`."""
        kept, other = set(), []
        for file, rows in self._files(self.log.contract.table):
            if not any(row["_kafka"]["offset"] in offsets for row in rows):
                other.append(file)
        there = list(self._files(self.name))
        partitions = {file.parent for file, rows in there if any(row["id"] in ids for row in rows)}
        for file, rows in there:
            keys = [row["id"] for row in rows]
            holds = file.parent in partitions and any(min(keys) <= key <= max(keys) for key in ids)
            (kept.add if holds else other.append)(file)
        assert kept
        assert len(other) > len(kept)
        for file in other:
            file.rename(file.with_suffix(".hidden"))
        yield
        for file in other:
            file.with_suffix(".hidden").rename(file)

    def _files(self, table):
        for task in self.lakehouse.catalog.load_table(table).scan().plan_files():
            file = Path(urlparse(task.file.file_path).path)
            yield file, pq.read_table(file, columns=["id", "_kafka"]).to_pylist()


@pytest.mark.parametrize(
    ("format_version", "partition_by"),
    [(2, ["bucket(4, id)"]), pytest.param(3, [], marks=pytest.mark.long)],
)
def test_a_merge_opens_no_file_without_a_new_row_or_its_key(lakehouse, format_version, partition_by):
    """Given tables of several commits, when a few and when many changed keys are merged, then files of other keys and of offsets that are merged are never opened."""
    made = Growing(lakehouse, format_version=format_version, partition_by=partition_by)
    for first in range(0, 3 * MANY, MANY):
        made.send(range(first, first + MANY), "first")
        made.merge()
    few = [5, 2 * MANY + 5]
    with made.only(few, made.send(few, "a few")):
        made.merge()
    assert made.holds_all()
    many = range(MANY, 2 * MANY)
    with made.only(many, made.send(many, "many")):
        made.merge()
    assert made.holds_all()
