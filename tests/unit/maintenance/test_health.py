"""Rule: what maintenance should have dealt with by now is a fault, named with its threshold; a little slack is none."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unserved import lake_in

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.domain.maintenance import snapshot_keep
from tidemark.domain.maintenance.compaction import HOT_FACTOR, MANY_MANIFESTS, Layout, Partition
from tidemark.engine.maintain import health as module
from tidemark.engine.maintain.health import SLACK, health

CONTRACT = Contract(topic="t", table="s.t", upsert={"keys": ["id"], "table": "s.t_current"})
LIMITS = CONTRACT.maintenance
SMALL = LIMITS.compaction.min_input_files * HOT_FACTOR * SLACK


def layout(files=1, *, deleted=0, **facts):
    sizes = (1024,) * files
    return Layout((Partition("p", None, sizes, rows=100, deleted_rows=deleted),), **facts)


def judged(monkeypatch, foreign=(), **layouts):
    """Health of the contract whose tables are there with these layouts, by the name after `s.`."""
    monkeypatch.setattr(module, "not_ours", lambda *args: args[-1].removeprefix("s.") in foreign)
    tables = {
        f"s.{name}": SimpleNamespace(layout=each, metadata=SimpleNamespace(snapshots=[None] * each.snapshots))
        for name, each in layouts.items()
    }
    monkeypatch.setattr(module, "load", lambda _, name: tables.get(name))
    monkeypatch.setattr(module, "read_layout", lambda table: table.layout)

    class NoLake:
        catalog = None

        def loaded(self, table):  # noqa: ARG002
            return False

    return health(NoLake(), CONTRACT)


def test_a_table_that_was_never_loaded_has_no_health(monkeypatch):
    assert judged(monkeypatch) is None


@pytest.mark.parametrize(
    ("sound", "ill", "says"),
    [
        (layout(SMALL), layout(SMALL + 1), f"{SMALL + 1} small files in one partition"),
        (
            layout(deleted=int(LIMITS.compaction.max_delete_ratio * SLACK * 100)),
            layout(deleted=99),
            "99% of rows deleted",
        ),
        (
            layout(manifests=MANY_MANIFESTS * HOT_FACTOR),
            layout(manifests=MANY_MANIFESTS * HOT_FACTOR + 1),
            f"{MANY_MANIFESTS * HOT_FACTOR + 1} manifests",
        ),
    ],
)
def test_each_threshold_has_a_fault_of_its_own(monkeypatch, sound, ill, says):
    assert judged(monkeypatch, t=sound).faults == ()
    (fault,) = judged(monkeypatch, t=ill).faults
    assert says in fault


@pytest.mark.parametrize(("said", "told"), [({}, ["5 snapshots, max_count is 2"]), ({"max_count": 9}, [])])
def test_ledgers_that_leave_room_for_few_snapshots_are_the_threshold_unless_another_is_said(
    monkeypatch, tmp_path, said, told
):
    """Given ledgers that fill their room, when expiry has left more than twice as many snapshots, then that is a fault."""
    monkeypatch.setattr(snapshot_keep, "LEDGER_ROOM", 300)
    monkeypatch.setattr(module, "not_ours", lambda *_: False)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("s.t", rows.schema)
    contract = Contract(topic="t", table="s.t", maintenance={"snapshots": {"min_keep": 1, **said}})
    for count in range(1, 6):
        table.append(rows, snapshot_properties={LEDGER_PROPERTY: "x" * 150})
        found = health(SimpleNamespace(catalog=catalog), contract)
        assert [each for each in found.faults if "snapshots" in each] == (told if count > 4 else [])


@pytest.mark.parametrize(("paused", "told"), [(False, ["7 snapshots, max_count is 2"]), (True, [])])
def test_what_expiry_must_leave_is_no_fault(monkeypatch, tmp_path, paused, told):
    """Given an append table of which no more may stay than an upsert table that has paused has yet to read, then that is no fault."""
    monkeypatch.setattr(module, "not_ours", lambda *_: False)
    lake = lake_in(tmp_path, "topic: orders\ntable: shop.orders\nvalue: {format: raw}\n")
    rows = pa.table({"id": [1]})
    table, current = (lake.catalog.create_table(f"shop.{each}", rows.schema) for each in ("t", "t_current"))
    for _ in range(7):
        table.append(rows, snapshot_properties={LEDGER_PROPERTY: "{}"})
    merged = MergeLedger(
        append_table="shop.t", append_uuid="u", append_snapshot=table.metadata.snapshots[0].snapshot_id
    )
    current.append(rows, snapshot_properties={LEDGER_PROPERTY: merged.to_json()} if paused else {})
    contract = Contract(
        topic="t",
        table="shop.t",
        upsert={"keys": ["id"], "table": "shop.t_current"},
        maintenance={"snapshots": {"min_keep": 1, "max_count": 2}},
    )
    assert [each for each in health(lake, contract).faults if "snapshots" in each] == told


def test_numbers_and_faults_of_companions_say_whose_they_are(monkeypatch):
    found = judged(monkeypatch, t=layout(), t_current=layout(deleted=99))
    assert (found.numbers["data_files"], found.numbers["t_current: delete_ratio"]) == (1, 0.99)
    assert [fault.split(":")[0] for fault in found.faults] == ["t_current"]
    found = judged(monkeypatch, {"t_current"}, t=layout(), t_current=layout(deleted=99))
    assert not found.faults, "somebody else's table is none of them"
