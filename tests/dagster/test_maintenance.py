"""Rules of the maintenance assets: plain numbers for what was done, silence in the database for what was not."""

import dagster as dg
import pytest

from assets.maintenance import POOL
from tidemark.domain.maintenance.gain import ASSETS, Gain
from tidemark.engine.maintain import maintain as maintain_module
from tidemark.engine.table.operations import Operation

COMPACTION = dg.AssetKey(["maintenance", "shop", "orders", "compaction"])


@pytest.fixture
def found(monkeypatch):
    """What the engine answers, by (table, kind); a fault for `broken`."""
    asked = []

    def maintain(_lake, contract, kinds, *, dry_run=False):
        for kind in kinds:
            asked.append((contract.table, kind, dry_run))
            busy = contract.table == "shop.orders"
            yield Gain(contract.table, kind, acted=busy, reason="because", numbers={"files_before": 9.0})
            if contract.table == "web.clicks":
                yield Gain("web.clicks_quarantine", kind, acted=False, reason="x", error={"kind": "Outage"})

    monkeypatch.setattr("assets.upkeep.maintain", maintain)
    return asked


def run(defs, instance, job, **how):
    return defs.resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False, **how)


def test_a_scheduled_run_reports_what_was_done_and_only_that(defs, instance, lake, found):
    """Given three tables, one with work, one with nothing to do, one that cannot be reached, when the schedule runs, then one materialization and a failure that names the third."""
    result = run(defs, instance, "compaction", tags={"dagster/schedule_name": "compaction"})
    (made,) = result.asset_materializations_for_node("maintain_compaction")
    assert made.asset_key == COMPACTION
    assert made.metadata["files_before"].value == 9.0
    assert made.metadata["compaction"].value == "because"
    assert not result.success
    assert {table for table, _, _ in found} == {"shop.audit", "shop.orders", "web.clicks"}


def test_a_click_always_gets_an_answer(defs, instance, lake, found):
    result = run(defs, instance, "compaction", asset_selection=[COMPACTION])
    assert result.success
    assert [m.asset_key for m in result.asset_materializations_for_node("maintain_compaction")] == [
        COMPACTION
    ]


def test_one_maintenance_at_a_time_whoever_launched_it(defs):
    for job in (*ASSETS, "maintain"):
        pools = {pool for node in defs.resolve_job_def(job).all_node_defs for pool in node.pools}
        assert pools == {POOL}


def test_schedules_come_from_the_platform_file_and_are_on(defs):
    crons = {each.name: each.cron_schedule for each in defs.schedules if each.name in ASSETS}
    assert crons == {
        "compaction": "*/30 * * * *",
        "snapshot_expiry": "15 3 * * *",
        "orphan_files": "30 4 * * 0",
    }
    running = {
        each.name for each in defs.schedules if each.default_status == dg.DefaultScheduleStatus.RUNNING
    }
    assert running == {each.name for each in defs.schedules} - {"drill"}


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
    assert asked == [("shop.orders", ASSETS, False), ("shop.orders", ("snapshot_expiry",), True)]
