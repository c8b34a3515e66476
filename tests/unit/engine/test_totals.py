"""Rule: a summary without totals, which are optional in Iceberg, makes no table an empty one."""

import time

import pyarrow as pa
import pytest
from quarantine_rows import SCHEMA
from unsaid import say_less

from tidemark.domain.config.contract import Compaction
from tidemark.domain.ledger.ledger import Ledger
from tidemark.engine.access.table_state import read_state
from tidemark.engine.access.totals import totals_of, totals_said
from tidemark.engine.look.quarantined import unresolved
from tidemark.engine.maintain.compact import compact
from tidemark.engine.table.publish import publish_receipt

READ = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 2})
ROWS = pa.table({"id": pa.array([3, 4, 5], pa.int64())})


@pytest.fixture
def table(lake):
    """With two files of five rows."""
    found = lake.catalog.load_table("shop.orders")
    found.append(ROWS)
    return found


@pytest.mark.parametrize("said", [(), ("total-records",), ("total-data-files", "total-delete-files")])
def test_what_a_summary_leaves_out_is_counted_in_the_manifest_list(lake, table, said):
    whole = totals_said(table.metadata.current_snapshot())
    foreign = say_less(table, *said)
    state = read_state(lake.catalog, "shop.orders")
    assert (state.head, state.rows, state.live_rows) == (foreign, 5, 5)
    assert (state.data_files, state.delete_files, state.delete_rows) == (2, 0, 0)
    assert totals_of(table.refresh(), table.metadata.current_snapshot()) == whole


def test_a_receipt_says_again_what_the_snapshot_below_it_has_left_out(lake, table):
    """Given a foreign snapshot without totals, when a receipt is published on it, then its summary and the next ones have them."""
    whole = totals_said(table.metadata.current_snapshot())
    say_less(table)
    state = read_state(lake.catalog, "shop.orders")
    publish_receipt(lake, state, state.ledger)
    table.refresh()
    assert totals_said(table.metadata.current_snapshot()) == whole
    table.append(ROWS)
    assert totals_said(table.metadata.current_snapshot()).rows == 8


def test_compaction_counts_the_files_of_a_table_whose_summary_does_not(lake, table):
    say_less(table)
    found = compact(lake, "shop.orders", Compaction(), until=time.monotonic() + 60, dry_run=True)
    assert found.numbers["files_before"] == 2


def test_a_quarantine_whose_summary_says_no_totals_is_not_told_as_empty(lake):
    quarantine = lake.catalog.create_table("shop.orders_quarantine", SCHEMA)
    place = {"epoch": 0, "partition": 0, "offset": 1, "batch_id": "b"}
    quarantine.append(pa.Table.from_pylist([place], schema=SCHEMA))
    say_less(quarantine)
    assert unresolved(lake, "shop.orders_quarantine", READ) == 1
