"""What the review pack is collected from, with a catalog in a file."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from reviews import review
from unserved import ORDERS, lake_in

from tidemark.domain.ledger.backfill import CUTOVER
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, LEDGER_TAG, Ledger
from tidemark.domain.lineage.column_lineage import inverse, made_of_it
from tidemark.engine.access import kafka
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.metadata_files import commit
from tidemark.engine.access.table_state import OWNED, TableState
from tidemark.engine.config.configuration import load
from tidemark.engine.config.discovery import Discovery
from tidemark.engine.look.status import Facts, Hint
from tidemark.engine.schema.history import HISTORY
from tidemark.engine.table.branch import main_at, ref_at
from tidemark.engine.table.operations import _SCHEMA, log_table
from tidemark.review import receipts as telling
from tidemark.review.collect import OPERATIONS, _Known, _names, _operations, _review, _standing, reviews
from tidemark.review.pack import page
from tidemark.review.receipts import cutover_of, fates_of, receipts_of, way_back


def _lake(folder):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    return SimpleNamespace(catalog=catalog, platform=SimpleNamespace(default_namespace="lake"))


def _paused(lake, tables):
    """A log in which one table after the other was paused, a day each."""
    lake.catalog.create_namespace("lake")
    log = lake.catalog.create_table(log_table(lake), _SCHEMA)
    done = [
        {
            "table": table,
            "verb": "pause",
            "by": "ada",
            "at": datetime(2026, 1, day, tzinfo=UTC),
            "arguments": "{}",
        }
        for day, table in enumerate(tables, 1)
    ]
    log.append(pa.Table.from_pylist(done, schema=log.schema().as_arrow()))


def _days(found):
    return {table: [int(each["at"][8:10]) for each in rows] for table, rows in found.items()}


def test_what_people_did_to_either_table_is_collected_newest_first_in_one_look(tmp_path, monkeypatch):
    """Given acts on tables, on an upsert table and on one that is not asked for, then each has its own, read at once."""
    lake = _lake(tmp_path)
    tables = {
        "shop.orders": dict.fromkeys(["shop.orders", "shop.orders_current"]),
        "shop.carts": {"shop.carts": None},
        "shop.new": {"shop.new": None},
    }
    assert _operations(lake, tables) == {}
    _paused(lake, ["shop.orders", "shop.orders_current", "shop.other", "shop.carts", "shop.orders"])
    scans, scan = [], Table.scan
    monkeypatch.setattr(Table, "scan", lambda *given, **said: scans.append(said) or scan(*given, **said))
    found = _operations(lake, tables)
    assert _days(found) == {"shop.orders": [5, 2, 1], "shop.carts": [4], "shop.new": []}
    assert len(scans) == 1


def test_what_people_did_before_a_rename_is_collected_and_nothing_of_a_later_table_of_that_name(tmp_path):
    """Given acts on a table and its upsert table, a rename, and acts under both names after it, then those under the old ones are there as far as the table had them; the later table of the old name has those under it since."""
    lake = _lake(tmp_path)
    acts = ["shop.orders", "shop.orders_current", "sales.orders", "shop.orders", "sales.orders_current"]
    _paused(lake, acts)
    rename = {"kind": "rename", "path": "", "from": "shop.orders", "to": "sales.orders"}
    changes = [{"at": "2026-01-03T00:00:00+00:00", "by": "ada", "changes": [rename]}]
    state = TableState("sales.orders", exists=True, properties={HISTORY: json.dumps(changes)})
    facts = SimpleNamespace(contract=SimpleNamespace(table="sales.orders"), table=state)
    both, alone = (
        _names(facts, SimpleNamespace(status=SimpleNamespace(table="sales.orders_current"))),
        _names(facts, None),
    )
    assert _days(_operations(lake, {"a": both, "b": alone, "c": {"shop.orders": None}})) == {
        "a": [5, 3, 2, 1],
        "b": [3, 1],
        "c": [4],
    }


def test_a_mart_that_is_gone_holds_nothing_and_one_that_was_only_taken_out_of_the_project_does(tmp_path):
    """Given marts that the project has no more, when one is still in the catalog, then columns are in that one, and in those of the project, built yet or not."""
    lake, tables = _lake(tmp_path), ("marts.gone", "marts.left", "marts.new")
    lake.catalog.create_namespace("marts")
    lake.catalog.create_table("marts.left", pa.table({"mail": ["a"]}).schema)
    lineage = {table: {"mail": [("shop.orders", "email")]} for table in tables}
    below = inverse(_standing(lake, lineage, {"marts.new"}))
    assert made_of_it(below, "shop.orders", "email") == [("marts.left", "mail"), ("marts.new", "mail")]


def _with_receipts(tmp_path, *ledgers):
    """A table with a receipt for each of (epoch, next offset)."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("shop.orders", rows.schema)
    for epoch, offset in ledgers:
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", epoch=epoch, next={0: offset})
        table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    return table


def test_the_way_back_ends_where_the_epoch_began_or_kafka_lacks_the_records_since(tmp_path, monkeypatch):
    """Given more receipts than are shown, then the oldest that a rollback goes back to is of this epoch and has its next records in Kafka; without Kafka that of the epoch; none where all has expired."""
    monkeypatch.setattr(telling, "KEPT", 2)
    table = _with_receipts(tmp_path, (0, 90), (1, 10), (1, 20), (1, 30), (1, 40))
    metadata = table.metadata
    every = [each.snapshot_id for each in metadata.snapshots]
    assert [each.snapshot_id for each in receipts_of(metadata, "shop.orders")] == every[-2:]

    def back(topic):
        found = way_back(metadata, "shop.orders", 1, topic)
        return every.index(found.snapshot_id) if found else None

    def topic(first, topic_id="t"):
        return Topic("orders", "c", topic_id, {0: first}, {0: 100}, {0: 100})

    assert [back(each) for each in (None, topic(0), topic(20), topic(21))] == [1, 1, 2, 3]
    assert [back(topic(41)), back(topic(0, "anew"))] == [None, None]


def test_a_table_of_which_an_expiry_has_left_the_tag_alone_has_its_recovery_point(tmp_path):
    """Given a receipt that only the tag has kept, then it is the recovery point and what reconciliation reads, and no rollback is promised."""
    table = _with_receipts(tmp_path, (0, 1), (0, 2))
    tagged = table.metadata.snapshots[-1].snapshot_id
    table.manage_snapshots().create_tag(tagged, LEDGER_TAG).commit()
    for _ in range(2):
        table.append(pa.table({"id": [1]}))
    _, kept, _, head = table.metadata.snapshots
    metadata = table.metadata.model_copy(update={"snapshots": [kept, head]})  # as Java expires them
    [found] = receipts_of(metadata, "shop.orders")
    assert (found.snapshot_id, fates_of([found])[0]["next"]) == (tagged, 2)
    assert way_back(metadata, "shop.orders", 0, None) is None


def test_a_cutover_is_told_until_it_is_rolled_back(tmp_path):
    """Given a backfill that was published, when main is taken back behind it, then it is not told any more; where its receipt has expired, nobody knows of that but by the rollback, and it is."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    rows, said = pa.table({"id": [1]}), {"batch_id": "b-cut", "rows": 1}
    table = catalog.create_table("shop.orders", rows.schema, properties={CUTOVER: json.dumps(said)})
    for batch in ("b-1", "b-cut", "b-2"):
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 1}, batch_id=batch)
        table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    first, cut, last = (each.snapshot_id for each in table.metadata.snapshots)
    assert cutover_of(table.metadata, "shop.orders") == said
    commit(table, requirements=main_at(table, last), updates=(ref_at("main", "branch", first),))
    table.refresh()
    assert cutover_of(table.metadata, "shop.orders") is None
    table.maintenance.expire_snapshots().by_id(last).by_id(cut).commit()
    assert cutover_of(table.refresh().metadata, "shop.orders") == said
    with table.transaction() as rollback:
        rollback.set_properties({CUTOVER: ""})
    assert cutover_of(table.metadata, "shop.orders") is None


def _waiting(lake, operations=()):
    """The review of a table that waits for a decision about its columns, which it was made without `note`."""
    rows = pa.table({"id": pa.array([1], pa.int64())})
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 1})
    table = lake.catalog.create_table("shop.orders", rows.schema, properties={OWNED: "orders"})
    table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    facts = Facts(lake.configuration.contract("shop.orders"), lake.state("shop.orders"))
    stopped = review(facts.contract, state="schema_review").status
    done = {"shop.orders": operations}
    return _review(lake, _Known(Discovery(), {}, {}, [], done, None), facts, stopped, None)


def test_acts_that_are_not_shown_are_counted(tmp_path):
    made = _waiting(lake_in(tmp_path, ORDERS), list(range(OPERATIONS + 3)))
    assert (list(made.operations), made.older_operations) == (list(range(OPERATIONS)), 3)
    assert "older_operations" not in made.as_json()


def test_what_waits_for_a_decision_is_told_without_spark(tmp_path):
    """Given a rule that only Spark can judge, and no Spark, then the plan that waits is there all the same."""
    said = ORDERS.replace("{id: bigint}", "{id: bigint, note: string}")
    rule = "quality: [{name: paid, sql: id > 0}]"
    found = _waiting(lake_in(tmp_path, f"{said}schema_changes: {{add_column: review}}\n{rule}\n"))
    assert "note" in {each["path"] for each in found.waits["changes"] if each["verdict"] == "review"}
    assert "waits" not in found.unasked


def test_what_waits_and_cannot_be_asked_is_not_told_as_nothing(tmp_path):
    lake_in(tmp_path, ORDERS)
    (tmp_path / "contracts" / "orders.yaml").write_text("topic: orders\ntable: shop.orders\n")
    with (tmp_path / "platform.yaml").open("a") as platform:
        platform.write("schema_registry: {main: {url: 'http://127.0.0.1:1'}}\n")
    lake = Lake(load(tmp_path / "platform.yaml", tmp_path / "contracts", environ={}, home=tmp_path))
    found = _waiting(lake)
    assert (found.waits, found.unasked["waits"]) == (None, "registry_down")


def test_a_table_that_lost_its_ledger_is_not_told_to_have_published_nothing(tmp_path):
    """Given a loaded table without a receipt, then the page says why nobody knows, and what is in the table all the same."""
    lake = lake_in(tmp_path, ORDERS)
    rows = pa.table({"id": pa.array([1], pa.int64())})
    lake.catalog.create_table("shop.orders", rows.schema, properties={OWNED: "orders"}).append(rows)
    contract = lake.configuration.contract("shop.orders")
    facts = Facts(contract, lake.state("shop.orders", ledger=False), "ledger_missing")
    stopped = review(contract, state="ledger_missing").status
    found = _review(lake, _Known(Discovery(), {}, {}, [], {}, None), facts, stopped, None)
    assert found.unasked == {"table": "ledger_missing", "quarantine": "ledger_missing"}
    html = page([found], "lake")
    for untold in ("Nothing was published yet", "Nothing is in quarantine", "none yet"):
        assert untold not in html
    assert "1 data files" in html


def test_a_stopped_upsert_table_is_told_with_its_plan_and_the_words_of_its_run(tmp_path, monkeypatch):
    """Given a merge that stopped for a wider key, then the review of its append table has that plan and that reason."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)
    lake = lake_in(tmp_path, f"{ORDERS}upsert: {{keys: [id]}}\n")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 1})
    table = lake.catalog.create_table("shop.orders", rows.schema, properties={OWNED: "orders"})
    table.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    lake.catalog.create_table("shop.orders_current", pa.schema([("id", pa.int32())]))
    hint = Hint(stopped="schema_review", why="id is wider")
    [found] = reviews(lake, lake.configuration.contracts, tmp_path, lambda _: {"shop.orders_current": hint})
    assert (found.current.status.state, found.current.why) == ("schema_review", "id is wider")
    assert ("widen_type", "id") in {(each["kind"], each["path"]) for each in found.current.waits["changes"]}
    assert [each.table for each in found.stands] == ["shop.orders", "shop.orders_current"]
