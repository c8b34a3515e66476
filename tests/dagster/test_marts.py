"""The marts in the graph: as dagster-dbt sees them, asked for when the lake has moved, no matter how busy it is."""

import shutil
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster_dbt import build_dbt_asset_specs
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import assets.marts.build
import assets.marts.dbt_session
import tidemark.cli.marts
import tidemark.engine.marts
from assets.marts.build import _built, _followed, _manifest, _parsed_folder
from assets.marts.dbt_session import open_dbt_session
from assets.marts.models import mart_assets, when_upstream_moved
from assets.marts.origins import Built
from assets.marts.translator import MartTranslator
from assets.names import ALLOWED, CORRECTED, ROLE_TAG, table_key
from orchestration.definitions import build_defs
from tidemark.cli.marts import main, parse, text_of
from tidemark.domain.columns.types import STRING, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import NO_TABLE, Outage
from tidemark.domain.lineage.marts import Mart, MartCheck, Project
from tidemark.engine.alive import alive
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import Places
from tidemark.engine.look.corrections import MartStanding
from tidemark.engine.marts import project_folder, read_project

SAMPLE = project_folder().parent / "contracts"


def sample(home):
    return Places(None, SAMPLE, home)


def test_assets_json_is_what_dbt_and_its_translator_say(tmp_path):
    assert text_of(project_folder()) == (project_folder() / "assets.json").read_text()
    specs = {
        each.key: each
        for each in build_dbt_asset_specs(
            manifest=parse(project_folder(), tmp_path), dagster_dbt_translator=MartTranslator()
        )
    }
    graph = build_defs(where=sample(tmp_path)).resolve_asset_graph()
    for mart in read_project().marts:
        spec = specs[table_key(mart.table)]
        assert {dep.asset_key for dep in spec.deps} == graph.get(spec.key).parent_keys
        assert spec.group_name == graph.get(spec.key).group_name


def test_a_description_that_cannot_be_read_keeps_no_table_from_its_runs(tmp_path, monkeypatch, caplog):
    """Given a description that a merge has torn, when the definitions are loaded, as each run does, then the tables are there, the marts are not, and the log names the file."""
    folder = tmp_path / "dbt_project"
    folder.mkdir()
    (folder / "assets.json").write_text("<<<<<<< ours\n")
    monkeypatch.setattr(tidemark.engine.marts, "project_folder", lambda: folder)
    graph = build_defs(where=sample(tmp_path)).resolve_asset_graph()
    groups = {graph.get(each).group_name for each in graph.get_all_asset_keys()}
    assert "shop" in groups
    assert "marts" not in groups
    assert f"the marts are left out: {folder / 'assets.json'}" in caplog.text


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the project to which files are added, and what `python -m tidemark.cli.marts` makes of it."""
    folder = tmp_path / "dbt_project"
    shutil.copytree(project_folder(), folder)
    monkeypatch.setattr(tidemark.cli.marts, "project_folder", lambda: folder)

    def described(files):
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        code = main()
        return code, Project.from_json((folder / "assets.json").read_text())

    return described


NO_MART = "it reads no mart; make it a rule of the table's contract, or read a mart with ref() in tests/"


def test_a_mart_is_known_by_the_name_of_its_table(project, capsys):
    """Given a model with alias and schema, a seed and a snapshot that name no asset key, then their keys are the names of their tables; tests that will never run are named."""
    code, found = project(
        {
            "models/mails.sql": "{{ config(alias='sent', schema='mail', tags=['finance']) }} select email from {{ source('shop', 'orders') }}",
            "models/more.yml": "models: [{name: mails, columns: [{name: email, data_tests: [not_null]}]}]\n"
            "sources: [{name: people, schema: hr, tables: [{name: staff, identifier: persons, meta: {topic: persons},"
            " columns: [{name: id, data_tests: [unique]}]}]}]",
            "seeds/countries.csv": "code\nde\n",
            "snapshots/then.yml": "snapshots: [{name: then, relation: \"ref('mails')\", config: {schema: past, "
            "strategy: check, unique_key: email, check_cols: all}}]",
            "tests/both.sql": "select 1 from {{ ref('mails') }} cross join {{ source('people', 'staff') }}",
        }
    )
    assert code == 0
    upstream = {each.table: each.upstream for each in found.marts}
    new = upstream.keys() - {each.table for each in read_project().marts}
    assert new == {"marts_mail.sent", "marts.countries", "marts_past.then"}
    assert upstream["marts_past.then"] == ("marts_mail.sent",)
    assert found.sources["hr.persons"] == "persons"
    [sent] = [each for each in found.marts if each.table == "marts_mail.sent"]
    [spec] = mart_assets([sent], [], "lake", {}).specs
    assert spec.tags.items() >= {"finance": "", ROLE_TAG: "data"}.items(), "dbt's tags select in Dagster too"
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"warning: {file}: test {name} is no asset check: {how}"
        for file, name, how in (
            ("models/more.yml", "source_unique_people_staff_id", NO_MART),
            (
                "tests/both.sql",
                "both",
                "say whose it is, {{ config(meta={'dagster': {'ref': {'name': 'mails'}}}) }}",
            ),
        )
    ]


def test_a_key_that_is_not_the_name_of_the_table_is_refused(project, capsys):
    """Given an asset key beside an alias, when the project is described, then the model, its key and its table are named, and the file stays as it is."""
    before = read_project()
    code, found = project(
        {
            "models/mails.sql": "{{ config(alias='sent', meta={'dagster': {'asset_key': ['marts', 'mails']}}) }}"
            " select email from {{ source('shop', 'orders') }}"
        }
    )
    assert (code, found) == (1, before)
    said = capsys.readouterr().err
    assert "model.tidemark_marts.mails has the asset key marts/mails, but its table is marts.sent" in said
    assert "Next: leave meta.dagster.asset_key out" in said


def test_the_graph_reads_from_topic_to_mart(tmp_path):
    graph = build_defs(where=sample(tmp_path)).resolve_asset_graph()
    revenue = graph.get(dg.AssetKey(["marts", "daily_revenue"]))
    (orders,) = revenue.parent_keys
    (topic,) = graph.get(orders).parent_keys
    assert [orders.path, topic.path] == [["shop", "orders"], ["kafka", "main", "orders"]]


def test_a_mart_is_asked_for_when_its_table_moved_also_while_an_ingest_run_lingers(tmp_path, instance):
    defs = build_defs(where=sample(tmp_path))
    orders, revenue = table_key("shop.orders"), table_key("marts.daily_revenue")
    selection = dg.AssetSelection.assets(revenue)

    def asked(cursor):
        found = dg.evaluate_automation_conditions(
            defs=defs, instance=instance, cursor=cursor, asset_selection=selection
        )
        return found, found.get_num_requested(revenue)

    first, none = asked(None)
    assert none == 0, "before its source was loaded dbt would fail"
    instance.report_runless_asset_event(dg.AssetMaterialization(orders))
    instance.create_run_for_job(
        defs.resolve_job_def("ingest"), asset_selection={orders}, status=dg.DagsterRunStatus.STARTED
    )
    second, once = asked(first.cursor)
    assert once == 1
    instance.report_runless_asset_event(dg.AssetMaterialization(revenue))
    third, again = asked(second.cursor)
    assert again == 0, "nothing has moved since"
    instance.report_runless_asset_event(dg.AssetMaterialization(orders))
    _, later = asked(third.cursor)
    assert later == 1


@pytest.fixture
def asked(tmp_path, instance):
    """How often the automation asks for a mart, so many seconds after it began to look, a bit after midnight."""
    defs, kept = build_defs(where=sample(tmp_path)), {}
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=9, microsecond=0) - timedelta(days=1)

    def look(seconds, mart="marts.daily_revenue"):
        found = dg.evaluate_automation_conditions(
            defs=defs,
            instance=instance,
            cursor=kept.get("cursor"),
            asset_selection=dg.AssetSelection.groups("marts"),
            evaluation_time=midnight + timedelta(seconds=seconds),
        )
        kept["cursor"] = found.cursor
        return found.get_num_requested(table_key(mart))

    return look


def made(instance, *tables):
    for table in tables:
        instance.report_runless_asset_event(dg.AssetMaterialization(table_key(table)))


def test_a_build_that_came_to_nothing_is_asked_for_again(asked, instance):
    """Given a mart whose build fails, or is killed or ended, when nothing moves any more, then it is asked for again every ten minutes until it is built."""
    asked(0)
    made(instance, "shop.orders")
    assert [asked(at) for at in (30, 60, 570, 600, 630, 1200, 1230)] == [1, 0, 0, 1, 0, 1, 0]
    made(instance, "marts.daily_revenue")
    assert [asked(at) for at in (1260, 1800, 2400)] == [0, 0, 0]


def test_what_moves_while_a_build_runs_is_not_forgotten(asked, instance):
    """Given a table that moves after the build of a mart has read it, when the build is done, then there is one more."""
    asked(0)
    made(instance, "shop.orders")
    assert asked(30) == 1
    made(instance, "shop.orders", "marts.daily_revenue")
    assert [asked(60), asked(90)] == [1, 0]
    made(instance, "shop.orders")
    assert asked(120) == 1
    assert asked(150) == 0
    made(instance, "marts.daily_revenue")
    assert [asked(180), asked(600)] == [0, 0]


def test_a_run_that_loads_a_table_and_then_comes_to_nothing_owes_the_mart(instance):
    """Given one run of a table, another that stops and a mart, as of *Materialize all*, when it ends before the mart, then that is asked for within ten minutes, and no more once it is built."""

    @dg.multi_asset(
        specs=[dg.AssetSpec("loaded", skippable=True), dg.AssetSpec("stops", skippable=True)], can_subset=True
    )
    def ingest(context):
        yield dg.MaterializeResult("loaded")
        if dg.AssetKey("stops") in context.selected_asset_keys:
            raise dg.Failure("stopped", allow_retries=False)

    @dg.asset(deps=["loaded"], automation_condition=when_upstream_moved([]))
    def mart():
        pass

    defs, kept = dg.Definitions([ingest, mart], executor=dg.in_process_executor), {}

    def run(*names):
        job = defs.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(each) for each in names]
        return job.execute_in_process(instance=instance, asset_selection=keys, raise_on_error=False).success

    def asked(minutes):
        found = dg.evaluate_automation_conditions(
            defs=defs,
            instance=instance,
            cursor=kept.get("cursor"),
            asset_selection=dg.AssetSelection.assets("mart"),
            evaluation_time=datetime(2026, 1, 1, 0, 1, tzinfo=UTC) + timedelta(minutes=minutes),
        )
        kept["cursor"] = found.cursor
        return found.get_num_requested(dg.AssetKey("mart"))

    assert run("loaded", "mart")
    asked(0)
    assert run("loaded", "mart")
    assert [asked(1), asked(10)] == [0, 0], "the run has built it"
    assert not run("loaded", "stops", "mart")
    assert [asked(11), asked(20), asked(21), asked(30)] == [0, 1, 0, 1]
    assert run("mart")
    assert [asked(31), asked(40)] == [0, 0]


def test_a_mart_that_is_new_on_tables_that_are_quiet_is_built(asked, instance):
    """Given tables that have results and a mart that was never built, when its automation begins, then it is built without waiting for a table to move."""
    made(instance, "shop.orders")
    assert [asked(0), asked(30)] == [1, 0]


def test_no_mart_is_built_by_itself_on_one_whose_tests_failed(asked, instance):
    """Given marts of which the lower one fails its test, so that dbt skips the upper one, then that is not tried again alone."""
    asked(0)
    made(instance, "web.clicks", "web.last_clicks")
    assert asked(30, "marts.sessions") == 1
    made(instance, "marts.sessions")
    assert asked(60, "marts.visitors") == 1
    for passed, times in ((False, 0), (True, 1)):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(table_key("marts.sessions"), "unique_sessions_session_id", passed=passed)
        )
        assert asked(600 + 600 * times, "marts.visitors") == times


@pytest.mark.parametrize("red", [CORRECTED, ALLOWED, "unique_data_quality"])
def test_what_only_warns_beneath_a_mart_keeps_it_from_nothing(instance, resource, red):
    """Given a mart whose build came to nothing, on one of which Tidemark's own checks or a test that merely warns are red until somebody acts, then it is tried again every ten minutes as any other."""
    lower = Mart(
        table="marts.data_quality",
        model="data_quality",
        unique_id="q",
        upstream=("shop.orders",),
        checks=(
            MartCheck(name="unique_data_quality", unique_id="u", blocking=False),
            MartCheck(name="not_null_data_quality", unique_id="n"),
        ),
    )
    upper = Mart(table="marts.report", model="report", unique_id="r", upstream=(lower.table,))
    orders = Contract(topic="orders", table="shop.orders")
    marts = mart_assets([lower, upper], [orders], "lake", {})
    defs = dg.Definitions([marts, dg.AssetSpec(table_key("shop.orders"))], resources={"lake": resource})
    key, kept = table_key(upper.table), {}

    def asked(minutes):
        found = dg.evaluate_automation_conditions(
            defs=defs,
            instance=instance,
            cursor=kept.get("cursor"),
            asset_selection=dg.AssetSelection.assets(key),
            evaluation_time=datetime(2026, 1, 1, 0, 1, tzinfo=UTC) + timedelta(minutes=minutes),
        )
        kept["cursor"] = found.cursor
        return found.get_num_requested(key)

    made(instance, "shop.orders", lower.table)
    assert asked(0) == 1
    for name, times in ((red, 1), ("not_null_data_quality", 0)):
        failed = dg.AssetCheckEvaluation(table_key(lower.table), name, passed=False)
        instance.report_runless_asset_event(failed)
        assert asked(20 - 10 * times) == times


def test_no_definition_hides_the_tags_of_the_first_build(tmp_path):
    """Given marts that were never built, or of unknown lineage, then their definitions show no columns: Dagster would prefer them, untagged, to those of a build."""
    discovery.update(
        tmp_path, lambda seen: seen.with_described("marts.customers", [{"name": "email", "type": "string"}])
    )
    for spec in build_defs(where=sample(tmp_path)).resolve_all_asset_specs():
        if spec.key.path[0] == "marts":
            assert "dagster/column_schema" not in spec.metadata


def test_words_of_a_schema_are_shown_as_they_are(tmp_path):
    """Given a field whose doc has brackets and stars, when Dagster shows it, which reads Markdown, then none of them is lost."""
    described = [{"name": "note", "type": "string", "doc": "Grows by <one> with *every* order"}]
    discovery.update(tmp_path, lambda seen: seen.with_described("shop.orders", described))
    specs = {each.key: each for each in build_defs(where=sample(tmp_path)).resolve_all_asset_specs()}
    (column,) = specs[table_key("shop.orders")].metadata["dagster/column_schema"].columns
    assert column.description == r"Grows by \<one> with \*every\* order"


def test_a_tag_shows_on_every_column_that_is_made_of_a_tagged_one(tmp_path):
    discovery.update(
        tmp_path,
        lambda seen: seen.with_described(
            "marts.customers", [{"name": "email", "type": "string", "from": [["shop.orders", "email"]]}]
        ).with_described("shop.orders", [{"name": "email", "type": "string"}]),
    )
    specs = {each.key: each for each in build_defs(where=sample(tmp_path)).resolve_all_asset_specs()}
    metadata = specs[table_key("marts.customers")].metadata
    (column,) = metadata["dagster/column_schema"].columns
    assert column.tags == {"pii": ""}
    assert column.constraints.other == ["from shop.orders.email"]
    assert metadata["dagster/column_lineage"].deps_by_column["email"] == [
        dg.TableColumnDep(table_key("shop.orders"), "email")
    ]
    ways = metadata["where_columns_come_from"].value
    assert ways == "- **email** ← `shop.orders.email` ← `topic orders.email`"


def test_a_tagged_column_with_capitals_is_known_in_the_mart_that_renames_it(tmp_path):
    """Given customerEmail, of which dbt tells in lower case, when a mart shows it as lastEmail without leave, then the mart's check fails, and Dagster names both as they are spelled."""
    orders = Contract(topic="orders", table="shop.orders", columns={"customerEmail": {"tags": ["pii"]}})
    mart = Mart(table="marts.last_mail", model="last_mail", unique_id="m", upstream=("shop.orders",))
    discovery.update(
        tmp_path, lambda seen: seen.with_columns("shop.orders", Struct((Field("customerEmail", STRING),)))
    )
    told = {
        "dagster/column_schema": dg.TableSchema([dg.TableColumn("lastEmail", "string")]),
        "dagster/column_lineage": dg.TableColumnLineage(
            {"lastemail": [dg.TableColumnDep(table_key("shop.orders"), "customeremail")]}
        ),
    }
    event = dg.AssetMaterialization(table_key(mart.table), metadata=told)
    sql = "select customerEmail as lastEmail from shop.orders"
    result, allowed = _built(event, Built(sql), tmp_path, [orders], {mart.table: mart})
    assert not allowed.passed
    assert allowed.description == "marts.last_mail.lastEmail carries pii of shop.orders.customerEmail"
    (column,) = result.metadata["dagster/column_schema"].columns
    assert (column.tags, column.constraints.other) == ({"pii": ""}, ["from shop.orders.customerEmail"])
    assert result.metadata["dagster/column_lineage"].deps_by_column == {
        "lastEmail": [dg.TableColumnDep(table_key("shop.orders"), "customerEmail")]
    }


MADE_OF_NOTHING = (
    "select id, count(*) as n, count(distinct *) as m, count(struct(o.*)) as k, o.* from shop.orders as o",
    "with a as (select * except (email), 1 as n from shop.orders) select id, n from a group by id",
    "select id, n from shop.orders as o join (select id, count(*) as n from shop.people) as x using (id)",
    "select 1 as id, 'x' as n union all select id, upper(name) from shop.people",
    "(select 1 as id, 'x' as n) union all (select id, upper(name) from shop.people)",
    "select id, now() as n from shop.orders where id > (select date_add(max(id), 1) from marts.below)",
    "select id, 1 as n from shop.orders where id in (select a from (select abs(id) from shop.people))",
    "select id, 1 as n from shop.orders.snapshots lateral view explode(ids) as id",
    "select id, 1 as n from range(5)",
    "select id, 1 as n from range(5) as r(id)",
    "select id, 1 as n from (select id, email from shop.orders) as o(id, mail)",
    "select id, 1 as n from shop.orders o where id in (select o.id) and id > (select max(id) from shop.people)",
    "select id, 1 as n, (select max(p.id) from shop.people p) as m from shop.orders",
)
UNKNOWN_IF_EMPTY = (
    "select id, upper(email) from shop.orders",
    "select id, emails[0] from shop.orders",
    "select id, (select upper(max(email)) from shop.orders) from shop.people",
    "select id, n from (select id, to_json(struct(o.*)) as n from shop.orders as o)",
    "select id, concat_ws(',', *) as n from (select id, email from shop.orders)",
    "select inline(array(struct(id, email as n))) from shop.orders",
    "select id, n from shop.orders lateral view inline(array(struct(*))) as id, n",
    "select * from shop.people join (select id, upper(email) from shop.orders) using (id)",
    "(select id, upper(email) from shop.orders) union all (select 1 as id, 'x' as n)",
    "select id, (select max(email) from shop.people) as n from shop.orders",
    "select id, 1 as m from shop.orders",  # the mart kept n from before
)
UNKNOWN = (
    "select id, n from shop.people, lateral (select max(email) as n from shop.orders)",
    "select id, o.email as n from shop.people join hr.people as o using (id)",
    "select id, email as n from lake.shop.orders",
    "select id, email as n from orders",
    "select id, readable_metrics as n from shop.orders.files",
    "select id, (select e from (select email as e)) as n from shop.orders",
    "with a as (select id, (select email) as n from shop.orders) select id, n from a",
    "select id, (with c as (select email as e) select e from c) as n from shop.orders",
    "select id, concat(id, (select max(o.email) from shop.people p)) as n from shop.orders o",
    "select id, n from shop.orders, lateral (select email as n)",
    "select id, identifier('email') as n from shop.orders",
    "select id, n from shop.orders as o(id, n)",
    "with o as (select id, email from shop.orders) select id, n from o as a(id, n)",
    "select id, n from",
    "",
)


@pytest.mark.parametrize(
    ("sql", "unknown"),
    [
        *((sql, "") for sql in MADE_OF_NOTHING),
        *((sql, "what n is made of") for sql in UNKNOWN_IF_EMPTY),
        *((sql, "what id, n are made of") for sql in UNKNOWN),
    ],
)
def test_what_nobody_can_tell_the_origin_of_is_not_called_made_of_nothing(tmp_path, sql, unknown):
    """Given a column that dagster-dbt's lineage leaves empty, when the SQL may have brought values into it, then the mart's check warns, and so does that of a mart above."""
    above, mart = (
        Mart(table=f"marts.{name}", model=name, unique_id=name, upstream=upstream)
        for name, upstream in (("above", ("marts.below",)), ("below", ("shop.orders", "shop.people")))
    )
    orders = Contract(topic="orders", table="shop.orders", columns={"email": {"tags": ["pii"]}})

    def built(table, deps):
        told = {
            "dagster/column_schema": dg.TableSchema([dg.TableColumn(name, "string") for name in deps]),
            "dagster/column_lineage": dg.TableColumnLineage(deps),
        }
        event = dg.AssetMaterialization(table_key(table), metadata=told)
        _, allowed = _built(
            event,
            Built(sql if table == mart.table else "select n as z from marts.below"),
            tmp_path,
            [orders],
            marts,
        )
        return allowed

    marts = {each.table: each for each in (mart, above)}
    allowed = built(mart.table, {"id": [dg.TableColumnDep(table_key("shop.orders"), "id")], "n": []})
    assert (allowed.passed, allowed.description or "") == (not unknown, unknown)
    again = built(above.table, {"z": [dg.TableColumnDep(table_key(mart.table), "n")]})
    assert (again.passed, again.description or "") == (not unknown, "what z is made of" if unknown else "")
    assert again.severity == dg.AssetCheckSeverity.WARN


class Builds:
    """Builds of one mart one after the other; each gives the verdict on its tags, and what is known of its columns."""

    def __init__(self, home):
        self.home = home
        self.orders = Contract(topic="orders", table="shop.orders", columns={"email": {"tags": ["pii"]}})
        self.mart = Mart(table="marts.mine", model="mine", unique_id="m", upstream=("shop.orders",))

    def __call__(
        self, *, sql="select id, email as e, 1 as n from shop.orders", anew=False, hooks=False, **deps
    ):
        """`deps`: what dagster-dbt says of each column, as `of_orders` and `of_itself` make it."""
        told = {
            "dagster/column_schema": dg.TableSchema([dg.TableColumn(name, "string") for name in deps]),
            "dagster/column_lineage": dg.TableColumnLineage(deps),
        }
        event = dg.AssetMaterialization(table_key(self.mart.table), metadata=told)
        how = Built(sql, anew=anew, hooks=hooks)
        _, allowed = _built(event, how, self.home, [self.orders], {self.mart.table: self.mart})
        return allowed.description or ""

    def of(self, column):
        known = discovery.read(self.home).columns(self.mart.table)
        return next(each.get("from") for each in known if each["name"] == column)


def of_orders(*columns):
    return [dg.TableColumnDep(table_key("shop.orders"), each) for each in columns]


def of_itself(*columns):
    return [dg.TableColumnDep(table_key("marts.mine"), each) for each in columns]


EXPOSED = "marts.mine.e carries pii of shop.orders.email"


def test_only_a_build_that_makes_a_mart_anew_takes_a_tag_from_it(tmp_path):
    """Given an incremental mart of e-mail addresses whose SQL masks them from now on, when it is built, then the tag stays on the old rows' account until the mart is made anew."""
    build = Builds(tmp_path)
    masked = "select id, '***' as e from shop.orders"
    assert build(anew=True, id=of_orders("id"), e=of_orders("email")) == EXPOSED
    assert build(sql=masked, id=of_orders("id"), e=[]) == EXPOSED
    assert build(sql="select id from shop.orders", id=of_orders("id"), e=[]) == EXPOSED, "it keeps the column"
    assert build(sql=masked, anew=True, id=of_orders("id"), e=[]) == ""


def test_a_column_that_a_mart_reads_of_itself_is_made_of_what_that_was_made_of(tmp_path):
    """Given a mart that reads itself from its second build on, then its columns have the tags of those that they are made of, also where these are others."""
    build = Builds(tmp_path)
    assert build(anew=True, id=of_orders("id"), n=of_orders("email"), e=[]) != ""
    sql = "select s.id, t.n as e, s.id as n from shop.orders s join marts.mine t on s.id = t.id"
    assert EXPOSED in build(sql=sql, id=of_orders("id"), n=of_orders("id"), e=of_itself("n"))
    assert build.of("n") == [["shop.orders", "email"], ["shop.orders", "id"]]


def test_what_a_mart_reads_of_itself_is_unknown_where_nothing_is_remembered(tmp_path):
    """Given a discovery file that is lost, when a mart that reads itself is built, then the columns that it takes from there are of unknown origin until it is made anew."""
    build = Builds(tmp_path)
    sql = "select s.id, t.e from shop.orders s join marts.mine t on s.id = t.id"
    assert build(sql=sql, id=of_orders("id"), e=of_itself("e")) == "what e is made of"
    assert build(id=of_orders("id"), e=of_orders("id")) == "what e is made of"
    assert build(anew=True, id=of_orders("id"), e=of_orders("id")) == ""


def test_a_build_that_tells_no_columns_has_not_shown_what_they_are_made_of(tmp_path):
    """Given a mart without tagged columns, when dagster-dbt cannot fetch its columns after a build, then the check warns, for it may carry anything by now, until the mart is made anew."""
    build = Builds(tmp_path)
    assert build(anew=True, id=of_orders("id"), n=[]) == ""
    event = dg.AssetMaterialization(table_key(build.mart.table))
    _, allowed = _built(event, Built("select 1"), tmp_path, [build.orders], {build.mart.table: build.mart})
    assert (allowed.passed, allowed.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert allowed.description == "what id, n are made of"
    assert build(id=of_orders("id"), n=[]) == "what id, n are made of"
    assert build(anew=True, id=of_orders("id"), n=[]) == ""


def test_a_mart_with_hooks_has_not_shown_what_it_is_made_of(tmp_path):
    """Given a hook, which may write anything into any column, then nobody can tell what they are made of."""
    build = Builds(tmp_path)
    assert build(anew=True, hooks=True, id=of_orders("id"), n=[]) == "what id, n are made of"


def test_a_star_is_not_taken_for_the_name_of_a_column(tmp_path):
    """Given a star within a function, of which dagster-dbt makes a column of that name, then it is not known what that column is made of."""
    orders = Contract(topic="orders", table="shop.orders", columns={"email": {"tags": ["pii"]}})
    mart = Mart(table="marts.all", model="all", unique_id="m", upstream=("shop.orders",))
    told = {
        "dagster/column_schema": dg.TableSchema([dg.TableColumn("j", "string")]),
        "dagster/column_lineage": dg.TableColumnLineage(
            {"j": [dg.TableColumnDep(table_key("shop.orders"), "*")]}
        ),
    }
    event = dg.AssetMaterialization(table_key(mart.table), metadata=told)
    _, allowed = _built(
        event, Built("select concat_ws(',', *) as j from shop.orders"), tmp_path, [orders], {mart.table: mart}
    )
    assert not allowed.passed


def test_a_seed_is_made_of_no_table(tmp_path):
    """Given a seed, of which dagster-dbt tells no lineage, then its columns are made of nothing."""
    mart = Mart(table="marts.countries", model="countries", unique_id="seed.p.countries", upstream=())
    told = {"dagster/column_schema": dg.TableSchema([dg.TableColumn("code", "string")])}
    event = dg.AssetMaterialization(table_key(mart.table), metadata=told)
    _, allowed = _built(event, Built(""), tmp_path, [], {mart.table: mart})
    assert allowed.passed


def test_a_check_that_is_run_by_itself_is_judged(tmp_path, instance):
    """Given the button beside the check of a mart's tags, when it is clicked, then it is evaluated by what is known of the mart's columns."""
    email = {
        "name": "email",
        "type": "string",
        "doc": "",
        "required": False,
        "from": [["shop.orders", "email"]],
    }
    key = dg.AssetCheckKey(table_key("marts.sessions"), ALLOWED)
    job = build_defs(where=sample(tmp_path)).resolve_job_def("__ASSET_JOB")
    alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
    for columns, passed in ([email], False), ([{**email, "from": [["web.clicks", "page"]]}], True):
        discovery.update(
            tmp_path, lambda seen, columns=columns: seen.with_described("marts.sessions", columns)
        )
        [judged] = alone.execute_in_process(instance=instance).get_asset_check_evaluations()
        assert (judged.asset_check_key, judged.passed) == (key, passed)


def test_marts_of_tables_that_are_not_there_are_left_out_by_name(tmp_path, instance, capfd):
    """Given tables that no run has made yet, when their marts are materialized with all else, then the run is green and names them."""
    platform = tmp_path / "platform.yaml"
    platform.write_text(
        "kafka: {main: {bootstrap.servers: '127.0.0.1:1'}}\nschema_registry: {main: {url: 'http://127.0.0.1:1'}}\nspark: {remote: 'sc://127.0.0.1:1'}\n"
        f"catalog: {{name: lake, type: sql, uri: 'sqlite:///{tmp_path}/c.db', warehouse: 'file://{tmp_path}/w'}}\n"
    )
    job = build_defs(where=Places(platform, SAMPLE, tmp_path / "home")).resolve_job_def("marts")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert result.success
    assert [e for e in result.all_events if e.is_step_materialization] == []
    assert (
        "marts.visitors is not built: there is no table web.clicks, web.last_clicks" in capfd.readouterr().err
    )


def test_a_mart_that_is_built_has_its_check_also_where_its_note_meets_a_conflict(capfd):
    """Given a commit conflict when it is noted what a mart is made of, then the build goes on to the next one."""
    catalog = InMemoryCatalog("lake")
    catalog.create_namespace("marts")
    catalog.create_table("marts.customers", Schema(NestedField(1, "id", LongType())))

    def sql(_statement):
        raise RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: the table has changed")

    lake = SimpleNamespace(
        catalog=catalog, spark=lambda: SimpleNamespace(sql=sql), identifier=lambda table: table
    )
    standing = MartStanding(heads={"shop.orders": "u/1"})
    with dg.build_asset_context() as context:
        found = _followed(context, lake, "marts.customers", standing)
    assert (found.check_name, found.passed) == (CORRECTED, True)
    assert "marts.customers: what it is made of could not be noted on it" in capfd.readouterr().err


def test_of_what_runs_have_for_dbt_only_that_of_the_dead_is_ended(tmp_path, monkeypatch):
    """Given what dbt had in a run that died and has in one that lives, when a build begins, then the session and the folder of the first are gone; where Spark is gone at the end of its own, the next build is told."""
    ended, gone = [], []

    def end(address, session_id):
        ended.append((address, session_id))
        if gone:
            raise Outage("spark_down", NO_TABLE, "gone")

    begun = []
    monkeypatch.setattr(assets.marts.dbt_session, "end_session", end)
    monkeypatch.setattr(assets.marts.dbt_session, "begin_session", lambda *where: begun.append(where))
    address = "sc://spark:1/;token=t"
    platform, later = (
        SimpleNamespace(spark=SimpleNamespace(address=each)) for each in (address, "sc://spark:1")
    )
    left = {name: tmp_path / "dbt" / name for name in ("run-dead", "run-unbegun", "run-alive", "0f1e")}
    for name, folder in left.items():
        folder.mkdir(parents=True)
        if name != "run-unbegun":
            (folder / "session").write_text(f"session of {name}")
    with alive(tmp_path, "run-alive"):
        with open_dbt_session("run-own", tmp_path, platform, ended.append) as own:
            assert ended == [
                (address, "session of run-dead"),
                "ended what dbt was doing for run run-dead, which died",
            ]
            assert [each for each in left if left[each].exists()] == ["run-alive", "0f1e"]
            assert own.remote.startswith(f"{address};session_id=")
            gone.append("spark")
        session_id = (own.target / "session").read_text()
        assert ended[2:] == [(address, session_id)]
        assert begun == [(address, session_id, platform)]
        gone.clear()
        with open_dbt_session("run-next", tmp_path, later, ended.append) as following:
            assert ("sc://spark:1", session_id) in ended
            assert following.remote.startswith("sc://spark:1/;session_id=")
            assert not own.target.exists()
    assert not following.target.exists()


def test_what_another_dbt_has_parsed_is_parsed_anew_and_removed(tmp_path, monkeypatch):
    """Given what dbt keeps of a parse, which it refuses after an upgrade, when another dbt lies in the same place, then it parses once into a folder of its own, and those of before are gone; of runs and of others none is."""
    parses = []

    def cli(arguments, target_path):
        target_path.mkdir(parents=True)
        for name in ("manifest.json", "partial_parse.msgpack"):
            (target_path / name).write_text("{}")
        parses.append(arguments)
        return SimpleNamespace(wait=lambda: None)

    dbt = SimpleNamespace(cli=cli)
    first = _parsed_folder(tmp_path)
    for _ in range(2):
        _manifest(dbt, first)
    others = [tmp_path / "dbt" / name for name in ("0f1e2d3c-run", "notes", f"{'ab' * 12}.new")]
    for folder in others:
        folder.mkdir()
    monkeypatch.setattr(assets.marts.build, "DBT_PYTHON_VERSION", "99.0.0")
    second = _parsed_folder(tmp_path)
    assert _manifest(dbt, second).is_file()
    assert parses == [["parse"]] * 2
    assert sorted((tmp_path / "dbt").iterdir()) == sorted([second, *others[:2]])
