"""Rule: a snapshot whose parent PyIceberg has expired names none, and is no root for that; a table that was replaced begins with one.

Given tables on a real catalog, and PyIceberg's own expiry.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG, Kind, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.ledger.merge_plan import Merge, plan_merge
from tidemark.engine.access import metadata_files
from tidemark.engine.access.metadata_files import MetadataFiles, commit
from tidemark.engine.access.snapshots import follows_another
from tidemark.engine.access.table_state import OWNED, read_state
from tidemark.engine.merge.pair import read_history
from tidemark.engine.table.branch import ref_at

NAME = "shop.orders"
ROWS = pa.table({"id": [1, 2]})


class Orders:
    """A table that others write and expire too; each look is that of a process of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("shop")
        self.catalog.create_table(NAME, ROWS.schema, properties={OWNED: "orders"})
        self._fresh = lambda: monkeypatch.setattr(metadata_files, "_FILES", MetadataFiles())

    def table(self) -> Any:
        self._fresh()
        return self.catalog.load_table(NAME)

    def insert(self) -> None:
        """Somebody's rows."""
        self.table().append(ROWS)

    def receipt(self, following: int, kind: Kind = "append") -> int:
        """An empty one, and the tag on it."""
        ledger = Ledger(kind=kind, cluster_id="c", topic_id="t", topic="orders", next={0: following})
        with self.table().transaction() as transaction:
            properties = {LEDGER_PROPERTY: ledger.to_json()}
            transaction.update_snapshot(snapshot_properties=properties).fast_append().commit()
        table = self.table()
        head = int(table.metadata.current_snapshot_id)
        commit(table, (), (ref_at(LEDGER_TAG, "tag", head),))
        return head

    def expire(self) -> None:
        """All that no branch or tag names."""
        self.table().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(1)).commit()

    def replace(self) -> None:
        """As REPLACE TABLE does: main is gone, snapshots, properties and tags stay."""
        commit(self.table(), (), (RemoveSnapshotRefUpdate(ref_name="main"),))

    def following(self) -> dict[int, int]:
        self._fresh()
        ledger = read_state(self.catalog, NAME).ledger
        assert ledger is not None
        return ledger.next


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    made = Orders(tmp_path, monkeypatch)
    made.receipt(0, "first")
    yield made
    made.catalog.close()


def test_the_tag_is_believed_where_somebodys_commits_came_after_its_receipt(orders: Orders) -> None:
    """Given two inserts of somebody after the newest receipt, when PyIceberg expires the first of them, then the ledger is still known."""
    orders.insert()
    orders.receipt(2)
    for _ in range(2):
        orders.insert()
    orders.expire()
    metadata = orders.table().metadata
    assert metadata.current_snapshot().parent_snapshot_id is None
    assert len(metadata.snapshots) == 2
    assert orders.following() == {0: 2}


def test_the_tag_is_believed_where_somebody_has_deleted_every_row(orders: Orders) -> None:
    orders.insert()
    orders.receipt(2)
    orders.insert()
    orders.table().delete()
    orders.expire()
    assert orders.following() == {0: 2}


def test_a_table_that_was_replaced_has_lost_its_ledger(orders: Orders) -> None:
    """Given a loaded table in whose place another one is made of rows, then the tag of its former life is no ledger."""
    orders.insert()
    orders.receipt(2)
    orders.replace()
    orders.insert()
    assert not follows_another(orders.table().metadata.current_snapshot())
    with pytest.raises(Stopped) as stopped:
        orders.following()
    assert stopped.value.state == "ledger_missing"


def merged(orders: Orders, named: int, following: int) -> MergeLedger:
    return MergeLedger(
        append_table=NAME,
        append_uuid=str(orders.table().metadata.table_uuid),
        append_snapshot=named,
        append_revision=0,
        next={0: following},
    )


@pytest.mark.parametrize(("rows", "foreign"), [(1, 0), (0, 0), (1, 2)], ids=["rows", "empty", "foreign"])
def test_what_was_merged_before_an_expiry_was_not_rolled_back(
    orders: Orders, rows: int, foreign: int
) -> None:
    """Given a merge up to a receipt and a batch after it, with rows, all in quarantine, or under somebody's commits, when PyIceberg expires that receipt, then the next merge goes on."""
    for _ in range(rows):
        orders.insert()
    named = orders.receipt(2)
    for _ in range(rows):
        orders.insert()
    orders.receipt(4)
    for _ in range(foreign):
        orders.insert()
    orders.expire()
    history = read_history(orders.table().metadata, NAME, named, "lake")
    step = plan_merge([(1, merged(orders, named, 2))], history)
    assert isinstance(step, Merge)
    assert step.rows.size == 2


def test_a_first_receipt_is_the_whole_history(orders: Orders) -> None:
    """Given a table that was replaced and whose first load was accepted anew, when what was merged before has expired, then it was undone."""
    named = orders.receipt(2)
    orders.replace()
    orders.receipt(2, "first")
    orders.expire()
    assert named not in {each.snapshot_id for each in orders.table().metadata.snapshots}
    assert read_history(orders.table().metadata, NAME, named, "lake").whole
