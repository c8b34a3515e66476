"""Rules: a quarantine is counted again only where another number could come of it: each look would open all its files;
by cause it is counted like row by row."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from quarantine_rows import SCHEMA

from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.look.quarantined import CauseCount, causes, unresolved
from tidemark.engine.table.settle import SETTLED

NAME = "shop.orders_quarantine"


@pytest.fixture
def quarantine(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    yield catalog.create_table(NAME, SCHEMA)
    catalog.close()


@pytest.fixture
def look(quarantine, monkeypatch):
    """What is found by one who remembers, which is what one finds who does not, and whether it was counted again."""
    scans, scan = [], Table.scan
    monkeypatch.setattr(Table, "scan", lambda *given, **said: scans.append(1) or scan(*given, **said))
    lake = SimpleNamespace(catalog=quarantine.catalog, counted={})

    def look(epoch, following, settlement=None):
        ledger = Ledger(
            cluster_id="c", topic_id="t", topic="orders", epoch=epoch, next=following, settlement=settlement
        )
        before = len(scans)
        found, again = unresolved(lake, NAME, ledger), len(scans) > before
        anew = SimpleNamespace(catalog=quarantine.catalog, counted={})
        assert unresolved(anew, NAME, ledger) == found
        return found, again

    return look


def test_without_a_ledger_nobody_knows_which_rows_wait(quarantine):
    lake = SimpleNamespace(catalog=quarantine.catalog, counted={})
    assert unresolved(lake, NAME, None) == 0
    put(quarantine, (0, 0, 3))
    assert unresolved(lake, NAME, None) is None


def put(quarantine, *places):
    rows = [dict(zip(SCHEMA.names[:4], (*place, "b"), strict=True)) for place in places]
    quarantine.append(pa.Table.from_pylist(rows, schema=SCHEMA))


def test_batches_that_quarantine_nothing_leave_the_count_as_it_is(quarantine, look):
    put(quarantine, (0, 0, 3), (0, 0, 7), (0, 1, 5))
    assert look(0, {0: 8, 1: 6}) == (3, True)
    assert look(0, {0: 8, 1: 6}) == (3, False)
    assert look(0, {0: 20, 1: 6, 2: 4}) == (3, False)
    assert look(1, {0: 1}) == (3, False), "an epoch after"
    put(quarantine, (0, 0, 30))
    assert look(0, {0: 31, 1: 6}) == (4, True)


def test_rows_beyond_the_ledger_count_once_it_has_come_there(quarantine, look):
    """Given a batch that is being published, or a rollback, then each is counted as the ledger has it."""
    put(quarantine, (0, 0, 3), (0, 0, 7), (0, 1, 5))
    assert look(0, {0: 4}) == (1, True)
    assert look(0, {0: 4}) == (1, False)
    assert look(0, {0: 5}) == (1, True)
    assert look(0, {0: 8, 1: 6}) == (3, True)
    assert look(0, {0: 7, 1: 6}) == (2, True)
    put(quarantine, (1, 0, 0))
    assert [look(*each) for each in ((1, {0: 1}), (0, {0: 9, 1: 6}), (1, {0: 1}))] == [
        (4, True),
        (3, True),
        (4, True),
    ]


def test_what_a_receipt_asks_for_is_counted_before_and_after_it_is_carried_out(quarantine, look):
    put(quarantine, (0, 0, 3), (0, 0, 7))
    replayed = Settlement(id="s1", epoch=0, run_id="r", at=9, resolved={0: [(3, 4)]})
    assert look(0, {0: 8}) == (2, True)
    assert look(0, {0: 8}, replayed) == (1, True)
    assert look(0, {0: 9}, replayed) == (1, False)
    with quarantine.transaction() as done:  # by whoever found no row to mark
        done.set_properties({SETTLED: "s1"})
    assert look(0, {0: 9}, replayed) == (2, True)


def test_causes_are_counted_over_files_writers_and_remedies(tmp_path):
    """Given rows of two causes in two files, some resolved, some without a schema id, or a time, or beyond the ledger."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    times = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [*SCHEMA, ("schema_id", pa.int32()), ("cause", pa.string()), ("quarantined_at", times)]
    )
    table, hour = catalog.create_table(NAME, schema), timedelta(hours=1)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def put(*rows):
        table.append(
            pa.Table.from_pylist(
                [
                    {
                        "epoch": 0,
                        "partition": 0,
                        "offset": offset,
                        "resolved_by": by,
                        "resolved_at": by and noon,
                        "schema_id": writer,
                        "cause": cause,
                        "quarantined_at": at,
                    }
                    for offset, cause, writer, by, at in rows
                ],
                schema=schema,
            )
        )

    put(
        (1, "undecodable", None, None, noon),
        (2, "quality:x", 7, None, None),
        (3, "undecodable", 7, "r", noon),
    )
    put((4, "undecodable", 8, None, noon - hour), (5, "undecodable", 7, None, noon + hour))
    put((6, "undecodable", 7, None, noon), (90, "undecodable", 9, None, noon + 2 * hour))
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", epoch=0, next={0: 50})
    found = causes(SimpleNamespace(catalog=catalog, counted={}), "shop.orders", NAME, ledger)
    catalog.close()
    assert found == [
        CauseCount("shop.orders", "undecodable", 4, 1, noon - hour, noon + hour, {7, 8}),
        CauseCount("shop.orders", "quality:x", 1, 0, None, None, {7}),
    ]
