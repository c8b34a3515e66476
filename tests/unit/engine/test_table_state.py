"""Rule: a table that a newer Tidemark has made is refused by name, not misread."""

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2, new_table_metadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, MapType, NestedField, StringType

from tidemark.domain.columns.types import TYPE_RULES, TYPE_RULES_PROPERTY
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import LEDGER_TAG
from tidemark.engine.access.main_history import is_undone, newest_receipt, receipts_of_halves, require_whole
from tidemark.engine.access.table_shape import shape_of
from tidemark.engine.access.table_state import read_state
from tidemark.engine.merge.pair import read_history

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("rules", [str(TYPE_RULES + 1), "2.1"])
def test_columns_made_by_newer_type_rules_are_left_alone(tmp_path: Path, rules: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    catalog.create_table("shop.known", COLUMNS, properties={TYPE_RULES_PROPERTY: str(TYPE_RULES)})
    catalog.create_table("shop.foreign", COLUMNS)
    catalog.create_table("shop.newer", COLUMNS, properties={TYPE_RULES_PROPERTY: rules})
    assert read_state(catalog, "shop.known").exists
    assert read_state(catalog, "shop.foreign").exists
    with pytest.raises(Stopped, match=f"type rules {rules} of a newer Tidemark") as stopped:
        read_state(catalog, "shop.newer", ledger=False)
    assert (stopped.value.state, stopped.value.table) == ("misconfigured", "shop.newer")


RECEIPT = {"tidemark.ledger": "{}"}


def history(
    *made: tuple[int, int | None, dict[str, str]], head: int, tag: int, format_version: int
) -> TableMetadata:
    """Snapshots as (number, parent, summary): the number is age and id; what is not listed was expired."""
    snapshots = [
        Snapshot(
            snapshot_id=number,
            parent_snapshot_id=parent,
            sequence_number=number if format_version > 1 else None,
            timestamp_ms=1_000 * number,
            manifest_list="",
            summary=Summary(Operation.APPEND, **summary),
        )
        for number, parent, summary in made
    ]
    refs = {
        name: SnapshotRef(snapshot_id=number, snapshot_ref_type=kind)
        for name, number, kind in (("main", head, "branch"), (LEDGER_TAG, tag, "tag"))
    }
    kind = TableMetadataV2 if format_version > 1 else TableMetadataV1
    return kind(
        location="",
        last_column_id=1,
        schemas=[Schema(NestedField(1, "id", LongType(), required=False))],
        schema=Schema(NestedField(1, "id", LongType(), required=False)),
        partition_specs=[PartitionSpec()],
        partition_spec=[],
        snapshots=snapshots,
        current_snapshot_id=head,
        refs=refs,
        last_updated_ms=0,
    )


@pytest.mark.parametrize("format_version", [1, 2])
def test_the_tag_is_believed_only_behind_what_is_left_of_the_chain(format_version: int) -> None:
    """Given a chain that an expirer has cut, then the tag's receipt counts; not when someone has taken main back behind it."""
    whole = (1, None, RECEIPT), (2, 1, {}), (3, 2, RECEIPT), (4, 3, {}), (5, 4, {})

    def found(*numbers: int, head: int, tag: int = 3) -> int | None:
        left = [each for each in whole if each[0] in numbers]
        receipt = newest_receipt(history(*left, head=head, tag=tag, format_version=format_version))
        return receipt.snapshot_id if receipt else None

    assert found(1, 2, 3, 4, 5, head=5) == 3
    assert found(3, 5, head=5) == 3, "cut"
    assert found(2, 3, head=2) is None, "cut, and taken back"
    assert found(1, 2, 3, head=2) == 1


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_chain_that_was_cut_behind_a_snapshot_is_no_rollback(format_version: int) -> None:
    """Given two commits after a receipt, when an expirer removes the first of them, then the receipt is not undone; it is
    where main was taken back behind it, cut or not."""
    whole = (1, None, RECEIPT), (2, 1, RECEIPT), (3, 2, {}), (4, 3, {}), (5, 1, {})

    def undone(*numbers: int, head: int) -> bool:
        left = [each for each in whole if each[0] in numbers]
        return is_undone(history(*left, head=head, tag=2, format_version=format_version), 2)

    assert not undone(1, 2, 3, 4, head=4)
    assert not undone(2, 4, head=4), "cut"
    assert not undone(4, head=4), "expired itself"
    assert undone(1, 2, 3, 4, head=1)
    assert undone(1, 2, 5, head=5)
    assert not undone(2, 5, head=5), "cut after the rollback: it does not tell"
    shorter = history((1, 0, RECEIPT), (2, 1, RECEIPT), head=1, tag=2, format_version=format_version)
    assert is_undone(shorter, 2), "cut before the rollback"


def test_a_history_without_any_receipt_has_a_name() -> None:
    """Given a foreign program that has dropped the tag and expired every receipt, then whoever asks what is merged is told so."""
    left = history((5, 4, {}), head=5, tag=5, format_version=2)
    with pytest.raises(Stopped) as stopped:
        read_history(left, "shop.orders", None, "lake")
    assert (stopped.value.state, stopped.value.table) == ("ledger_missing", "shop.orders")


ROWS = {"tidemark.batch": "b"}


def act(verb: str, before: int) -> dict[str, str]:
    return {**RECEIPT, "tidemark.act": json.dumps({"verb": verb, "before": before})}


def test_half_of_a_commit_lies_between_a_receipt_and_the_head_that_it_was_planned_at() -> None:
    """Given a batch, a commit of somebody, a replay with its removal on it, and a rollback to that commit, then the halves are the rows and the removal alone."""
    made = (
        (1, None, ROWS),
        (2, 1, RECEIPT),
        (3, 2, {}),
        (4, 3, {}),
        (5, 4, ROWS),
        (6, 5, act("replay", 3)),
        (7, 3, act("rollback", 6)),
    )
    found = receipts_of_halves(history(*made, head=7, tag=7, format_version=2))
    assert {half: receipt.snapshot_id for half, receipt in found.items()} == {1: 2, 4: 6, 5: 6}
    require_whole(history(*made, head=3, tag=6, format_version=2), "shop.orders", "prod")
    with pytest.raises(Stopped) as stopped:
        require_whole(history(*made, (8, 4, {}), head=8, tag=6, format_version=2), "shop.orders", "prod")
    assert "--snapshot 2 " in stopped.value.next_step
    assert "CALL prod.system.set_current_snapshot('prod.shop.orders', 6)" in stopped.value.next_step
    assert "--first-load" not in stopped.value.next_step


def test_picked_rows_of_a_batch_are_half_of_a_commit() -> None:
    made = (
        (1, None, RECEIPT),
        (2, 1, ROWS),
        (3, 1, {"source-snapshot-id": "2"}),
        (4, 1, {"source-snapshot-id": "9"}),
    )
    require_whole(history(*made, head=4, tag=1, format_version=2), "shop.orders", "prod")
    with pytest.raises(Stopped, match="Main was taken to snapshot 3"):
        require_whole(history(*made, head=3, tag=1, format_version=2), "shop.orders", "prod")


def test_a_table_of_many_maps_is_looked_at_in_one_go() -> None:
    """Read before every batch: each column must not be compared with each other one."""
    maps = [
        NestedField(3 * n, f"m{n}", MapType(3 * n + 1, StringType(), 3 * n + 2, LongType(), n % 2 == 0))
        for n in range(1, 1001)
    ]
    metadata = new_table_metadata(
        Schema(*maps), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///m", {}
    )
    began = time.process_time()
    required = shape_of(metadata).required
    spent = time.process_time() - began
    assert {path[-1] for path in required} == {"value"}
    assert len(required) == len(maps) // 2
    assert spent < 1, f"{spent * 1000:.0f} ms"
