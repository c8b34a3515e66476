"""Rule: a batch that quarantines nothing leaves the quarantine alone, unless a dead attempt left rows in its ranges."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from quarantine_rows import SCHEMA

from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.ingest.quarantine import leftovers

NAME = "shop.orders_quarantine"
RANGES = {0: OffsetRange(0, 10), 1: OffsetRange(90, 100)}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    catalog.create_table(NAME, SCHEMA)
    yield catalog
    catalog.close()


def put(catalog: SqlCatalog, *places: tuple[int, int, int], resolved_at: datetime | None = None) -> None:
    rows = [
        {"epoch": epoch, "partition": p, "offset": offset, "resolved_at": resolved_at}
        for epoch, p, offset in places
    ]
    catalog.load_table(NAME).append(pa.Table.from_pylist(rows, schema=SCHEMA))


def there(catalog: SqlCatalog) -> bool:
    lake: Any = SimpleNamespace(catalog=catalog)
    return leftovers(lake, NAME, 1, RANGES)


def test_rows_around_the_ranges_are_none_whatever_the_bounds_of_their_file(catalog: SqlCatalog) -> None:
    """Given a file whose bounds of partition and offset hold the ranges, with no row in them, then nothing is left."""
    assert not there(catalog)
    put(catalog, (1, 0, 50), (1, 1, 50), (1, 2, 5), (0, 0, 5), (2, 1, 95), (1, 0, 10), (1, 1, 89))
    assert not there(catalog)
    put(catalog, (1, 0, 5), (1, 1, 95), resolved_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert not there(catalog)


@pytest.mark.parametrize("place", [(1, 0, 0), (1, 1, 99)])
def test_a_row_inside_is_left_until_it_is_deleted(catalog: SqlCatalog, place: tuple[int, int, int]) -> None:
    put(catalog, (1, 0, 50), place, (1, 1, 50))
    assert there(catalog)
    catalog.load_table(NAME).delete(f"partition = {place[1]} and offset = {place[2]}")
    assert not there(catalog)
