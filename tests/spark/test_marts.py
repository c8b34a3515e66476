"""The marts on real tables: dbt builds them over Spark Connect, again only what moved, and tags are held to."""

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import dagster as dg
import psutil
import pytest
import yaml
from pyspark.sql.connect.session import SparkSession
from waiting import until

import assets.marts.build
import resources.lake
import tidemark.engine.marts
from assets.names import ALLOWED, CORRECTED, table_key
from orchestration.definitions import build_defs
from tidemark.cli.marts import text_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.spark import connect
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import Places, load
from tidemark.engine.marts import project_folder, read_project

KAFKA = (
    "_kafka struct<topic: string, partition: int, offset: bigint, timestamp: timestamp, timestamp_type: int, "
    "key: binary, headers: array<struct<key: string, value: binary>>, schema_id: int, tombstone: boolean, epoch: int>"
)
TABLES = {
    "shop.orders": "order_id bigint, customer_id bigint, eMail string, amount decimal(10,2), status string, "
    "ordered_at timestamp",
    "web.clicks": "visitor string, page string, clicked_at timestamp, referrer string",
    "web.last_clicks": "visitor string, page string, clicked_at timestamp, referrer string",
    "ops.audit_log": "value string",
    "plant.sensors": "value binary",
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def kafka(offset):
    return ("t", 0, offset, NOON, 0, None, None, 1, False, 0)


def order(number, *, day=0, amount="10.00", customer=None):
    placed = NOON + timedelta(days=day, seconds=number)
    who = number % 2 if customer is None else customer
    return (number, who, f"c{who}@example.org", Decimal(amount), "PAID", placed, kafka(number))


def click(number, minute, visitor="ann"):
    return (visitor, f"/{number}", NOON + timedelta(minutes=minute), None, kafka(number))


class Sample:
    """The sample tables as ingest leaves them: rows, and a ledger in each snapshot."""

    def __init__(self, home, folder):
        self.home, self.folder = home, folder
        self.lake = Lake(load(None, folder, environ={}, home=home))
        self.spark = self.lake.spark()

    def create(self):
        for mart in read_project().marts:
            self.spark.sql(f"DROP TABLE IF EXISTS lake.{mart.table}")
        for table, columns in TABLES.items():
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{table.partition('.')[0]}")
            self.spark.sql(f"DROP TABLE IF EXISTS lake.{table}")
            self.spark.sql(f"CREATE TABLE lake.{table} ({columns}, {KAFKA}) USING iceberg")

    def append(self, table, rows, *, quarantined=0):
        counts = {"0": [len(rows) + quarantined, len(rows), quarantined, 0, 0]}
        ledger = {"kind": "append", "counts": counts, "max_timestamp": "2026-03-01T12:00:00Z", "run_id": "r"}
        schema = f"{TABLES[table]}, {KAFKA}"
        frame = self.spark.createDataFrame(rows, schema)
        frame.writeTo(f"lake.{table}").option(
            "snapshot-property.tidemark.ledger", json.dumps(ledger)
        ).append()

    def rows(self, sql):
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def build(self, instance, *tables, **config):
        where = Places(None, self.folder, self.home)
        keys = [table_key(each) for each in tables] or None
        job = build_defs(where=where).resolve_job_def("marts")
        asked = {"ops": {"build_marts": {"config": config}}} if config else None
        return job.execute_in_process(
            run_config=asked, instance=instance, asset_selection=keys, raise_on_error=False
        )

    def check(self, instance, table, name):
        """The verdict on one check of a mart that is executed by itself."""
        key = dg.AssetCheckKey(table_key(table), name)
        job = build_defs(where=Places(None, self.folder, self.home)).resolve_job_def("__ASSET_JOB")
        alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
        [found] = alone.execute_in_process(instance=instance).get_asset_check_evaluations()
        assert found.asset_check_key == key
        return found.passed


@pytest.fixture(scope="module")
def sample(stack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("contracts")
    for file in (project_folder().parent / "contracts").glob("*.yaml"):
        (folder / file.name).write_text(file.read_text().replace("  email:", "  eMail:"))
    made = Sample(Path(stack["home"]), folder)
    made.create()
    yield made
    made.lake.close()


@pytest.fixture(scope="module")
def instance():
    with dg.instance_for_test() as made:
        yield made


def verdicts(result, name):
    return {
        table: each.passed
        for each in result.get_asset_check_evaluations()
        for table in [".".join(each.asset_key.path)]
        if each.check_name == name
    }


UNCHANGED = "Partial parsing enabled: 0 files deleted, 0 files added, 0 files changed"


@pytest.fixture
def starts(monkeypatch, tmp_path):
    """How dbt was started, one item each: its first word, and whether it knew the project already."""
    real, told = assets.marts.build._executable(), tmp_path / "starts"
    wrapper = tmp_path / "dbt"
    wrapper.write_text(
        f"#!/bin/sh\n'{real}' \"$@\"; code=$?\n"
        f"echo $1 $(grep -c '{UNCHANGED}' \"$DBT_TARGET_PATH/dbt.log\") >> '{told}'; exit $code\n"
    )
    wrapper.chmod(0o755)
    monkeypatch.setattr(assets.marts.build, "_executable", lambda: str(wrapper))
    return lambda: told.read_text().splitlines()


def test_marts_follow_their_tables(sample, instance, starts):
    sample.append("shop.orders", [order(n) for n in range(4)], quarantined=1)
    sample.append("web.clicks", [click(n, minute) for n, minute in enumerate((0, 5, 50, 51))])
    sample.append("web.last_clicks", [click(3, 51)])
    sample.append("ops.audit_log", [("line", kafka(0))])
    sample.append("plant.sensors", [(b"frame", kafka(0))])
    first = sample.build(instance)
    assert first.success, [each for each in first.all_events if each.is_failure]
    assert sample.rows("SELECT orders, revenue FROM lake.marts.daily_revenue") == [(4, Decimal("40.00"))]
    assert sample.rows("SELECT clicks, entry_page FROM lake.marts.sessions ORDER BY 2") == [
        (2, "/0"),
        (2, "/2"),
    ]
    visitors = "SELECT visitor, last_page, visits, clicks FROM lake.marts.visitors"
    assert sample.rows(visitors) == [("ann", "/3", 2, 4)]
    quality = (
        "SELECT rows_read, rows_written, rows_quarantined FROM lake.marts.data_quality WHERE table_name = "
    )
    assert sample.rows(f"{quality}'shop.orders'") == [(5, 4, 1)]
    assert all(each.passed for each in first.get_asset_check_evaluations())

    # a late order, a new day, and a click that joins what were two visits
    sample.append("shop.orders", [order(4), order(5, day=1, amount="7.50")])
    sample.append("web.clicks", [click(4, 29)])
    second = sample.build(instance)
    assert second.success
    assert set(verdicts(second, ALLOWED).values()) == {True}, (
        "their SQL is another than that of the first build"
    )
    revenue = sample.rows("SELECT orders, revenue FROM lake.marts.daily_revenue ORDER BY order_day")
    assert revenue == [(5, Decimal("50.00")), (1, Decimal("7.50"))]
    assert sample.rows("SELECT clicks FROM lake.marts.sessions") == [(5,)]
    assert sample.rows(visitors) == [("ann", "/3", 1, 5)]
    assert sample.rows(f"{quality}'shop.orders'") == [(7, 6, 1)]
    assert sample.rows("SELECT sum(orders) FROM lake.marts.customers") == [(6,)]
    for mart in ("marts.customers", "marts.visitors"):
        kept = sample.lake.catalog.load_table(mart).properties
        assert kept["write.metadata.delete-after-commit.enabled"] == "true"
        assert kept["write.metadata.previous-versions-max"] == "20"
    assert starts() == ["parse 0", "build 1", "build 1"], "each is a process; the project is parsed once"


@pytest.mark.long
def test_columns_are_read_whatever_became_of_an_earlier_session(sample, instance, monkeypatch):
    """Given a process whose first session the server has closed, when a mart is built, then its columns are known all the same."""
    earlier = connect(sample.lake.platform.spark.address)
    assert earlier.conf.get("spark.sql.session.timeZone"), "now the server knows it"
    earlier.client.release_session()
    monkeypatch.setattr(SparkSession, "_default_session", earlier)
    discovery.update(sample.home, lambda seen: seen.with_described("marts.customers", []))
    built = sample.build(instance, "marts.customers")
    assert verdicts(built, ALLOWED) == {"marts.customers": True}
    assert SparkSession._default_session is earlier, "what others rely on is as it was"
    earlier.client.close()


def test_after_a_rollback_a_build_makes_marts_anew(sample, instance):
    """Given marts of a table that was taken back, when they are built, then nothing of what was undone is left, and no other mart is made anew."""
    first = "SELECT snapshot_id FROM lake.shop.orders.snapshots ORDER BY committed_at LIMIT 1"
    ((snapshot,),) = sample.rows(first)
    sample.spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.orders', {snapshot})")
    batches = sample.rows("SELECT count(*) FROM lake.marts.ingest_batches")
    stale = [f"marts.{each}" for each in ("daily_revenue", "customers", "ingest_batches")]
    assert not sample.check(instance, "marts.customers", CORRECTED), "before the build"
    incremental = stale[:2]
    uuids = [sample.lake.catalog.load_table(each).metadata.table_uuid for each in incremental]
    built = sample.build(instance, *stale)
    assert built.success
    assert verdicts(built, CORRECTED) == {
        "marts.daily_revenue": True,
        "marts.customers": True,
        "marts.ingest_batches": False,
    }
    assert sample.rows("SELECT orders, revenue FROM lake.marts.daily_revenue") == [(4, Decimal("40.00"))]
    assert sample.rows("SELECT sum(orders) FROM lake.marts.customers") == [(4,)]
    assert sample.rows("SELECT count(*) FROM lake.marts.ingest_batches") == batches, "history is kept"
    assert sample.check(instance, "marts.customers", CORRECTED)
    assert not sample.check(instance, "marts.data_quality", CORRECTED), "it counts that history"
    assert sample.check(instance, "marts.customers", "unique_customers_customer_id")
    now = [sample.lake.catalog.load_table(each).metadata.table_uuid for each in incremental]
    assert now == uuids, "readers have the old rows until the new ones are there"


@pytest.mark.long
def test_a_mart_that_counts_rows_which_retention_has_deleted_is_called_stale_instead(sample, instance):
    """Given a table with retention, when a correction takes rows away, then its mart keeps its figures and says so until someone asks for new ones."""
    if not sample.rows("SELECT 1 FROM lake.shop.orders"):  # without the tests before it
        sample.append("shop.orders", [order(number) for number in range(4)])
    sample.spark.sql("ALTER TABLE lake.shop.orders SET TBLPROPERTIES ('tidemark.retention-before' = '1')")
    sample.append("shop.orders", [order(6, day=1)])
    assert sample.build(instance, "marts.daily_revenue").success
    ((snapshot,),) = sample.rows(
        "SELECT parent_id FROM lake.shop.orders.history WHERE is_current_ancestor ORDER BY made_current_at DESC LIMIT 1"
    )
    sample.spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.orders', {snapshot})")
    count = "SELECT sum(orders) FROM lake.marts.daily_revenue"
    assert verdicts(sample.build(instance, "marts.daily_revenue"), CORRECTED) == {
        "marts.daily_revenue": False
    }
    assert sample.rows(count) == [(5,)]
    again = sample.build(instance, "marts.daily_revenue", full_refresh=True)
    assert verdicts(again, CORRECTED) == {"marts.daily_revenue": True}
    assert sample.rows(count) == [(4,)]
    assert verdicts(sample.build(instance, "marts.daily_revenue"), CORRECTED) == {"marts.daily_revenue": True}
    sample.spark.sql("ALTER TABLE lake.shop.orders UNSET TBLPROPERTIES ('tidemark.retention-before')")


def test_a_mart_on_an_upsert_table_sees_rows_that_changed_and_carries_their_tags(sample, instance):
    """Given a mart on an upsert table, when a row there changes and no other comes, then the mart has the change; the tag of the append table's column crosses both."""
    sample.spark.sql("UPDATE lake.web.last_clicks SET page = '/9' WHERE visitor = 'ann'")
    built = sample.build(instance, "marts.visitors")
    assert sample.rows("SELECT last_page FROM lake.marts.visitors") == [("/9",)]
    begun = "SELECT count(*) FROM lake.marts.visitors.history WHERE is_current_ancestor"
    assert sample.rows(begun) == [(1,)], "a `table` is made anew by each build"
    assert verdicts(built, ALLOWED) == {"marts.visitors": True}, "the contract allows it"
    sample.append("web.last_clicks", [click(9, 52, visitor="bob")])
    sample.append("web.clicks", [click(9, 52, visitor="bob")])
    sample.spark.sql("DELETE FROM lake.web.last_clicks WHERE visitor = 'ann'")
    assert sample.build(instance, "marts.sessions", "marts.visitors").success
    assert sample.rows("SELECT visitor FROM lake.marts.visitors") == [("bob",)], (
        "who was deleted has left the mart"
    )
    metadata = instance.get_latest_materialization_event(
        table_key("marts.visitors")
    ).asset_materialization.metadata
    (visitor,) = [e for e in metadata["dagster/column_schema"].value.columns if e.name == "visitor"]
    assert visitor.tags == {"pii": ""}
    assert visitor.constraints.other == ["from web.last_clicks.visitor"]
    ways = metadata["where_columns_come_from"].value
    assert "**visitor** ← `web.last_clicks.visitor` ← `web.clicks.visitor`" in ways


def test_columns_and_what_they_are_made_of_are_recorded(sample, instance):
    """Given a column with capitals, of which dbt tells in lower case, then its mart names it as the contract does and has its tag."""
    event = instance.get_latest_materialization_event(table_key("marts.customers"))
    metadata = event.asset_materialization.metadata
    made_of = metadata["dagster/column_lineage"].value.deps_by_column
    assert dg.TableColumnDep(table_key("shop.orders"), "eMail") in made_of["email"]
    tags = {each.name: each.tags for each in metadata["dagster/column_schema"].value.columns}
    assert tags["email"] == {"pii": ""}
    assert tags["orders"] == {}
    known = discovery.read(sample.home).columns("marts.customers")
    assert next(each["from"] for each in known if each["name"] == "email")


def test_a_mart_that_exposes_a_tagged_column_without_leave_fails_its_check(sample, instance):
    file = sample.folder / "orders.yaml"
    before = file.read_text()
    contract = yaml.safe_load(before)
    contract["columns"]["eMail"]["allow"] = []
    file.write_text(yaml.safe_dump(contract))
    resources.lake._configuration.cache_clear()
    try:
        result = sample.build(instance, "marts.customers")
    finally:
        file.write_text(before)
        resources.lake._configuration.cache_clear()
    assert verdicts(result, ALLOWED) == {"marts.customers": False}
    (evaluation,) = [e for e in result.get_asset_check_evaluations() if e.check_name == ALLOWED]
    assert "marts.customers.email carries pii of shop.orders.eMail" in evaluation.metadata["exposed"].value


@pytest.fixture
def project(monkeypatch, tmp_path):
    """A copy of the project that is built instead: `add` writes files of it, by name, and describes it anew."""
    folder = tmp_path / "dbt_project"
    shutil.copytree(project_folder(), folder)
    for module in (tidemark.engine.marts, assets.marts.build):
        monkeypatch.setattr(module, "project_folder", lambda: folder)

    def add(files):
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        (folder / "assets.json").write_text(text_of(folder))
        return folder

    return add


MAILS = """{{ config(alias='mails_sent', schema='mail', incremental_strategy='append') }}
{% if is_incremental() %}
select s.order_id, max(t.mail) as mail, max(t.mail) as again, '***' as masked
from {{ source('shop', 'orders') }} as s join {{ this }} as t on t.order_id is not null
where s.order_id > (select max(known.order_id) from {{ this }} as known) group by s.order_id
{% else %}
select order_id, eMail as mail, cast(null as string) as again, eMail as masked from {{ source('shop', 'orders') }}
{% endif %}
"""


def test_a_mart_that_reads_itself_keeps_its_tags_under_whatever_name_its_table_has(sample, instance, project):
    """Given an incremental mart with alias and schema that takes e-mail addresses from itself, when it is built again, then it carries their tags still and follows corrections of its source."""
    project({"models/mails.sql": MAILS})
    sample.spark.sql("DROP TABLE IF EXISTS lake.marts_mail.mails_sent")
    sample.append("shop.orders", [order(100)])

    def exposed(**config):
        built = sample.build(instance, "marts_mail.mails_sent", **config)
        assert built.success, [each for each in built.all_events if each.is_failure]
        [found] = [e for e in built.get_asset_check_evaluations() if e.check_name == ALLOWED]
        return [each.split(" ")[0] for each in (found.description or "").split("; ")]

    assert exposed() == ["marts_mail.mails_sent.mail", "marts_mail.mails_sent.masked"]
    sample.append("shop.orders", [order(101)])
    all_three = [f"marts_mail.mails_sent.{each}" for each in ("again", "mail", "masked")]
    assert sorted(exposed()) == all_three
    rows = "SELECT order_id, again IS NULL, masked FROM lake.marts_mail.mails_sent WHERE order_id > 99 ORDER BY 1"
    assert sample.rows(rows) == [(100, True, "c0@example.org"), (101, False, "***")]
    ((head,),) = sample.rows(
        "SELECT parent_id FROM lake.shop.orders.history WHERE is_current_ancestor ORDER BY made_current_at DESC LIMIT 1"
    )
    sample.spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.orders', {head})")
    assert not sample.check(instance, "marts_mail.mails_sent", CORRECTED)
    assert exposed() == ["marts_mail.mails_sent.mail", "marts_mail.mails_sent.masked"], "it is made anew"
    assert sample.rows(rows) == [(100, True, "c0@example.org")]


@pytest.mark.long
def test_a_test_whose_name_other_marts_share_is_run_alone(sample, instance, project):
    """Given one name for tests of two marts, when one of them is executed by itself, then that one is judged, and no other is run."""
    known = yaml.safe_load((project_folder() / "models/marts/marts.yml").read_text())
    for model in known["models"]:
        if model["name"] in {"customers", "visitors"}:
            model["columns"][0]["data_tests"] = [{"not_null": {"name": "keyed"}}]
    project({"models/marts/marts.yml": yaml.safe_dump(known)})
    assert sample.check(instance, "marts.customers", "keyed")


def test_a_mart_of_a_table_that_is_not_there_keeps_no_other_from_its_build(sample, instance):
    """Given a table that is not there, when marts are built, then those of the other tables are, with a test that counts rows of a source, which no build selects; it is run by itself too."""
    name = "no_order_is_counted_twice"
    sample.spark.sql("DROP TABLE lake.web.last_clicks")
    built = sample.build(instance, "marts.daily_revenue", "marts.visitors")
    assert built.success
    made = [".".join(e.asset_key.path) for e in built.all_events if e.is_step_materialization]
    assert made == ["marts.daily_revenue"]
    assert verdicts(built, name) == {"marts.daily_revenue": True}
    assert sample.check(instance, "marts.daily_revenue", name)


BUILD = """
import sys
from pathlib import Path
import dagster as dg
import assets.marts.build
import tidemark.engine.marts
from orchestration.definitions import build_defs
from tidemark.engine.config.configuration import Places
project, contracts, home = map(Path, sys.argv[1:4])
keys = [dg.AssetKey(each.split(".")) for each in sys.argv[4:]] or None
assets.marts.build.project_folder = tidemark.engine.marts.project_folder = lambda: project
with dg.DagsterInstance.ephemeral() as instance:
    job = build_defs(where=Places(None, contracts, home)).resolve_job_def("marts")
    job.execute_in_process(instance=instance, asset_selection=keys)
"""


@pytest.fixture
def bare_project(sample, monkeypatch, tmp_path):
    """A dbt project of these models on the sample tables, in place of the sample's own: path -> what is in the file."""
    made = []

    def of(models):
        folder = tmp_path / "dbt_project"
        shutil.copytree(project_folder(), folder, ignore=shutil.ignore_patterns("marts", "tests"))
        for path, text in models.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            key = f"{{{{ config(meta={{'dagster': {{'asset_key': ['marts', '{file.stem}']}}}}) }}}}\n"
            file.write_text(key + text if path.startswith("models") and file.suffix == ".sql" else text)
        (folder / "assets.json").write_text(text_of(folder))
        monkeypatch.setattr(tidemark.engine.marts, "project_folder", lambda: folder)
        monkeypatch.setattr(assets.marts.build, "project_folder", lambda: folder)
        made.extend(mart.table for mart in read_project().marts)
        return folder

    yield of
    for table in made:
        sample.spark.sql(f"DROP TABLE IF EXISTS lake.{table}")


GROWING = """{{ config(incremental_strategy='merge', unique_key='customer_id') }}
select customer_id, sum(ONE) as orders from {{ BENEATH }} as below where customer_id >= 50
{% if is_incremental() %}
and customer_id in (
  select b.customer_id from (select customer_id, sum(ONE) as n from {{ BENEATH }} group by 1) as b
  left join {{ this }} as t on b.customer_id = t.customer_id where t.orders is null or b.n > t.orders
)
{% endif %}
group by 1
"""
MONTHLY = """{{ config(
  incremental_strategy='microbatch', event_time='ordered_at', batch_size='month', begin='BEGIN', lookback=0,
  partition_by=['month']
) }}
select order_id, ordered_at, date_trunc('month', ordered_at) as month from {{ source('shop', 'orders') }}
where customer_id >= 50
"""
KEPT = """{% snapshot NAME %}
{{ config(
  strategy='check', unique_key='order_id', check_cols=['status'], target_schema='marts', file_format='iceberg',
  meta={'dagster': {'asset_key': ['marts', 'NAME']}}
) }}
select order_id, status from {{ source('shop', 'orders') }} where customer_id >= 50
{% endsnapshot %}
"""


def growing(source, one):
    return GROWING.replace("BENEATH", source).replace("ONE", one)


def test_no_mart_is_called_right_that_is_made_of_one_which_has_not_followed(sample, instance, bare_project):
    """Given marts on marts, in batches of months, and snapshots, when the table is taken back and the upper one is built before the lower one, then each is right once its check says so; what dbt never makes anew says that it may not be; none is built unasked, though its folder has the name of another."""
    ago = (datetime.now(UTC) - NOON).days - 70
    begin = (NOON + timedelta(days=ago - 31)).strftime("%Y-%m-01")
    sources = yaml.safe_load((project_folder() / "models/sources.yml").read_text())
    for table in (table for source in sources["sources"] for table in source["tables"]):
        if table["name"] == "orders":
            table.setdefault("config", {})["event_time"] = "ordered_at"
    bare_project(
        {
            "models/sources.yml": yaml.safe_dump(sources),
            "models/marts/low.sql": growing("source('shop', 'orders')", "1"),
            "models/marts/low/part.sql": "select 1 as one from {{ source('shop', 'orders') }} limit 1",
            "models/marts/high.sql": growing("ref('low')", "orders"),
            "models/marts/monthly.sql": MONTHLY.replace("BEGIN", begin),
            "snapshots/kept.sql": KEPT.replace("NAME", "kept") + KEPT.replace("NAME", "kept_too"),
        }
    )
    sample.append("shop.orders", [order(number, day=ago, customer=50) for number in (200, 201)])
    ((good,),) = sample.rows("SELECT snapshot_id FROM lake.shop.orders.refs WHERE name = 'main'")
    assert sample.build(instance).success
    sample.append("shop.orders", [order(number, day=ago, customer=50) for number in (202, 203)])
    tables = "marts.low", "marts.high", "marts.monthly", "marts.kept"
    assert sample.build(instance, *tables, full_refresh=True).success, "else no month of the past"
    sums = "SELECT (SELECT sum(orders) FROM lake.marts.low), (SELECT sum(orders) FROM lake.marts.high)"
    months = "SELECT count(*) FROM lake.marts.monthly"
    assert sample.rows(sums) + sample.rows(months) == [(4, 4), (4,)]
    sample.spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.orders', {good})")

    def built(*tables):
        result = sample.build(instance, *tables)
        assert result.success
        assert {".".join(e.asset_key.path) for e in result.all_events if e.is_step_materialization} == {
            *tables
        }
        return verdicts(result, CORRECTED)

    assert built("marts.high") == {"marts.high": False}
    assert built("marts.low", "marts.monthly", "marts.kept") == {
        "marts.low": True,
        "marts.monthly": True,
        "marts.kept": False,
    }
    assert not sample.check(instance, "marts.high", CORRECTED)
    assert built("marts.high") == {"marts.high": True}
    assert sample.rows(sums) + sample.rows(months) == [(2, 2), (2,)]
    assert sample.rows("SELECT count(*) FROM lake.marts.kept") == [(4,)]


@pytest.mark.parametrize("dies", ["run", pytest.param("run and dbt", marks=pytest.mark.long)])
def test_what_dbt_does_for_a_run_that_was_killed_is_over_before_the_next_build(
    sample, instance, bare_project, dies
):
    """Given a run that is killed while dbt adds rows that are not there yet, when the mart is built again at once, then each row is there once, also later."""
    folder = bare_project(
        {
            "models/marts/numbers.sql": "{{ config(incremental_strategy='append') }}\n"
            "select order_id, java_method('java.lang.Thread', 'sleep', {{ env_var('SLOW', '0') }}L) as slept\n"
            "from {{ source('shop', 'orders') }} as o where order_id >= 300\n"
            "{% if is_incremental() %}\n"
            "and not exists (select 1 from {{ this }} as t where t.order_id = o.order_id)\n{% endif %}"
        }
    )
    first = 300 if dies == "run" else 302
    sample.append("shop.orders", [order(first)])
    assert sample.build(instance).success
    sample.append("shop.orders", [order(first + 1)])
    arguments = [sys.executable, "-c", BUILD, *map(str, (folder, sample.folder, sample.home))]
    run = subprocess.Popen(arguments, env={**os.environ, "SLOW": "40000"})
    begun = until(lambda: list(sample.home.glob("dbt/*-*/run/**/numbers.sql")), "dbt to add rows", 90)
    time.sleep(2)
    (dbt,) = [each for each in psutil.Process(run.pid).children() if "build" in each.cmdline()]
    over = time.monotonic() + 40
    for each in [run, dbt] if dies == "run and dbt" else [run]:
        each.kill()
    run.wait()
    assert sample.build(instance).success
    until(lambda: not dbt.is_running() or dbt.status() == psutil.STATUS_ZOMBIE, "the end of dbt", 90)
    if dies == "run and dbt":
        time.sleep(max(0, over - time.monotonic()))
    counted = "SELECT order_id, count(*) FROM lake.marts.numbers WHERE order_id >= {} GROUP BY 1 ORDER BY 1"
    assert sample.rows(counted.format(first)) == [(first, 1), (first + 1, 1)]
    assert not any(each.exists() for each in begun), "what the run has left is gone"


@pytest.mark.long
def test_two_builds_at_once_tell_each_batch_once(sample, instance, project):
    """Given two instances of which the second builds a mart while the first is still writing it, when both are done, then one of them at least has added what both have found, it is there once, and the next build has no trouble with it."""
    model = "models/marts/ingest_batches.sql"
    sql = (project_folder() / model).read_text()
    last = "get_json_object(ledger, '$.run_id')"
    slow = "left((select string(max(hash(id))) from range(0, {{ env_var('SLOW', '1') }}L, 1, 1)), 0)"  # a merge cannot sleep
    folder = project({model: sql.replace(last, f"concat({last}, {slow})")})
    sample.append("shop.orders", [order(400)])
    assert sample.build(instance, "marts.ingest_batches").success
    counted = "SELECT count(*), count(DISTINCT snapshot_id) FROM lake.marts.ingest_batches"
    ((batches, _),) = sample.rows(counted)
    sample.append("shop.orders", [order(401)])
    arguments = [sys.executable, "-c", BUILD, *map(str, (folder, sample.folder, sample.home))]
    before = set(sample.home.glob("dbt/*-*"))
    first = subprocess.Popen([*arguments, "marts.ingest_batches"], env={**os.environ, "SLOW": "3000000000"})
    try:
        written = "run/**/ingest_batches.sql"
        until(
            lambda: [
                file for each in set(sample.home.glob("dbt/*-*")) - before for file in each.glob(written)
            ],
            "dbt to add rows",
            90,
        )
        time.sleep(2)
        second = sample.build(instance, "marts.ingest_batches")
    finally:
        first.wait()
    assert second.success or first.returncode == 0
    assert sample.rows(counted) == [(batches + 1, batches + 1)]
    assert sample.build(instance, "marts.ingest_batches").success
