"""Rule: quarantine rows are seen as they stand once a published receipt is carried out, never half of it."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarantine_rows import SCHEMA

from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.settlement import Resolution, Settlement
from tidemark.engine.table.counted_quarantine import OPEN, as_settled, published

AT = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=77)


def row(offset, by=None, *, epoch=1, partition=0, batch="b1"):
    resolved_at = AT if by else None
    return dict(zip(SCHEMA.names, (epoch, partition, offset, batch, by, resolved_at), strict=True))


def seen(rows, asked=None, following=None):
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", epoch=1, next=following or {0: 100, 1: 100})
    found = as_settled(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), ledger, asked)
    return {(r["epoch"], r["partition"], r["offset"]): r[OPEN] for r in found.to_pylist()}


def asked(**fields):
    return Settlement(**{"id": "s1", "epoch": 1, "run_id": "r9", "at": 99, **fields})


def test_without_a_settlement_rows_say_it_themselves():
    assert seen([row(1), row(2, "r1"), row(3, "staged:s1")]) == {(1, 0, 1): True, (1, 0, 2): False}


@pytest.mark.parametrize(("offset", "waits"), [(4, True), (5, False), (6, False), (7, True), (9, False)])
def test_rows_that_a_replay_moved_are_resolved_before_they_are_marked(offset, waits):
    found = seen([row(offset), row(offset, partition=1)], asked(resolved={0: [(5, 7), (9, 10)]}))
    assert found == {(1, 0, offset): waits, (1, 1, offset): True}


def test_rows_that_a_replay_staged_are_seen_with_its_receipt_alone():
    rows = [row(5), row(6, "staged:s1", batch="s1"), row(7, "staged:other", batch="other")]
    told = asked(resolved={0: [(0, 50)]}, revealed=True)
    assert seen(rows, told) == {(1, 0, 5): False, (1, 0, 6): True}


def test_a_rollback_lets_rows_wait_again_and_hides_what_came_later():
    rows = [row(1, "r1"), row(2, "r2"), row(3, batch="gone"), row(40), row(4, epoch=0), row(5, epoch=2)]
    told = asked(undone=[Resolution("r1", 77)], dropped=["gone"], rewound={0: 30})
    assert seen(rows, told, {0: 30}) == {(1, 0, 1): True, (1, 0, 2): False, (0, 0, 4): True}


small = st.integers(0, 4)


@given(st.lists(st.tuples(small, small, small)), st.dictionaries(small, small), small)
def test_a_row_counts_by_where_the_ledger_ends_in_its_partition(places, following, epoch):
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", epoch=epoch, next=following)
    columns = np.array(places, dtype=np.int64).reshape(-1, 3).T
    found = published(dict(zip(("epoch", "partition", "offset"), columns, strict=True)), ledger)
    assert list(found) == [e < epoch or (e == epoch and o < following.get(p, 0)) for e, p, o in places]
