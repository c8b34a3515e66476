"""Rule: every kind of maintenance has a budget of time with each table, and what failed keeps its name."""

import time
from math import inf
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract, Snapshots
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.domain.maintenance import snapshot_keep
from tidemark.domain.maintenance.gain import Gain
from tidemark.engine.access.table_state import OWNED, UPSERT_OF
from tidemark.engine.maintain import expire as expire_module
from tidemark.engine.maintain import maintain as module
from tidemark.engine.maintain.maintain import BUDGET, UNREACHED, maintain, maintain_now, relieve, tables_of
from tidemark.engine.maintain.named_snapshots import Named
from tidemark.engine.table import publish as publishing
from tidemark.engine.table.operations import Signature

CONTRACT = Contract(
    topic="t", table="s.t", upsert={"keys": ["id"], "table": "s.t_current"}, retention={"append": "30d"}
)

FULL = {"max_count": 2_000}
ROWS = pa.table({"id": [1]})
LEDGER = Ledger(cluster_id="c", topic_id="t", topic="t", next={0: 1}).to_json()


@pytest.fixture
def asked(monkeypatch):
    """(table or contract, until) of each piece of work."""
    found = []

    def work(_lake, table, *_, until, dry_run):
        assert not dry_run
        found.append((table if isinstance(table, str) else table.table, until))
        return Gain(found[-1][0], "compaction", acted=False, reason="nothing")

    for name in ("compact", "expire", "expire_rows", "remove_orphans"):
        monkeypatch.setattr(module, name, work)
    monkeypatch.setattr(module, "log_missing_acts", lambda _lake, _table: None)
    monkeypatch.setattr(publishing, "tag_receipt", lambda _lake, _table, _receipt: None)
    return found


@pytest.fixture
def lake(tmp_path):
    """A lake whose catalog holds what a test puts there."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    return SimpleNamespace(catalog=catalog)


def test_each_kind_and_table_has_the_whole_budget(asked, lake):
    began = time.monotonic()
    assert len(list(maintain(lake, CONTRACT))) == len(asked) == 1 + 3 * len(tables_of(CONTRACT))
    assert {table for table, _ in asked} == set(tables_of(CONTRACT))
    budget = BUDGET.total_seconds()
    assert all(began + budget <= until <= time.monotonic() + budget for _, until in asked)
    assert [until for _, until in asked] == sorted(until for _, until in asked)


def test_nothing_is_begun_whose_turn_comes_when_the_time_of_the_run_is_up(asked, lake):
    gains = list(maintain(lake, CONTRACT, until=time.monotonic() - 1))
    assert (asked, {each.reason for each in gains}) == ([], {UNREACHED})
    end = time.monotonic() + BUDGET.total_seconds() / 2
    list(maintain(lake, CONTRACT, until=end))
    assert {until for _, until in asked} == {end}


def test_a_table_of_long_ledgers_does_not_wait_for_the_night(lake, asked, monkeypatch):
    """Given ledgers that fill the room, when nobody said how many snapshots stay, then some expire, and the scheduled compaction relieves the table of them; the contract's own number wins."""
    monkeypatch.setattr(snapshot_keep, "LEDGER_ROOM", 4_000)
    monkeypatch.setattr(module, "not_ours", lambda *_, **__: None)
    monkeypatch.setattr(module, "named_snapshots", lambda *_: Named())
    table = lake.catalog.create_table(CONTRACT.table, ROWS.schema)
    for _ in range(30):
        table.append(ROWS, snapshot_properties={LEDGER_PROPERTY: "x" * 150})
    few, many = (expire_module.plan_expiry(table.metadata, Snapshots(**said), Named()) for said in ({}, FULL))
    assert (len(few.expired), len(many.expired)) == (4, 0)
    found = expire_module.expire(lake, CONTRACT.table, Snapshots(), Named, until=inf, dry_run=True)
    assert "max_count is 26 while the contract does not say it" in found.reason
    assert (
        "max_count"
        not in expire_module.expire(
            lake, CONTRACT.table, Snapshots(**FULL), Named, until=inf, dry_run=True
        ).reason
    )
    assert (list(relieve(lake, CONTRACT)), asked) == ([], [])
    for _ in range(4):
        table.append(ROWS, snapshot_properties={LEDGER_PROPERTY: "x" * 150})
    list(relieve(lake, CONTRACT))
    assert [name for name, _ in asked] == [CONTRACT.table]
    kept = CONTRACT.maintenance.model_copy(update={"snapshots": Snapshots(**FULL)})
    list(relieve(lake, CONTRACT.model_copy(update={"maintenance": kept})))
    assert len(asked) == 1


def test_a_table_is_not_relieved_of_what_it_keeps(lake, asked, monkeypatch):
    """Given snapshots that an upsert table is yet to read or would go back to, when there are more than `max_count` of them, then no half-hourly expiry finds nothing to do."""
    monkeypatch.setattr(module, "not_ours", lambda *_, **__: None)
    table = lake.catalog.create_table(CONTRACT.table, ROWS.schema)
    for _ in range(7):
        table.append(ROWS, snapshot_properties={LEDGER_PROPERTY: LEDGER})
    few = CONTRACT.maintenance.model_copy(update={"snapshots": Snapshots(min_keep=1, max_count=4)})
    contract = CONTRACT.model_copy(update={"maintenance": few})
    oldest = frozenset([table.metadata.snapshots[0].snapshot_id])
    for named, relieved in ((Named(read_on_from=oldest), []), (Named(), [CONTRACT.table])):
        monkeypatch.setattr(module, "named_snapshots", lambda *_, found=named: found)
        list(relieve(lake, contract))
        assert [name for name, _ in asked] == relieved


def test_a_table_with_nothing_to_do_is_not_asked_for_its_tag_but_by_expiry(lake, asked, monkeypatch):
    """Given a table whose tag stayed behind, when there is nothing to do, then only expiry lets it follow: compaction comes to every table each half hour."""
    lake.catalog.create_table(CONTRACT.table, ROWS.schema, properties={OWNED: "t"}).append(
        ROWS, snapshot_properties={LEDGER_PROPERTY: LEDGER}
    )
    tagged = []
    monkeypatch.setattr(module, "not_ours", lambda *_, **__: None)
    monkeypatch.setattr(publishing, "tag_receipt", lambda _lake, table, _receipt: tagged.append(table))
    for kind, follows in (("compaction", []), ("orphan_files", []), ("snapshot_expiry", [CONTRACT.table])):
        assert not [each for each in maintain(lake, CONTRACT, [kind]) if each.error]
        assert tagged == follows
    list(relieve(lake, CONTRACT))
    assert len(tagged) == 1


def test_somebody_elses_table_is_not_maintained(asked, lake):
    """Given tables that have the names of the upsert table and its memory of deletes, then only what merges made is."""
    columns = pa.schema([pa.field("id", pa.int64())])
    lake.catalog.create_table("s.t_current", columns, properties={UPSERT_OF: CONTRACT.table})
    lake.catalog.create_table("s.t_current_deleted", columns)
    gains = list(maintain(lake, CONTRACT))
    assert {table for table, _ in asked} == set(tables_of(CONTRACT)) - {"s.t_current_deleted"}
    left = [each for each in gains if each.table == "s.t_current_deleted"]
    assert [(each.acted, each.error, "somebody else" in each.reason) for each in left] == [
        (False, None, True)
    ] * 3


def test_nothing_is_expired_once_the_time_is_over():
    assert expire_module._remove(None, "s.t", [1, 2, 3], until=time.monotonic() - 1) == 0


@pytest.mark.parametrize(
    ("failed", "kind", "state"),
    [
        ([Outage("spark_down", "s.t", "gone")], Outage, "spark_down"),
        ([Stopped("table_missing", "s.t", "gone"), Outage("store_down", "s.t", "x")], Outage, "store_down"),
        ([Stopped("table_missing", "s.t", "gone")], Stopped, "table_missing"),
        ([ValueError("a bug")], Stopped, "failed"),
        ([ValueError("a bug"), ValueError("a bug")], Stopped, "failed"),
    ],
)
def test_an_outage_is_an_outage_for_the_command_line_too(monkeypatch, failed, kind, state):
    """The exit code depends on it: 1 for what is found, 2 for bad use."""
    left = list(failed)

    def compact(*_, **__):
        if left:
            raise left.pop(0)
        return Gain("s.t", "compaction", acted=False, reason="nothing")

    monkeypatch.setattr(module, "compact", compact)
    monkeypatch.setattr(module, "not_ours", lambda *_, **__: None)

    class Lake:
        def state(self, *_, **__):
            class Table:
                head = 1

            return Table()

        def lose_spark(self):
            pass

    with pytest.raises(kind) as raised:
        maintain_now(Lake(), CONTRACT, ("compaction",), Signature("ada", "a test", dry_run=True))
    assert raised.value.state == state
    assert raised.value.message.count(str(failed[0].args[0])) == len(failed) or state != "failed"
    assert raised.value.message.count("has no state of its own") == (state == "failed"), raised.value.message
    assert "Next:" not in raised.value.message
