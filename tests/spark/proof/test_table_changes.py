"""Rule: the table is the recovery point; what others do to it is seen, and never mistaken for a first run."""

from time import time
from types import SimpleNamespace

import oracle
import pytest
from pyiceberg.table import snapshots, update
from pyiceberg.types import FixedType, TimeType, UUIDType
from pyspark.sql import SparkSession
from topics import ORDER, order

from tidemark.domain.columns.spark_types import columns_ddl
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.accept import Signature, accept
from tidemark.engine.operate.pause import pause, resume
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.preview.foresee import foresee, foresee_releases
from tidemark.engine.table.publish import publish_receipt
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_offset

NEWER = {**ORDER, "doc": "the same fields, another schema"}
ONCALL = Signature("oncall", "seen and agreed")


def test_a_dropped_table_stops_until_a_first_load_is_accepted(lakehouse):
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(60))
    table = lakehouse.table(topic)
    table.run()
    lakehouse.spark().sql(f"DROP TABLE {table.name} PURGE")
    outcome = table.run(loaded_before=True)
    assert outcome.state == "table_missing"
    assert "--first-load" in outcome.error["next_step"]
    assert not lakehouse.catalog.table_exists(table.name)
    accept(lakehouse.lake, table.contract, "first-load", ONCALL)
    assert table.run(loaded_before=True).state == "fresh"
    assert table.ids() == list(range(60))
    table.holds_everything()


@pytest.mark.parametrize(("lost", "epoch"), [(0, 0), (5, 1)])
def test_the_quarantine_of_a_dropped_table_is_no_part_of_a_load_that_begins_behind_it(lakehouse, lost, epoch):
    """Given a quarantined record, when its table is dropped and loaded anew, then it is replaced where it is read again,
    and else kept as another epoch's, which a replay leaves alone."""
    topic = lakehouse.cluster.topic("reborn")
    topic.send(range(2))
    topic.send_raw([(None, b"poison", 0)])
    topic.send(range(3, 8))
    foreign, known = lakehouse.cluster.topic("reborn_elsewhere", schema=NEWER).schema_id, topic.schema_id
    topic.schema_id = foreign
    topic.send_raw([(b"8", topic.encode(order(8)), 0)])
    topic.schema_id = known
    table = lakehouse.table(topic)
    assert table.run().rows.quarantined == 2
    lakehouse.spark().sql(f"DROP TABLE {table.name} PURGE")
    if lost:
        topic.delete_records({0: lost})
    accept(lakehouse.lake, table.contract, "first-load", ONCALL)
    assert table.run(loaded_before=True).rows.quarantined == (1 if lost else 2)
    rows = lakehouse.catalog.load_table(table.contract.quarantine_table).scan().to_arrow().to_pylist()
    assert sorted((r["epoch"], r["offset"]) for r in rows) == (
        [(0, 2), (0, 8), (1, 8)] if lost else [(0, 2), (0, 8)]
    )
    assert table.ledger["epoch"] == epoch
    assert reconcile(lakehouse.lake, table.contract).sound
    topic.use(NEWER)
    told = replay_quarantine(lakehouse.lake, table.contract, Selection(), ONCALL).as_json()["arguments"]
    assert (told["moved"], told["commits"]) == (1, 1)
    assert table.ids() == [n for n in range(lost, 9) if n != 2]


def test_a_table_that_was_rolled_back_by_someone_reads_what_is_missing_again(lakehouse):
    topic = lakehouse.cluster.topic("orders", 2)
    table = lakehouse.table(topic)
    topic.send(range(50))
    table.run()
    target = table.head
    topic.send(range(50, 100))
    topic.send_raw([(None, b"poison", 0)])
    table.run()
    lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {target})").collect()
    topic.send(range(100, 120))
    assert table.run().state == "fresh"
    assert table.ids() == list(range(120))
    assert table.holds_everything().quarantined == 1


def test_a_paused_table_that_was_taken_back_and_maintained_reads_again_whatever_others_keep(lakehouse):
    """Given a paused table that somebody took back, when it is maintained before others commit and keep one snapshot alone, then the tag tells where it stands."""
    topic = lakehouse.cluster.topic("taken_back")
    table = lakehouse.table(topic)
    for batch in range(3):
        topic.send(range(batch * 10, batch * 10 + 10))
        table.run()
    first, newest = (oracle.ledgers(table.iceberg())[n]["snapshot_id"] for n in (1, -1))
    pause(lakehouse.lake, table.contract, ONCALL)
    lakehouse.spark().sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {first})").collect()
    for dry_run, tagged in ((True, newest), (False, first)):
        assert not [each for each in maintain(lakehouse.lake, table.contract, dry_run=dry_run) if each.error]
        assert lakehouse.lake.state(table.name).tagged == tagged
    rewrite = f"rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    one = "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
    for call in (rewrite, rewrite, f"expire_snapshots(table => '{table.name}', {one})"):
        lakehouse.spark().sql(f"CALL lake.system.{call}")
    resume(lakehouse.lake, table.contract, ONCALL)
    assert table.run().state == "fresh"
    assert table.ids() == list(range(30))


def test_a_foreign_append_is_no_receipt_and_moves_no_offset(lakehouse):
    topic = lakehouse.cluster.topic("orders")
    topic.send(range(10))
    table = lakehouse.table(topic)
    table.run()
    lakehouse.spark().sql(f"INSERT INTO {table.name} SELECT * FROM {table.name} LIMIT 0")
    topic.send(range(10, 20))
    assert table.run().rows.written == 10
    table.holds_everything()


def test_expiry_by_others_leaves_the_ledger_its_tag(lakehouse):
    """Given snapshots expired by a stranger down to one that is no receipt, when run, then offsets continue from the tag."""
    topic = lakehouse.cluster.topic("orders", 2)
    table = lakehouse.table(topic)
    for batch in range(3):
        topic.send(range(batch * 10, batch * 10 + 10))
        table.run()
    spark = lakehouse.spark()
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    ).collect()
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    ).collect()
    topic.send(range(30, 40))
    outcome = table.run()
    assert (outcome.state, outcome.rows.written) == ("fresh", 10)
    assert table.ids() == list(range(40))


def test_a_table_whose_ledger_is_gone_stops(lakehouse):
    topic = lakehouse.cluster.topic("orders", 2)
    topic.send(range(20))
    table = lakehouse.table(topic)
    table.run()
    spark = lakehouse.spark()
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    ).collect()
    spark.sql(f"ALTER TABLE {table.name} DROP TAG tidemark_ledger")
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    ).collect()
    assert table.run().state == "ledger_missing"
    assert table.ids() == list(range(20))


@pytest.mark.parametrize("value", ["true", None])
def test_a_server_with_the_catalog_cache_on_is_refused(lakehouse, value):
    """Given a session that caches the catalog (explicitly, or by Iceberg's default), when run, then nothing is written."""
    topic = lakehouse.cluster.topic("orders")
    topic.send(range(10))
    table = lakehouse.table(topic)

    def caching():
        session = SparkSession.builder.remote(lakehouse.status["spark"]["remote"]).create()
        if value is None:
            session.conf.unset("spark.sql.catalog.lake.cache-enabled")
        else:
            session.conf.set("spark.sql.catalog.lake.cache-enabled", value)
        return session

    lake = lakehouse.open_lake(session=caching)
    outcome = table.run(lake=lake)
    assert outcome.state == "misconfigured"
    assert "cache-enabled=false" in outcome.error["message"]
    assert not lakehouse.catalog.table_exists(table.name)


def test_a_table_that_somebody_wrote_anew_is_not_loaded_a_second_time(lakehouse):
    """Given a loaded table that was dropped and made again from a copy, when run, then it stops until an epoch of its own is accepted."""
    topic, spark = lakehouse.cluster.topic("copied"), lakehouse.spark()
    topic.send(range(5))
    table = lakehouse.table(topic)
    table.run()
    spark.sql(f"CREATE TABLE lake.{table.name}_copy USING iceberg AS SELECT * FROM lake.{table.name}")
    spark.sql(f"DROP TABLE lake.{table.name}")
    spark.sql(f"CREATE TABLE lake.{table.name} USING iceberg AS SELECT * FROM lake.{table.name}_copy")
    stopped = table.run()
    assert (stopped.state, table.ids()) == ("ledger_missing", list(range(5)))
    assert "empty it first" in stopped.error["next_step"]
    accept(lakehouse.lake, table.contract, "first-load", ONCALL)
    assert table.run().state == "fresh"
    first = where_offset(lakehouse.lake, table.contract, 0, 0)[-1]
    assert first.why.startswith("of epoch 0, now is epoch 1;"), "it is the same topic"
    epochs = table.iceberg().scan(selected_fields=("_kafka",)).to_arrow()["_kafka"].combine_chunks()
    assert sorted(epochs.field("epoch").to_pylist()) == [0] * 5 + [1] * 5


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_table_replaced_by_an_empty_one_is_loaded_again_once_that_is_accepted(lakehouse, format_version):
    topic = lakehouse.cluster.topic("replaced")
    topic.send(range(5))
    table = lakehouse.table(topic, format_version=format_version)
    table.run()
    columns = columns_ddl(lakehouse.lake.state(table.name).columns)
    lakehouse.spark().sql(
        f"CREATE OR REPLACE TABLE lake.{table.name} ({columns}) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '{format_version}')"
    )
    assert (table.run().state, table.iceberg().metadata.current_snapshot_id) == ("ledger_missing", None)
    accept(lakehouse.lake, table.contract, "first-load", ONCALL)
    assert table.run().state == "fresh"
    assert table.ids() == list(range(5))
    table.holds_everything()


def test_columns_that_need_backticks_are_partitioned_and_sorted_by(lakehouse):
    """Given names with a space and a dot, when the contract lays the table out by them, then the table is."""
    topic = lakehouse.cluster.topic("quoted")
    topic.send_raw([(None, b'{"a b": 1, "c.d": 2}', 0)])
    table = lakehouse.table(
        topic,
        value={"format": "json", "fields": {"a b": "int", "c.d": "int"}},
        partition_by=["bucket(2, `a b`)"],
        sort_by=["`c.d`", "_kafka.offset"],
    )
    assert table.run().state == "fresh"
    loaded = table.iceberg()
    sources = [loaded.schema().find_column_name(field.source_id) for field in loaded.sort_order().fields]
    assert sources == ["c.d", "_kafka.offset"]


def test_a_fitting_table_of_someone_else_is_adopted(lakehouse):
    """Given a table with rows, columns in another order and one of its own that may not be NULL, when a contract names it, then its rows stay, the topic is loaded beside them, and without contract it is released."""
    topic, spark = lakehouse.cluster.topic("adopted", 2), lakehouse.spark()
    topic.send(range(20))
    table = lakehouse.table(topic)
    kafka = columns_ddl(Struct((KAFKA_COLUMN,)))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.proof")
    spark.sql(
        f"CREATE TABLE lake.{table.name} (region STRING NOT NULL, amount DOUBLE, id BIGINT NOT NULL, "
        f"customer STRING, at TIMESTAMP, {kafka}) USING iceberg PARTITIONED BY (region)"
    )
    spark.sql(
        f"INSERT INTO lake.{table.name} SELECT 'eu', 1.5D, 1000 + id, 'old', TIMESTAMP '2020-01-01', NULL FROM range(3)"
    )
    planned = foresee(lakehouse.lake, table.contract)
    found = [(c["kind"], c["path"], c["verdict"]) for c in planned.changes]
    assert [each for each in found if each[0] != "property"] == [
        ("adopt", "", "apply"),
        ("make_optional", "region", "apply"),
        ("make_optional", "id", "apply"),
    ]
    assert table.run().state == "fresh"
    assert table.ids() == [*range(20), 1000, 1001, 1002]
    held = table.iceberg().scan().to_arrow().to_pylist()
    assert (
        sorted((r["region"] or "", r["_kafka"] is None) for r in held)
        == [("", False)] * 20 + [("eu", True)] * 3
    )
    assert [f.name for f in table.iceberg().spec().fields] == ["region"]
    assert reconcile(lakehouse.lake, table.contract).sound
    assert foresee(lakehouse.lake, table.contract).changes == ()
    assert table.run().commits == 0
    (lakehouse.contracts / f"{table.name}.yaml").unlink()
    lake = lakehouse.open_lake()
    [released] = [each for each in foresee_releases(lake) if each.table == table.name]
    assert [(c["kind"], c["verdict"]) for c in released.changes] == [("release", "apply")]
    assert len(table.ids()) == 23


def test_columns_of_other_engines_types_are_null_and_one_that_spark_has_no_name_for_is_told(lakehouse):
    """Given a uuid and a fixed that Trino has added, when run, then they are NULL, in the upsert table too; a time stops."""
    topic = lakehouse.cluster.topic("orders")
    table = lakehouse.table(topic, upsert=["id"])
    current = upsert_table_of(table.contract)
    topic.send(range(3))
    table.run()
    with table.iceberg().update_schema() as update:
        update.add_column("u", UUIDType())
        update.add_column("f", FixedType(16))
    for number in (3, 4):
        topic.send([number])
        assert table.run().state == "fresh"
        assert catch_up_merges(lakehouse.lake, current, "test").error is None
    for name in (table.name, current.contract.table):
        rows = lakehouse.catalog.load_table(name).scan(selected_fields=("id", "u", "f")).to_arrow()
        assert sorted(rows["id"].to_pylist()) == list(range(5))
        assert set(rows["u"].to_pylist() + rows["f"].to_pylist()) == {None}
    with table.iceberg().update_schema() as update:
        update.add_column("t", TimeType())
    topic.send([5])
    outcome = table.run()
    assert outcome.state == "table_incompatible"
    assert "Spark reads no table with a column of such a type: t (time)" in outcome.error["message"]
    with table.iceberg().update_schema() as update:
        update.delete_column("t")
    assert table.run().state == "fresh"
    table.holds_everything()


def test_clocks_that_differ_by_an_hour_hold_up_no_table(lakehouse, monkeypatch):
    """Given hosts that commit by a clock an hour behind Spark's, then by one an hour ahead, then Spark reads the table all along, and writes to it when clocks are right again."""
    topic = lakehouse.cluster.topic("orders", 2)
    table = lakehouse.table(topic)

    def set_clock(hours):
        monkeypatch.setattr(snapshots, "time", SimpleNamespace(time=lambda: time() + hours * 3600))
        monkeypatch.setattr(
            update, "datetime_to_millis", lambda at: int((at.timestamp() + hours * 3600) * 1000)
        )

    for n, hours in enumerate((0, -1, -1)):
        set_clock(hours)
        topic.send(range(n * 10, n * 10 + 10))
        assert table.run().state == "fresh"
        table.holds_everything()
    set_clock(1)
    state = lakehouse.lake.state(table.name)
    empty = {"batch_id": "ahead", "from_": state.ledger.next, "counts": {}}
    publish_receipt(lakehouse.lake, state, state.ledger.model_copy(update=empty))
    table.holds_everything()
    set_clock(0)
    topic.send(range(30, 40))
    assert table.run().state == "fresh"
    table.holds_everything()
