"""Dagster's UI in a real browser over the real definitions: what a person sees, reads and may launch.

What runs have reported comes from the shell's own functions; the services themselves are not up. Every look is kept
as a screenshot (tests/support/browser.py).
"""

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from browser import open_page, screenshots
from commits import one_commit
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.sensor_definition import SensorType
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    ScheduleInstigatorData,
    SensorInstigatorData,
)

import assets.runs.lane
from assets.checks.ingest import evaluations
from assets.names import table_key
from assets.runs.report import failure, quarantine_landed, result
from assets.runs.schema import _review
from orchestration.definitions import build_defs
from orchestration.instance import prepare_dagster_home
from tidemark.cli.dagster_services import DagsterServices
from tidemark.domain.columns.types import LONG, STRING, Field, Struct
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.outcome import Outcome
from tidemark.domain.plan.schema_plan import Change, SchemaPlan
from tidemark.engine.access.table_state import TableState
from tidemark.engine.config import discovery
from tidemark.engine.schema.evolve import Evolution

NOW = datetime.now(UTC)
COLUMNS = Struct((Field("id", LONG, "Grows by one"), Field("customer", STRING)))
GAP = Stopped("offsets_expired", "shop.orders", "partition 0: 10 to 19", topic="orders", cluster="main")
CLASH = Change("incompatible", ("amount",), "decimal(10,2)", "string", "review", "text is no decimal", 9)


def seed(instance, contract):
    """Three runs that read, one poison record, a parked change, and a run that stopped."""
    for number in range(3):
        bad = int(number == 1)
        outcome = Outcome(
            "shop.orders", "fresh", 1, Counts(20, 20 - bad, bad), {0: 20 * number}, {0: 20 * number + 20}, 2**60,
            1.5, stages={"stage": 0.4 + number / 10}, last=one_commit(at=NOW + timedelta(seconds=number)),
            table_clock=NOW,
        )  # fmt: skip
        told = result(contract, outcome, TableState("shop.orders", exists=True, rows=60), COLUMNS)
        instance.report_runless_asset_event(dg.AssetMaterialization(told.asset_key, metadata=told.metadata))
        for each in evaluations(contract, outcome):
            instance.report_runless_asset_event(each)
        if bad:
            instance.report_runless_asset_event(quarantine_landed(contract, outcome))
    flood = {"read": 20, "causes": {"undecodable": 12}, "rules": []}
    flooded = Outcome("shop.orders", "quarantine_flood", error=flood)
    for each in evaluations(contract, flooded):
        instance.report_runless_asset_event(each)
    review = _review(contract, Evolution(SchemaPlan("shop.orders", (CLASH,)), ()))
    instance.report_runless_asset_event(review)


def stop_what_starts_runs(instance, defs):
    """A schedule that comes due during the test, or marts that are, would put "In Progress" over what was seeded."""
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("tidemark"), "__repository__")
    stopped = [
        (each.name, InstigatorType.SCHEDULE, ScheduleInstigatorData(each.cron_schedule))
        for each in defs.schedules
    ]
    automation = SensorInstigatorData(sensor_type=SensorType.AUTOMATION)
    for name, kind, data in [*stopped, ("marts_upstream", InstigatorType.SENSOR, automation)]:
        origin = repository.get_instigator_origin(name)
        instance.add_instigator_state(InstigatorState(origin, kind, InstigatorStatus.STOPPED, data))


def stopped(*_args, **_how):
    outcome = Outcome("shop.orders", GAP.state, error=GAP.as_json())
    raise failure([outcome])
    yield


@pytest.fixture
def ui(where, monkeypatch):
    """(url, id of the run that stopped) of a webserver over what was seeded, from a folder with names of Python's."""
    for name, value in {
        "CONFIG": where.platform_file,
        "CONTRACTS": where.contracts_dir,
        "HOME": where.home,
    }.items():
        monkeypatch.setenv(f"TIDEMARK_{name}", str(value))
    home = prepare_dagster_home(where.home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    discovery.update(where.home, lambda seen: seen.with_columns("shop.orders", COLUMNS))
    defs = build_defs(where=where)
    monkeypatch.setattr(assets.runs.lane, "run_tables", stopped)
    with DagsterInstance.from_config(str(home)) as instance:
        failed = defs.resolve_job_def("ingest").execute_in_process(
            instance=instance, asset_selection=[table_key("shop.orders")], raise_on_error=False
        )
        seed(instance, defs.resources["lake"].configuration.contract("shop.orders"))
        stop_what_starts_runs(instance, defs)
    folder = where.home.with_name("project")
    folder.mkdir()
    (folder / "secrets.py").write_text("raise SystemExit('not the one of Python')")
    monkeypatch.chdir(folder)
    services = DagsterServices(where)
    heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts background jobs of a script
    try:
        services.up()
        assert not any(ignores_interrupts(each.pid) for each in services.processes())
        yield services.url, failed.run_id
    finally:
        services.down()
        signal.signal(signal.SIGINT, heeded)


def ignores_interrupts(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    (ignored,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored, 16) & 1 << signal.SIGINT - 1)


def test_a_person_finds_graph_figures_reasons_and_what_to_do_next(ui):
    """Given a table with a poison record, a parked change and a stop, then each page says what happened and what comes next."""
    url, failed = ui
    with open_page() as page:

        def look(name, path, *texts):
            page.goto(url + path)
            for text in texts:
                page.get_by_text(text).first.wait_for()
            page.wait_for_timeout(500)  # plots and transitions
            page.screenshot(path=screenshots() / f"dagster-{name}.png")

        look("graph", "/locations/tidemark/asset-groups/shop/lineage", "orders_quarantine", "Passed")
        look("table", "/assets/shop/orders", "rows_written", "Grows by one", "pii")
        page.get_by_text("Plots", exact=True).first.click()
        page.locator("canvas").first.wait_for()
        page.screenshot(path=screenshots() / "dagster-plots.png")
        look("lineage", "/assets/shop/orders?view=lineage", "orders_quarantine", "daily_revenue")
        look(
            "check",
            "/assets/shop/orders?view=checks&checkDetail=quarantine_rate",
            "12 of 20 records could not enter: undecodable 12",
            "warns above",
            "tidemark accept shop.orders --quarantine-batch",
        )
        look(
            "review", "/assets/schema/shop/orders?view=checks&checkDetail=schema_review", "text is no decimal",
            "tidemark approve shop.orders",
        )  # fmt: skip
        look(
            "stopped",
            f"/runs/{failed}",
            "what comes after it is still in Kafka",
            "tidemark accept shop.orders --record-gap",
        )
        for verb, said in {"approve": {"plan": "p"}, "accept": {"action": "record-gap"}}.items():
            look(f"{verb}-empty", f"/locations/tidemark/jobs/{verb}/playground", "Launch Run")
            config = {
                "ops": {f"{verb}_table": {"config": {"table": "shop.orders", "by": "team:orders", **said}}}
            }
            page.evaluate(
                "text => document.querySelector('.CodeMirror').CodeMirror.setValue(text)",
                json.dumps(config, indent=1),
            )
            page.locator("button:has-text('Launch Run'):not([disabled])").wait_for()
            page.screenshot(path=screenshots() / f"dagster-{verb}.png")


@pytest.mark.long
def test_a_click_on_materialize_ends_in_words_that_help(ui):
    """Given services that are down, when a person clicks Materialize, then the run says what happened, what is safe and what to do."""
    url, _ = ui
    with open_page() as page:
        page.goto(f"{url}/assets/web/clicks")
        page.locator("button:has-text('Materialize'):not([disabled])").first.click()
        page.get_by_text("Launched run").first.wait_for()
        page.goto(f"{url}/runs")
        page.locator("a[href*='/runs/']:not([href$='/runs/'])").first.click()
        page.get_by_text("What was not published stays in Kafka").first.wait_for(timeout=120_000)
        page.get_by_text("bring it back; the next run continues").first.wait_for()
        page.screenshot(path=screenshots() / "dagster-clicked.png")
