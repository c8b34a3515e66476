"""Rules of the jobs `replay` and `rollback`: the same arguments as on the command line, and what is stale is named."""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from launchpad import execute

from assets.names import CORRECTED, RECEIPT
from jobs.recovery import downstream
from orchestration.definitions import build_defs
from tidemark.domain.errors import Outage
from tidemark.engine.config.configuration import Places
from tidemark.engine.drill import drill as drill_module
from tidemark.engine.operate import replay as replay_module
from tidemark.engine.operate import rollback as rollback_module
from tidemark.engine.operate.backfill import act as backfill_module
from tidemark.engine.table.operations import Operation


@pytest.fixture
def calls(monkeypatch):
    """What the engine was asked for."""
    made = []

    def operation(verb, contract, signature, **arguments):
        made.append(arguments)
        return Operation(signature.by, verb, contract.table, signature.reason, signature.run_id, arguments)

    def replay(_, contract, selection, signature, *, quarantine):
        return operation("replay", contract, signature, **asdict(selection), quarantine=quarantine)

    def rollback(_, contract, target, signature, *, downstream):
        return operation("rollback", contract, signature, target=str(target), stale=downstream)

    def backfill(_, contract, asked, signature):
        asked.pace.say("half way")
        return operation("backfill", contract, signature, asked=asked)

    def drill(_, names, cluster, signature, say):
        say("poison: passed")
        made.append((names, cluster, signature.dry_run))
        return Operation(signature.by, "drill", "", signature.reason, signature.run_id, {"passed": True})

    monkeypatch.setattr(backfill_module, "backfill", backfill)
    monkeypatch.setattr(drill_module, "drill", drill)
    monkeypatch.setattr(replay_module, "replay", replay)
    monkeypatch.setattr(rollback_module, "rollback", rollback)
    return made


def test_a_replay_says_what_it_selects(defs, instance, lake, calls):
    assert execute(defs, instance, "replay", quarantine=True, cause="undecodable").success
    assert execute(defs, instance, "replay", partition=1, from_offset=5, to_offset=9).success
    assert calls == [
        {"cause": "undecodable", "partition": None, "first": None, "upto": None, "quarantine": True},
        {"cause": None, "partition": 1, "first": 5, "upto": 9, "quarantine": False},
    ]


@pytest.mark.parametrize(
    "stops",
    [None, Outage("spark_down", "shop.orders", "between two commits"), DagsterExecutionInterruptedError()],
)
def test_what_a_replay_has_published_is_a_result(defs, instance, lake, monkeypatch, stops):
    """Given rows that came into a table by a replay, or by one that died, while its topic is quiet, when it ends, stops on its way, is ended or finds all done, then the table has one result, of which marts are built."""

    def replay(_lake, contract, _selection, signature, **_):
        if stops:
            raise stops
        arguments = {"read": 0}
        return Operation("ada", "replay", contract.table, "why", signature.run_id, arguments, 1, 1)

    monkeypatch.setattr(replay_module, "replay", replay)
    lake.tables["shop.orders"] = {"next": {0: 10}}
    orders = dg.AssetKey(["shop", "orders"])

    def results(**options):
        with suppress(DagsterExecutionInterruptedError):
            assert execute(defs, instance, "replay", quarantine=True, **options).success == (stops is None)
        return [
            each.asset_materialization for each in instance.fetch_materializations(orders, limit=9).records
        ]

    assert results(dry_run=True) == []
    [shown] = results()
    state = lake.state("shop.orders")
    assert (shown.metadata[RECEIPT].value, shown.metadata["dagster/row_count"].value) == (
        str(state.receipt),
        state.live_rows,
    )
    assert len(results()) == 1
    lake.tables["shop.orders"] = {"next": {0: 10}, "receipt": 99}
    assert len(results()) == 2


def test_a_result_is_left_to_the_run_at_work_that_published_it(defs, instance, lake, calls):
    """Given a replay that finds nothing to do, when a run at work has committed to the table last, then its result is not told for it; once it has died it is."""
    orders = dg.AssetKey(["shop", "orders"])
    part = defs.resolve_job_def("ingest").get_subset(asset_selection={orders})
    run = instance.create_run_for_job(part, status=dg.DagsterRunStatus.STARTED, asset_selection={orders})
    lake.tables["shop.orders"] = {"next": {0: 10}, "run_id": run.run_id}
    for told in (0, 1):
        assert execute(defs, instance, "replay", quarantine=True).success
        assert len(instance.fetch_materializations(orders, limit=9).records) == told
        instance.report_run_failed(run, "it died")


def test_a_rollback_names_its_target(defs, instance, lake, calls):
    assert execute(defs, instance, "rollback", snapshot=42).success
    assert execute(defs, instance, "rollback", before="2026-05-01T12:00:00+02:00").success
    assert [each["target"] for each in calls] == ["snapshot 42", "before 2026-05-01T10:00:00+00:00"]


def test_a_rollback_names_the_marts_that_are_stale_then(instance, calls, lake, resource):
    """Given the sample project, when a table is rolled back, then every mart that is made from it is named, but for those that nobody has built."""
    sample = Path(__file__).parents[2] / "contracts"
    lake.tables |= {mart: {"next": {}} for mart in ("marts.daily_revenue", "marts.customers")}
    places = Places(None, sample, Path(resource.home))
    defs = build_defs({"lake": type(resource).at(places)}, places)
    assert execute(defs, instance, "rollback", snapshot=42).success
    (stale,) = [each["stale"] for each in calls]
    assert [key for key in stale if key.startswith("marts/")] == ["marts/customers", "marts/daily_revenue"]
    assert not [key for key in stale if key.startswith(("kafka/", "schema/", "maintenance/"))]
    (found,) = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(dg.AssetKey(["marts", "daily_revenue"]), CORRECTED)]
    ).values()
    told = found.event.dagster_event.asset_check_evaluation_data
    assert (told.passed, told.metadata["stale"].value) == (False, ["shop.orders was rolled back"])


def test_a_backfill_says_from_where_and_how_far(defs, instance, lake, calls, monkeypatch):
    monkeypatch.setattr(Operation, "as_json", lambda _: {"verb": "backfill"})
    times = {"from_time": "2026-01-01", "to_time": "2026-02-01T00:00:00+01:00"}
    assert execute(defs, instance, "backfill", source="table:a.b", rate=5.0, cutover=True, **times).success
    asked = calls[0]["asked"]
    assert (asked.source, asked.pace.rate, asked.cutover, asked.abort) == ("table:a.b", 5.0, True, False)
    assert [t.isoformat() for t in (asked.since, asked.until)] == [
        "2026-01-01T00:00:00+00:00",
        "2026-02-01T00:00:00+01:00",
    ]


def why(result):
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    told = failed.step_failure_data.user_failure_data
    return told.metadata["error"].value if told else {"kind": "traceback"}


def test_a_time_that_is_none_is_refused_with_what_to_write(defs, instance, lake, calls):
    for verb, config in (("rollback", {"before": "yesterday"}), ("backfill", {"to_time": "yesterday"})):
        told = why(execute(defs, instance, verb, **config))
        assert (told["kind"], told["message"]) == ("Refused", "yesterday is no time in ISO 8601")
        assert "2026-01-31" in told["next_step"]


@pytest.mark.parametrize(
    ("verb", "config"),
    [
        ("rollback", {}),
        ("rollback", {"snapshot": 42, "before": "2026-01-01"}),
        ("backfill", {"cutover": True, "abort": True}),
        ("backfill", {"window_seconds": 0}),
        ("backfill", {"max_records": 0}),
        ("backfill", {"rate": -1.0}),
    ],
)
def test_arguments_that_the_command_line_refuses_are_refused_in_the_launchpad_too(
    defs, instance, lake, verb, config
):
    """Given arguments that say nothing or two things, when the job is launched, then none of them is passed over in silence."""
    lake.tables["shop.orders"] = {"next": {0: 1}}
    told = why(execute(defs, instance, verb, dry_run=True, **config))
    assert told["kind"] == "Refused"
    assert told["next_step"].startswith(f"tidemark {verb} shop.orders with")


def test_a_drill_names_its_scenarios_and_no_table(defs, instance, lake, calls):
    config = {"scenarios": ["poison"], "by": "ada", "dry_run": True}
    done = defs.resolve_job_def("drill").execute_in_process(
        run_config={"ops": {"drill_platform": {"config": config}}}, instance=instance
    )
    assert done.success
    assert calls == [(["poison"], "main", True)]
    assert defs.resolve_schedule_def("drill").default_status == dg.DefaultScheduleStatus.STOPPED


def test_everything_that_is_made_from_a_table_is_stale():
    table = dg.AssetSpec(dg.AssetKey(["shop", "orders"]))
    held = dg.AssetSpec(dg.AssetKey(["shop", "orders_quarantine"]), deps=[table])
    current = dg.AssetSpec(dg.AssetKey(["shop", "orders_current"]), deps=[table])
    mart = dg.AssetSpec(dg.AssetKey(["marts", "revenue"]), deps=[current])
    other = dg.AssetSpec(dg.AssetKey(["shop", "customers"]))
    found = downstream([table, held, current, mart, other], "shop.orders")
    assert found == ["shop/orders_current", "marts/revenue"]
    assert downstream([other], "shop.orders") == []
