"""Rules of the schema assets: what waits is a failed check before its first record; what ingest changed is shown."""

import json

import dagster as dg
import pytest
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

import assets.runs.schema as module
import tidemark.engine.preview.drifted as preview
from assets.checks import kafka_run
from assets.checks.drift import drift_evaluation
from assets.names import COMPATIBILITY, DRIFT, HEADROOM, REVIEW, schema_key, table_key
from assets.runs.schema import run_evolved
from tidemark.domain.columns.types import LONG
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.plan.drift import Drift
from tidemark.domain.plan.schema_plan import Change, SchemaPlan
from tidemark.engine.look import tables
from tidemark.engine.schema.evolve import Evolution
from tidemark.engine.schema.history import HISTORY

ADDED = Change("add_column", ("note",), None, LONG, "apply", "schema id 2", 2)
PARKED = Change("incompatible", ("a",), LONG, LONG, "review", "schema id 3", 3)
HOPELESS = Change("incompatible", ("*",), None, None, "impossible", "it is recursive", 4)


@pytest.fixture
def look(monkeypatch, defs, instance, lake):
    """Materialize the schema asset of shop.orders when a look at the table finds `evolution`."""

    def look(evolution, findings=(), *, scheduled=None):
        def evolve_now(lake, contract, run_id):
            if isinstance(evolution, Exception):
                raise evolution
            return evolution

        monkeypatch.setattr(module, "evolve_now", evolve_now)
        monkeypatch.setattr(module, "compatibility_findings", lambda *_: tuple(findings))
        monkeypatch.setattr(tables, "headrooms", lambda _cluster, wanted: dict.fromkeys(wanted, 50.0))
        monkeypatch.setattr(kafka_run, "kept_for", lambda _cluster, topics: dict.fromkeys(topics, 100.0))
        monkeypatch.setattr(preview, "drifted", lambda *_: Drift("shop.orders", left(evolution)))
        lake.tables["shop.orders"] = {"next": {0: 1}}
        if scheduled is not None:
            tags = {SCHEDULE_NAME_TAG: "schema_evolution"} if scheduled else {}
            job = defs.resolve_job_def("schema_evolution")
            return job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
        key = schema_key("shop.orders")
        job = defs.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(instance=instance, asset_selection=[key], raise_on_error=False)
        checks = {e.check_name: e for e in result.get_asset_check_evaluations()}
        return result, checks

    return look


def left(evolution):
    """The plan of the look that comes after."""
    return SchemaPlan("shop.orders", tuple(c for c in evolution.plan.changes if c not in evolution.done))


def test_what_was_applied_is_a_result_and_both_checks_pass(look):
    result, checks = look(Evolution(SchemaPlan("shop.orders", (ADDED,)), (ADDED,)))
    assert result.success
    assert {name: check.passed for name, check in checks.items()} == dict.fromkeys(
        (REVIEW, COMPATIBILITY, DRIFT), True
    )


def test_what_waits_fails_the_check_and_names_the_next_command(look):
    plan = SchemaPlan("shop.orders", (PARKED,))
    result, checks = look(Evolution(plan, ()), ["the registry (NONE) lets producers register anything"])
    assert result.success
    review = checks[REVIEW]
    assert (review.passed, review.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert plan.id in str(review.metadata["next"].value)
    assert (checks[COMPATIBILITY].passed, checks[COMPATIBILITY].severity) == (
        False,
        dg.AssetCheckSeverity.WARN,
    )


@pytest.mark.parametrize(
    ("error", "severity"), [(Outage, dg.AssetCheckSeverity.WARN), (Stopped, dg.AssetCheckSeverity.ERROR)]
)
def test_that_nobody_answers_is_no_verdict_of_schema_drift(lake, monkeypatch, error, severity):
    """Given a look that a service cut off, or that found the table in a stop state, then the check says which state it was; only the second is an error of the table."""

    def drifted(_lake, contract):
        raise error("registry_down", contract.table, "no route")

    monkeypatch.setattr(preview, "drifted", drifted)
    found = drift_evaluation(lake, lake.configuration.contracts[0])
    assert (found.passed, found.severity) == (False, severity)
    assert found.description == "it cannot be judged: registry_down"
    assert found.metadata["state"].value == "registry_down"


def test_what_no_approval_can_help_is_an_error(look):
    _, checks = look(Evolution(SchemaPlan("shop.orders", (HOPELESS,)), ()))
    assert checks[REVIEW].severity == checks[DRIFT].severity == dg.AssetCheckSeverity.ERROR
    plan = SchemaPlan("shop.orders", (HOPELESS, PARKED))
    _, checks = look(Evolution(plan, ()))
    assert checks[REVIEW].severity == dg.AssetCheckSeverity.WARN, "as where a run left the table"
    for check in (REVIEW, DRIFT):
        assert f"tidemark approve shop.orders {plan.id}" in checks[check].metadata["next"].value


def test_the_table_itself_says_how_far_it_is_from_its_topic(look, defs, instance):
    """Given a parked change, when the schema asset has looked, or someone asks, then the table's own check says so."""
    plan = SchemaPlan("shop.orders", (PARKED,))
    _, checks = look(Evolution(plan, ()))
    assert (checks[DRIFT].asset_key, checks[DRIFT].passed) == (table_key("shop.orders"), False)
    key = dg.AssetCheckKey(table_key("shop.orders"), DRIFT)
    job = defs.resolve_implicit_global_asset_job_def()
    asked = job.get_subset(asset_selection=set(), asset_check_selection={key})
    result = asked.execute_in_process(instance=instance)
    [check] = result.get_asset_check_evaluations()
    assert check.description == f"plan {plan.id} waits for an approval of: incompatible a"
    assert str(check.metadata["next"].value).startswith("tidemark approve shop.orders")


@pytest.mark.parametrize("name", [REVIEW, COMPATIBILITY])
def test_a_check_that_is_run_by_itself_is_judged_and_nothing_is_applied(
    look, defs, instance, monkeypatch, name
):
    """Given the button beside a check, when it is clicked, then the check is evaluated by a look that changes nothing."""
    look(Evolution(SchemaPlan("shop.orders", (PARKED,)), ()), ["lax"])
    found, runs = module.evolve_now, []
    monkeypatch.setattr(module, "evolve_now", lambda *given: runs.append(given[2]) or found(*given))
    key = dg.AssetCheckKey(schema_key("shop.orders"), name)
    job = defs.resolve_job_def("__ASSET_JOB").get_subset(asset_selection=set(), asset_check_selection={key})
    result = job.execute_in_process(instance=instance)
    judged = {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
    assert judged[name] is False
    assert result.get_asset_materialization_events() == []
    assert runs == [None]


@pytest.fixture
def told(instance):
    """What a run says of the assets of shop.orders, by the name of the check; `result` is the materialization."""

    def read(result):
        assert result.success
        events = [entry.dagster_event for entry in instance.all_logs(result.run_id)]
        found = {}
        for event in events:
            name = event.event_type_value if event else ""
            if name == "ASSET_CHECK_EVALUATION_PLANNED":
                found[name] = event
            elif name == "ASSET_CHECK_EVALUATION":
                each = event.asset_check_evaluation_data
                if each.asset_key.path[-1] == "orders":
                    found[each.check_name] = each.passed
            elif name == "ASSET_MATERIALIZATION" and event.asset_key.path[-1] == "orders":
                found["result"] = event.asset_key
        return set(found)

    return read


ALL = {"result", REVIEW, COMPATIBILITY, DRIFT, HEADROOM}


def test_a_scheduled_look_tells_what_is_new_and_nothing_else(look, told, lake, instance):
    """Given the look of every half hour, when nothing has changed, then it tells nothing; a change, a red check and a table that was materialized since are told, and a person is told everything."""
    nothing, parked = SchemaPlan("shop.orders", ()), SchemaPlan("shop.orders", (PARKED,))
    lake.ends["orders"] = {0: 1}
    assert told(look(Evolution(nothing, ()), scheduled=True)) == ALL
    assert told(look(Evolution(nothing, ()), scheduled=True)) == set()
    assert told(look(Evolution(nothing, ()), scheduled=False)) == ALL
    assert told(look(Evolution(nothing, ()), ["lax"], scheduled=True)) == {COMPATIBILITY}
    assert told(look(Evolution(nothing, ()), scheduled=True)) == {COMPATIBILITY}
    assert told(look(Evolution(parked, ()), scheduled=True)) == {"result", REVIEW, COMPATIBILITY, DRIFT}
    assert told(look(Evolution(parked, ()), scheduled=True)) == set()
    instance.report_runless_asset_event(dg.AssetMaterialization(table_key("shop.orders")))
    assert told(look(Evolution(parked, ()), scheduled=True)) == {DRIFT, HEADROOM}
    done = Evolution(SchemaPlan("shop.orders", (ADDED,)), (ADDED,))
    for _ in range(2):
        assert "result" in told(look(done, scheduled=True)), "each time something was done"


def test_a_registry_that_does_not_answer_fails_the_run_and_no_check(look):
    result, checks = look(Outage("registry_down", "shop.orders", "it is away"))
    assert not result.success
    assert checks == {}


def test_what_an_ingest_run_has_changed_is_shown_on_the_schema_asset(lake):
    entry = {"plan": "p1", "run_id": "mine", "changes": [ADDED.as_json()], "by": "contract"}
    lake.tables["shop.orders"] = {
        "next": {0: 1},
        "properties": {HISTORY: json.dumps([{**entry, "run_id": "other"}, entry])},
    }
    [contract] = [c for c in lake.configuration.contracts if c.table == "shop.orders"]
    shown = run_evolved(lake, contract, "mine")
    assert shown is not None
    assert shown.asset_key == schema_key("shop.orders")
    assert shown.metadata["applied"].value == 1
    assert run_evolved(lake, contract, "third") is None
