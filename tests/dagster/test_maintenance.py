"""Rules of the maintenance assets: plain numbers for what was done, silence in the database for what was not."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

import tidemark.review.collect
from assets.checks.files_run import judge_files
from assets.names import HEALTH, MAINTENANCE_POOL, maintenance_key, table_key
from assets.review import FOLDER, KEY
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.maintenance.gain import KINDS, Gain
from tidemark.engine.maintain import maintain as maintain_module
from tidemark.engine.maintain.health import Health
from tidemark.engine.maintain.maintain import UNREACHED
from tidemark.engine.table.operations import Operation

COMPACTION = dg.AssetKey(["maintenance", "shop", "orders", "compaction"])


@pytest.fixture
def broken():
    """Contracts of which a companion cannot be maintained."""
    return set()


@pytest.fixture
def found(monkeypatch, broken):
    """What the engine was asked for, by (table, kind)."""
    asked = []

    def maintain(_lake, contract, kinds, **_):
        for kind in kinds:
            asked.append((contract.table, kind))
            busy = contract.table == "shop.orders"
            yield Gain(contract.table, kind, acted=busy, reason="because", numbers={"files_before": 9.0})
            if contract.table in broken:
                aside = contract.quarantine_table
                yield Gain(aside, kind, acted=False, reason="x", error={"kind": "Outage"})

    monkeypatch.setattr("assets.runs.maintenance.maintain", maintain)
    monkeypatch.setattr("assets.runs.maintenance.relieve", lambda *_: iter(()))
    return asked


def run(defs, instance, job, **how):
    return defs.resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False, **how)


def test_a_scheduled_run_reports_what_was_done_and_only_that(defs, instance, lake, found):
    """Given tables of which one has work, when the schedule runs, then that one has a result."""
    result = run(defs, instance, "compaction", tags={"dagster/schedule_name": "compaction"})
    (made,) = result.asset_materializations_for_node("maintain_compaction")
    assert made.asset_key == COMPACTION
    assert made.metadata["files_before"].value == 9.0
    assert made.metadata["compaction"].value == "because"
    assert {table for table, _ in found} == {"shop.audit", "shop.orders", "web.clicks"}


def test_a_table_that_cannot_be_maintained_shows_no_other_as_failed(defs, instance, lake, found, broken):
    """Given three tables, one with work, one with nothing to do, one that cannot be reached, when the schedule runs, then the first two have results, and the failure names the third."""
    broken.add("web.clicks")
    result = run(defs, instance, "compaction", tags={"dagster/schedule_name": "compaction"})
    assert not result.success
    (failed,) = [each for each in result.all_events if each.is_step_failure]
    assert list(failed.step_failure_data.user_failure_data.metadata) == ["web.clicks_quarantine"]
    made = result.asset_materializations_for_node("maintain_compaction")
    assert {".".join(each.asset_key.path[1:-1]) for each in made} == {"shop.orders", "shop.audit"}


def test_only_the_schedule_of_compaction_relieves_tables_full_of_snapshots(
    defs, instance, lake, found, monkeypatch
):
    """Given a table with too many, when compaction is clicked, then no snapshot goes; when it is scheduled, the same asset says what went."""

    def relieve(_lake, contract):
        if contract.table == "shop.orders":
            yield Gain(contract.table, "snapshot_expiry", acted=True, reason="9", numbers={"seconds": 5.0})

    monkeypatch.setattr("assets.runs.maintenance.relieve", relieve)

    def shown(**how):
        result = run(defs, instance, "compaction", **how)
        (made,) = result.asset_materializations_for_node("maintain_compaction")
        return {name: value.value for name, value in made.metadata.items() if "expiry" in name}

    assert shown(asset_selection=[COMPACTION]) == {}
    scheduled = shown(tags={"dagster/schedule_name": "compaction"})
    assert scheduled == {"snapshot_expiry": "9", "snapshot_expiry: seconds": 5.0}


def test_maintenance_keeps_no_lane_waiting_for_more_than_two_minutes(defs, instance, lake, monkeypatch):
    """Given tables that take half a minute each, when a run fills a table and maintains all, then each kind has its share of two minutes, and what is not reached has no result and is not red; a run of maintenance alone takes its time."""
    clock, orders = count(step=30), table_key("shop.orders")
    now = SimpleNamespace(monotonic=lambda: next(clock))

    def maintain(_lake, contract, kinds, *, until):
        late = now.monotonic() > until
        yield Gain(contract.table, kinds[0], acted=False, reason=UNREACHED if late else "because")

    def maintained(*filled):
        keys = {maintenance_key(each.table, kind) for each in lake.configuration.contracts for kind in KINDS}
        job = defs.resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(asset_selection={*keys, *filled}, asset_check_selection=set())
        result = chosen.execute_in_process(instance=instance)
        return {kind: len(result.asset_materializations_for_node(f"maintain_{kind}")) for kind in KINDS}

    monkeypatch.setattr("assets.runs.maintenance.maintain", maintain)
    monkeypatch.setattr("assets.runs.maintenance.time", now)
    monkeypatch.setattr("assets.runs.lane.run_tables", lambda *_: iter([dg.MaterializeResult(orders)]))
    assert maintained() == dict.fromkeys(KINDS, 3)
    assert maintained(orders) == dict.fromkeys(KINDS, 1)


def test_a_click_always_gets_an_answer(defs, instance, lake, found):
    result = run(defs, instance, "compaction", asset_selection=[COMPACTION])
    assert result.success
    assert [m.asset_key for m in result.asset_materializations_for_node("maintain_compaction")] == [
        COMPACTION
    ]


def test_retention_and_expiry_keep_their_own_numbers_and_show_their_plans(defs, instance, lake, monkeypatch):
    def maintain(_lake, contract, _kinds, **_):
        rows = {"rows_deleted": 13.0, "seconds": 2.0, "conflicts": 1.0}
        yield Gain(contract.table, "retention", acted=True, reason="old", numbers=rows)
        numbers, plan = {"seconds": 5.0, "conflicts": 0.0}, {"expired": ["7"]}
        yield Gain(contract.table, "snapshot_expiry", acted=True, reason="3", numbers=numbers, plan=plan)
        yield Gain(
            contract.quarantine_table, "snapshot_expiry", acted=True, reason="1", numbers=numbers, plan=plan
        )

    monkeypatch.setattr("assets.runs.maintenance.maintain", maintain)
    key = dg.AssetKey(["maintenance", "shop", "orders", "snapshot_expiry"])
    result = run(defs, instance, "snapshot_expiry", asset_selection=[key])
    (made,) = result.asset_materializations_for_node("maintain_snapshot_expiry")
    shown = {name: value.value for name, value in made.metadata.items()}
    assert (shown["seconds"], shown["conflicts"]) == (5.0, 0.0)
    assert (shown["retention: seconds"], shown["retention: conflicts"]) == (2.0, 1.0)
    assert (shown["retention"], shown["snapshot_expiry"]) == ("old", "3")
    assert shown["orders_quarantine: seconds"] == 5.0
    assert shown["plan"] == {
        "snapshot_expiry": {"expired": ["7"]},
        "orders_quarantine: snapshot_expiry": {"expired": ["7"]},
    }


def test_the_files_check_passes_warns_and_fails(resource, lake, instance, monkeypatch):
    """Given a table whose files are well, one that needs maintenance, and one that cannot be looked at, then each says so; that nobody answers is no verdict on the table."""
    unseen = [
        Outage("catalog_down", "web.clicks", "locked"),
        Stopped("ledger_missing", "web.clicks", "dropped"),
    ]

    def health(_lake, contract):
        if contract.table == "web.clicks":
            raise unseen[0]
        faults = ("99% of rows deleted",) if contract.table == "shop.orders" else ()
        return Health({"data_files": 9.0}, faults)

    monkeypatch.setattr("assets.checks.files_run.health", health)
    audit, orders, clicks = sorted(
        judge_files(instance, resource, lake.configuration.contracts), key=lambda found: found.asset_key.path
    )
    assert {each.check_name for each in (audit, orders, clicks)} == {HEALTH}
    assert audit.passed
    assert audit.metadata["data_files"].value == 9.0
    assert (orders.passed, orders.severity, orders.description) == (
        False,
        dg.AssetCheckSeverity.WARN,
        "99% of rows deleted",
    )
    assert (clicks.passed, clicks.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert clicks.description == "it cannot be judged: catalog_down"
    assert clicks.metadata["state"].value == "catalog_down"
    assert "locked" in clicks.metadata["error"].value
    del unseen[0]
    *_, stopped = judge_files(instance, resource, lake.configuration.contracts)
    assert (stopped.severity, stopped.metadata["state"].value) == (
        dg.AssetCheckSeverity.ERROR,
        "ledger_missing",
    )


def test_the_daily_job_judges_the_files_of_every_table(defs, instance, lake, found, monkeypatch):
    monkeypatch.setattr("assets.checks.files_run.health", lambda *_: Health({"data_files": 9.0}, ()))
    result = run(defs, instance, "snapshot_expiry")
    judged = [
        ".".join(e.asset_key.path) for e in result.get_asset_check_evaluations() if e.check_name == HEALTH
    ]
    assert sorted(judged) == ["shop.audit", "shop.orders", "web.clicks"]


def test_one_maintenance_at_a_time_whoever_launched_it(defs):
    for job in (*KINDS, "maintain"):
        pools = {pool for node in defs.resolve_job_def(job).all_node_defs for pool in node.pools}
        assert pools == {MAINTENANCE_POOL}


def test_schedules_come_from_the_platform_file_and_are_on(defs):
    crons = {each.name: each.cron_schedule for each in defs.schedules if each.name in KINDS}
    assert crons == {
        "compaction": "*/30 * * * *",
        "snapshot_expiry": "15 3 * * *",
        "orphan_files": "30 4 * * 0",
    }
    running = {
        each.name for each in defs.schedules if each.default_status == dg.DefaultScheduleStatus.RUNNING
    }
    assert running == {each.name for each in defs.schedules} - {"drill", "purge_runs"}


@pytest.mark.parametrize("name", ["compaction", "schema_evolution", "review_pack"])
def test_runs_that_take_longer_than_their_schedules_interval_do_not_pile_up(defs, instance, queued, name):
    """Given a run of a schedule that still waits for its turn, then the schedule asks for no second one; one that has begun, or that a person asked for, is not it."""
    schedule = defs.resolve_schedule_def(name)

    def asked():
        with dg.build_schedule_context(instance=instance) as context:
            found = schedule.evaluate_tick(context)
        assert bool(found.run_requests) != bool(found.skip_message and "still waits" in found.skip_message)
        return len(found.run_requests)

    job, tags = defs.resolve_job_def(schedule.job_name), {SCHEDULE_NAME_TAG: name}
    assert asked() == 1
    instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, tags=tags)
    queued(job)
    again = dict.fromkeys(("parent_run_id", "root_run_id"), instance.get_runs()[0].run_id)
    waits = queued(job, **tags)
    assert asked() == 0
    instance.delete_run(waits.run_id)
    instance.add_run(waits._replace(**again))
    assert asked() == 1
    queued(job, **tags)
    assert asked() == 0


@pytest.mark.parametrize("name", ["compaction", "reconcile_with_kafka", "schema_evolution", "review_pack"])
def test_a_schedule_asks_for_no_run_that_would_die_of_its_configuration(defs, instance, where, name):
    """Given a contract or a platform file that is broken once the definitions are loaded, then a schedule says so until it is mended."""

    def asked():
        with dg.build_schedule_context(instance=instance) as context:
            found = defs.resolve_schedule_def(name).evaluate_tick(context)
        return len(found.run_requests), found.skip_message or ""

    for file in (where.contracts_dir / "orders.yaml", where.platform_file):
        text = file.read_text()
        file.write_text("tabel: x\n")
        runs, says = asked()
        assert runs == 0
        assert "no run could read its configuration" in says
        file.write_text(text)
        assert asked() == (1, "")


def test_where_the_review_pack_is_is_a_path_for_browsers_open_no_file_from_dagsters_pages(
    defs, instance, lake, where, monkeypatch
):
    monkeypatch.setattr(tidemark.review.collect, "reviews", lambda *_: [])
    assert defs.resolve_job_def("review").execute_in_process(instance=instance).success
    page = instance.get_latest_materialization_event(KEY).asset_materialization.metadata["page"]
    assert isinstance(page, dg.PathMetadataValue)
    assert Path(page.path).parent == where.home / FOLDER


def test_the_verb_takes_kinds_and_means_all_when_none_is_named(defs, instance, lake, monkeypatch):
    asked = []

    def now(_lake, contract, kinds, signature):
        asked.append((contract.table, kinds, signature.dry_run))
        return Operation(signature.by, "maintain", contract.table, "", signature.run_id, {})

    monkeypatch.setattr(maintain_module, "maintain_now", now)
    for chosen in ({}, {"snapshots": True, "dry_run": True}):
        config = {"table": "shop.orders", "by": "ada", **chosen}
        assert run(
            defs, instance, "maintain", run_config={"ops": {"maintain_table": {"config": config}}}
        ).success
    assert asked == [("shop.orders", KINDS, False), ("shop.orders", ("snapshot_expiry",), True)]
