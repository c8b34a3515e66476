"""Rule: maintenance touches no table that ingest refuses: another team's, another topic's, another cluster's."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access.table_state import OWNED, UPSERT_OF
from tidemark.engine.maintain import maintain as module
from tidemark.engine.maintain.maintain import maintain, relieve, tables_of
from tidemark.engine.maintain.whose import not_ours
from tidemark.engine.table.first_load import CLUSTER

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
CONTRACT = Contract(
    topic="orders", table="s.t", upsert={"keys": ["id"], "table": "s.t_current"}, retention={"append": "1d"}
)
QUARANTINE, CURRENT = "s.t_quarantine", "s.t_current"
MADE = {OWNED: "orders", CLUSTER: "main"}


class Lake:
    """A lake whose catalog holds what a test puts there; its cluster `main` says it is `c`."""

    def __init__(self, folder):
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("s")
        self.asked = 0

    def kafka(self, cluster):
        assert cluster == "main"
        self.asked += 1
        return SimpleNamespace(cluster_id=lambda: "c")

    def make(self, name, properties, *, topic="orders", cluster_id="c", receipt=None, rows=True):
        made = self.catalog.create_table(name, ROWS.schema, properties=properties)
        ledger = Ledger(cluster_id=cluster_id, topic_id="t", topic=topic, next={0: 2}).to_json()
        if rows:
            says = {LEDGER_PROPERTY: ledger if receipt is None else receipt} if receipt != "" else {}
            made.append(ROWS, snapshot_properties=says)


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def why(lake, name=CONTRACT.table, **how):
    return not_ours(lake, CONTRACT, name, **how)


def test_nothing_of_what_another_team_has_under_these_names_is_maintained(lake, monkeypatch):
    """Given a contract that names another team's table, when all kinds of maintenance run, then none begins on it."""
    begun = []
    for name in ("compact", "expire", "expire_rows", "remove_orphans", "log_missing_acts"):
        monkeypatch.setattr(module, name, lambda *args, name=name, **_: begun.append((name, args[1])))
    for name in tables_of(CONTRACT):
        lake.make(name, {}, receipt="")
    full = CONTRACT.maintenance.model_copy(
        update={"snapshots": CONTRACT.maintenance.snapshots.model_copy(update={"max_count": 0})}
    )
    gains = [
        *maintain(lake, CONTRACT),
        *relieve(lake, CONTRACT.model_copy(update={"maintenance": full})),
    ]
    assert begun == []
    assert len(gains) == 1 + 3 * len(tables_of(CONTRACT))
    assert {(each.acted, each.error, "somebody else" in each.reason) for each in gains} == {
        (False, None, True)
    }


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"properties": MADE}, None),
        ({"properties": MADE, "rows": False}, None),
        ({"properties": {}}, None),
        ({"properties": {**MADE, OWNED: "orders_v1"}}, None),
        ({"properties": {**MADE, CLUSTER: "eu"}}, None),
        ({"properties": {}, "rows": False}, "somebody else"),
        ({"properties": MADE, "topic": "clicks"}, "counts offsets of clicks, the contract names orders"),
        ({"properties": {**MADE, CLUSTER: "eu"}, "cluster_id": "e"}, "names cluster e, the broker says c"),
        ({"properties": MADE, "receipt": '{"kind": "merge"}'}, "somebody else"),
        ({"properties": MADE, "receipt": ""}, None),
        ({"properties": {**MADE, OWNED: "clicks"}, "receipt": ""}, "loaded from clicks and its ledger is gone"),
    ],
    ids=[
        "loaded", "created", "adopted, not yet marked", "its topic was renamed and accepted",
        "its cluster has another name now", "not yet adopted", "of another topic", "of another cluster",
        "an upsert table", "its ledger is gone", "whose, nobody knows",
    ],
)  # fmt: skip
def test_the_append_table_is_the_contracts_when_ingest_would_go_on_with_it(lake, made, says):
    lake.make(CONTRACT.table, **made)
    lake.make(QUARANTINE, {OWNED: "orders"}, receipt="")
    for name in (CONTRACT.table, QUARANTINE):  # what goes with another's table is another's
        found = why(lake, name)
        assert found is None if says is None else says in found


def test_rows_go_only_when_the_cluster_says_that_it_is_the_one_that_was_read(lake):
    """Given two deployments whose clusters are both named `main`, then only the id tells them apart: it is asked for where rows are deleted."""
    lake.make(CONTRACT.table, MADE, cluster_id="of another deployment")
    assert why(lake) is None
    assert lake.asked == 0
    assert "the broker says c" in why(lake, to_the_row=True)


def test_rows_of_a_table_without_its_ledger_stay(lake):
    lake.make(CONTRACT.table, MADE, receipt="")
    with pytest.raises(Stopped) as stopped:
        why(lake, to_the_row=True)
    assert stopped.value.state == "ledger_missing"


def test_companions_say_themselves_whose_they_are(lake):
    lake.make(CONTRACT.table, MADE)
    assert why(lake, QUARANTINE) is None
    lake.make(QUARANTINE, {}, receipt="")
    lake.make(CURRENT, {UPSERT_OF: "s.other"}, receipt="")
    assert [bool(why(lake, name)) for name in tables_of(CONTRACT)[:3]] == [False, True, True]
