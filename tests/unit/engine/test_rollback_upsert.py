"""Rule: a rollback goes no further back than the upsert table can follow, or could have been made then."""

import pyarrow as pa
import pytest
from unserved import ORDERS, lake_in

from tidemark.domain.errors import Overtaken, Refused
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.engine.access.table_state import OWNED, UPSERT_OF
from tidemark.engine.operate.rollback_upsert import check_upsert

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def pair(tmp_path):
    """The check of a target, the snapshots of an append table, oldest first, and what writes a receipt of its upsert table."""
    lake = lake_in(tmp_path, f"{ORDERS}upsert: [id]\n")
    (contract,) = lake.configuration.contracts
    append = lake.catalog.create_table("shop.orders", ROWS.schema, properties={OWNED: "orders"})
    for end in (1, 2, 3):
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: end})
        append.append(ROWS, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    current = lake.catalog.create_table(
        "shop.orders_current", ROWS.schema, properties={UPSERT_OF: "shop.orders"}
    )

    def merged(action, snapshot):
        ledger = MergeLedger(
            action=action,
            append_table="shop.orders",
            append_uuid=str(append.metadata.table_uuid) if snapshot else "",
            append_snapshot=snapshot,
        )
        current.append(ROWS, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})

    made = [each.snapshot_id for each in append.metadata.snapshots]
    return lambda target: check_upsert(lake, contract, target), made, merged


def test_it_goes_to_what_the_upsert_table_has_a_receipt_from_before_of(pair):
    check, made, merged = pair
    check(made[0])
    merged("merge", made[1])
    merged("merge", made[2])
    check(made[1])
    with pytest.raises(Refused, match="no snapshot left from before") as refused:
        check(made[0])
    assert refused.value.fields["oldest"] == made[1]
    assert "tidemark accept shop.orders_current --first-load" in refused.value.next_step


@pytest.mark.parametrize("action", ["first", "rebuild"])
def test_it_goes_to_before_an_upsert_table_was_made_which_had_no_row_that_is_gone_by_then(pair, action):
    check, made, merged = pair
    merged("rebuild", 0)
    merged(action, made[1])
    merged("merge", made[2])
    check(made[0])


def test_a_main_that_moved_meanwhile_is_looked_at_again(pair):
    check, _, _ = pair
    with pytest.raises(Overtaken):
        check(7)
