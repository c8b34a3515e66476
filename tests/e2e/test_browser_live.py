"""A person before Dagster's UI, on real services: every click, word and figure is followed into the table and back.

Section by section what tests/dagster/test_browser.py looks at over seeded events. Every look is kept as a screenshot.
"""

import json
import re

import httpx
import pytest
from browser import open_page, screenshots
from dagster import AssetKey, DagsterInstance, DagsterRunStatus
from lakehouse import Table
from topics import Topic
from waiting import until

from orchestration.instance import prepare_dagster_home
from tidemark.cli.dagster_services import DagsterServices
from tidemark.engine.config.configuration import Places

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "web",
    "fields": [
        {"name": "visitor", "type": "string", "doc": "Stays the same for a year"},
        {"name": "page", "type": "string"},
        {"name": "clicked_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
DEVICE = {"name": "device", "type": ["null", "string"], "default": None}
CONTRACT = {
    "topic": "clicks",
    "table": "web.clicks",
    "owners": {"data": "team:web", "stream": "team:messaging"},
    "target_lag": "1h",  # nothing but a click loads it
    "key": {"format": "string", "fields": ["visitor"]},
    "columns": {"visitor": {"tags": ["pii"], "description": "Who clicked", "allow": ["marts.sessions"]}},
    "upsert": {"table": "web.last_clicks", "keys": ["visitor"], "target_lag": "1h"},
    "schema_changes": {"add_column": "review"},
    "quarantine": {"warn": 0.01, "fail": 0.5},
}
TABLES = ("web.clicks", "web.clicks_quarantine", "web.last_clicks", "marts.sessions", "marts.visitors")
PATIENCE = 600
NOON = 1_767_268_800_000


class Person:
    """Somebody with a browser: looks, reads, clicks, and waits until what was clicked has ended."""

    def __init__(self, page, url, instance):
        self.page, self.url, self.instance = page, url, instance
        page.set_default_timeout(PATIENCE * 1000)

    def look(self, name, path, *texts):
        """Open a page, find the words on it, keep what it looked like."""
        self.page.goto(self.url + path)
        for text in texts:
            self.page.get_by_text(text).first.wait_for()
        self.keep(name)

    def keep(self, name):
        self.page.wait_for_timeout(700)  # plots and transitions
        self.page.screenshot(path=screenshots() / f"live-{name}.png")

    def figure(self, key):
        """The value beside a key in the table of metadata."""
        row = self.page.locator("tr", has=self.page.get_by_text(key, exact=True)).first
        return row.locator("td").last.inner_text()

    def materialize(self, *key):
        """A click on the asset's button; the run when it has ended."""
        known = {each.run_id for each in self.instance.get_runs()}
        self.page.goto(f"{self.url}/assets/{'/'.join(key)}")
        self.page.locator("button:has-text('Materialize'):not([disabled])").first.click()
        self.page.get_by_text("Launched run").first.wait_for()
        return self._ended(known, lambda run: AssetKey(key) in (run.asset_selection or ()))

    def launch(self, job, **config):
        """Fill in the launchpad of a job and click; the run when it has ended."""
        known = {each.run_id for each in self.instance.get_runs()}
        self.page.goto(f"{self.url}/locations/tidemark/jobs/{job}/playground")
        self.page.locator(".CodeMirror").first.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(json.dumps({"ops": {f"{job}_table": {"config": config}}}))
        button = self.page.locator("button:has-text('Launch Run'):not([disabled])").first
        button.wait_for()
        self.keep(f"{job}-filled-in")
        button.click()
        self.page.wait_for_url("**/runs/**")
        return self._ended(known, lambda run: run.job_name == job)

    def _ended(self, known, mine):
        def found():
            new = [each for each in self.instance.get_runs() if each.run_id not in known and mine(each)]
            return next((each for each in new if each.is_finished), None)

        return until(found, "the run to end", PATIENCE)


@pytest.fixture
def clicks(lakehouse):
    """Topic and contract of the sample marts, as if nobody had ever used them."""
    cluster, topic = lakehouse.cluster, Topic(lakehouse.cluster, "clicks", CLICK)
    if topic.name in cluster.admin.list_topics(timeout=30).topics:
        topic.delete()
    for how in ("", "?permanent=true"):  # else the registry would list the versions of an earlier test
        httpx.delete(f"{cluster.registry_url}/subjects/clicks-value{how}", timeout=30, trust_env=False)
    for table in TABLES:
        lakehouse.spark().sql(f"DROP TABLE IF EXISTS {table} PURGE")
    topic.create(1)
    topic.use(CLICK)
    (lakehouse.contracts / "clicks.yaml").write_text(json.dumps(CONTRACT), encoding="utf-8")
    table = Table(lakehouse, topic, "web.clicks")
    table.run()  # made while the topic is empty: a first load would not wait for a person
    return table


@pytest.fixture
def person(clicks, tmp_path, monkeypatch):
    lakehouse = clicks.lakehouse
    monkeypatch.setenv("TIDEMARK_HOME", str(lakehouse.home))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(lakehouse.contracts))
    home = prepare_dagster_home(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    services = DagsterServices(Places(None, lakehouse.contracts, lakehouse.home))
    try:
        services.up()
        with DagsterInstance.from_config(str(home)) as instance, open_page() as page:
            yield Person(page, services.url, instance)
    finally:
        services.down()


def send(topic, numbers, **more):
    topic.send_raw(
        (f"v{n % 7}".encode(), topic.encode({"visitor": f"v{n % 7}", "page": f"/{n % 3}", "clicked_at": NOON + n, **more}), 0)
        for n in numbers
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_person_loads_follows_approves_and_reads_what_to_do(person, clicks):
    """Given a topic that nobody has read, when a person works through Dagster's UI alone, then each page tells what is true of the tables."""
    send(clicks.topic, range(40))
    clicks.topic.send_raw([(b"v1", b"this is no click", 0)])
    loads_by_click(person, clicks)
    marts_follow(person, clicks)
    reads_where_columns_come_from(person)
    reads_why_checks_failed(person)
    approves_a_change(person, clicks)
    reads_what_a_stop_needs(person, clicks)


def loads_by_click(person, clicks):
    """The graph, then a click: the figures on the page are those of the table."""
    person.look(
        "graph",
        "/locations/tidemark/asset-groups/web/lineage",
        "clicks_quarantine",
        "last_clicks",
        "sessions",
    )
    assert person.materialize("web", "clicks").status == DagsterRunStatus.SUCCESS
    person.look("loaded", "/assets/web/clicks", "rows_written")
    assert (person.figure("rows_written"), person.figure("rows_quarantined")) == ("40", "1")
    assert (clicks.iceberg().scan().count(), clicks.causes()) == (40, {"no_magic_byte": 1})


def marts_follow(person, clicks):
    """The upsert table by a click; the marts by nobody's."""
    assert person.materialize("web", "last_clicks").status == DagsterRunStatus.SUCCESS
    person.look("last_clicks", "/assets/web/last_clicks", "rows_inserted")
    assert clicks.lakehouse.catalog.load_table("web.last_clicks").scan().count() == 7
    mart = AssetKey(["marts", "visitors"])
    until(
        lambda: person.instance.get_latest_materialization_event(mart),
        "automation to build the mart",
        PATIENCE,
    )
    rows = clicks.lakehouse.catalog.load_table("marts.visitors").scan().to_arrow().to_pylist()
    assert {each["visitor"]: each["clicks"] for each in rows} == {
        f"v{n}": 6 if n < 5 else 5 for n in range(7)
    }


def reads_where_columns_come_from(person):
    """From the field of the topic to the mart, with words and tags on the way."""
    person.look("columns-append", "/assets/web/clicks", "from topic clicks.visitor", "Who clicked", "pii")
    person.look("columns-upsert", "/assets/web/last_clicks", "from web.clicks.visitor", "pii")
    person.look(
        "columns-mart",
        "/assets/marts/visitors",
        "from web.last_clicks.visitor",
        "pii",
        "where_columns_come_from",
    )
    way = person.page.get_by_text("where_columns_come_from").first
    way.scroll_into_view_if_needed()
    person.keep("column-lineage")
    told = " ".join(person.figure("where_columns_come_from").split())
    assert "visitor ← web.last_clicks.visitor ← web.clicks.visitor ← topic clicks.visitor" in told


def reads_why_checks_failed(person):
    """A rate of bad records, and a mart that carries what it may not."""
    person.look(
        "check-quarantine", "/assets/web/clicks?view=checks&checkDetail=quarantine_rate",
        "1 of 41 records could not enter: no_magic_byte 1", "tidemark status web.clicks --quarantine",
    )  # fmt: skip
    person.look(
        "check-tags", "/assets/marts/visitors?view=checks&checkDetail=tagged_columns_are_allowed",
        "marts.visitors.visitor carries pii of web.clicks.visitor", "columns.<name>.allow",
    )  # fmt: skip


def approves_a_change(person, clicks):
    """A column that waits: seen on the check, let through from the launchpad, there with the next click."""
    clicks.topic.use({**CLICK, "fields": [*CLICK["fields"], DEVICE]})
    send(clicks.topic, range(40, 60), device="phone")
    assert person.materialize("schema", "web", "clicks").status == DagsterRunStatus.SUCCESS
    person.look(
        "review",
        "/assets/schema/web/clicks?view=checks&checkDetail=schema_review",
        "tidemark approve web.clicks",
    )
    said = person.page.get_by_text(re.compile(r"tidemark approve web\.clicks [0-9a-f]+")).first.inner_text()
    plan = re.search(r"approve web\.clicks ([0-9a-f]+)", said)[1]
    assert "device" not in clicks.iceberg().schema().column_names
    why = "the shop may tell phones apart"
    approved = person.launch("approve", table="web.clicks", plan=plan, by="team:web", reason=why)
    assert approved.status == DagsterRunStatus.SUCCESS
    person.look("approved", f"/runs/{approved.run_id}", "RUN_SUCCESS")
    assert "device" in clicks.iceberg().schema().column_names
    assert person.materialize("web", "clicks").status == DagsterRunStatus.SUCCESS
    assert clicks.iceberg().scan("device = 'phone'").count() == 20
    person.look("plots", "/assets/web/clicks", "rows_written")
    person.page.get_by_text("Plots", exact=True).first.click()
    person.page.locator("canvas").first.wait_for()
    person.keep("plots")


def reads_what_a_stop_needs(person, clicks):
    """Records that Kafka deleted unread: what happened, what is safe, and the line that resolves it."""
    send(clicks.topic, range(60, 80), device="phone")
    clicks.topic.delete_records({0: 70})
    stopped = person.materialize("web", "clicks")
    assert stopped.status == DagsterRunStatus.FAILURE
    person.look(
        "stopped", f"/runs/{stopped.run_id}", "what comes after it is still in Kafka",
        "tidemark accept web.clicks --record-gap",
    )  # fmt: skip
    accepted = person.launch("accept", table="web.clicks", action="record-gap", by="team:web", reason="known")
    assert accepted.status == DagsterRunStatus.SUCCESS
    assert person.materialize("web", "clicks").status == DagsterRunStatus.SUCCESS
    person.look("resolved", "/assets/web/clicks", "rows_written")
    assert clicks.iceberg().scan().count() == 60 + 11, (
        "by this click, or the sensor's run that saw the gap accepted"
    )
    person.page.get_by_text("from topic clicks.device").first.wait_for()
