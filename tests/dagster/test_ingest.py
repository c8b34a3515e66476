"""Rules of a run: results for what succeeded, then one failure for what stopped; nothing else turns red."""

import json
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from uuid import uuid4

import dagster as dg
import pytest
from commits import one_commit
from dagster import AssetKey, DagsterEventType
from dagster._core.definitions.data_version import extract_data_version_from_entry
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.execution.api import create_execution_plan, execute_run
from dagster._core.storage.tags import PARENT_RUN_ID_TAG, SCHEDULE_NAME_TAG
from dagster._serdes import serialize_value

import assets.runs.lane as run_module
import resources.lake as configuration_module
from assets.checks import kafka_run
from assets.names import STOPPED_TAG, maintenance_key, pool_of, table_key
from assets.runs import last_runs
from assets.runs.handover import Edits, Handover
from assets.runs.loaded import loaded_before
from assets.runs.report import observation, published
from assets.runs.stopped import stopped_of, stopped_tags
from orchestration.definitions import build_defs
from sensors import lane_runs
from tidemark.domain.cadence.event_budget import report_period, run_length
from tidemark.domain.columns.types import LONG, Field, Struct
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.quality_results import RuleResult, Sample
from tidemark.domain.outcome import Outcome
from tidemark.engine.config import discovery
from tidemark.engine.config.follow import Followed
from tidemark.engine.lane import append_work, upsert_work
from tidemark.engine.lane.served_table import Standing

ORDERS = AssetKey(["shop", "orders"])
SENSOR = {"tidemark/trigger": "sensor", "tidemark/lane": "default"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class FakeWork:
    """Publishes what `waiting` says, once; tables in `trouble` stop."""

    waiting: dict[str, int]
    trouble: dict[str, BaseException]
    loaded_before: set[str]
    quality: dict[str, RuleResult]

    def __init__(self, lake, run_id, loaded_before):
        self.lake, self.stop, self.run_id = lake, Event(), run_id
        FakeWork.loaded_before = set(loaded_before)

    def look(self, cluster, topics):
        return {t: Topic(t, cluster, "id", {0: 0}, {0: 10}, {0: 10}) for t in topics}

    def standing(self, contract):  # noqa: ARG002
        return Standing({0: 10})

    def microbatch(self, contract):
        if contract.table in self.trouble:
            raise self.trouble[contract.table]
        count = self.waiting.pop(contract.table, 0)
        self.lake.tables[contract.table] = {**self.lake.tables.get(contract.table, {}), "next": {0: 10}}
        if not count:
            return None
        self.lake.tables[contract.table]["run_id"] = self.run_id
        return one_commit(
            contract.table,
            snapshot_id=2**60,
            from_={0: 10 - count},
            next={0: 10},
            counts={0: Counts(count, count - 1, 1)},
            schema_ids=frozenset({7}),
            max_timestamp=NOON,
            seconds={"stage": 0.25, "publish": 0.5},
            files=3,
            bytes=4096,
            at=NOON,
            quality=FakeWork.quality,
        )

    def catch_up(self, contract):
        done = Outcome(contract.table, "fresh", seconds=1.5)
        try:
            commit = self.microbatch(contract)
            if commit:
                done = done.plus(commit)
        except Stopped as error:
            done = replace(done, error=error.as_json())
        return self.summarise(contract, done)

    def summarise(self, contract, done):  # noqa: ARG002
        return replace(
            done,
            state=done.error["state"] if done.error else "fresh",
            next={} if done.error else {0: 10},
            stream_clock=NOON,
            table_clock=NOON,
        )

    def interrupt(self):
        pass


@pytest.fixture
def run(defs, instance, lake, monkeypatch):
    """Runs tables of the default lane in this process."""
    monkeypatch.setattr(append_work, "AppendWork", FakeWork)
    monkeypatch.setattr(kafka_run, "kept_for", lambda _cluster, topics: dict.fromkeys(topics))
    FakeWork.waiting, FakeWork.trouble, FakeWork.quality = {}, {}, {}
    lake.ends |= {"orders": {0: 10}, "clicks": {0: 10}}
    lake.tables |= {"shop.orders": {"next": {0: 10}}, "web.clicks": {"next": {0: 10}}}

    def make(*tables, tags=None, first_seen=None):
        job = defs.resolve_job_def("ingest")
        return job.execute_in_process(
            instance=instance,
            asset_selection=[AssetKey(table.split(".")) for table in tables],
            tags=tags,
            run_config={"ops": {"ingest_default": {"config": {"first_seen": first_seen}}}}
            if first_seen
            else {},
            raise_on_error=False,
        )

    return make


@pytest.fixture
def executed_again(defs, instance):
    """Executes tables again for a person, by default all steps."""

    def make(parent, tables, *, steps=None, tags=None):
        keys = frozenset(table_key(each) for each in tables)
        job = defs.resolve_job_def("ingest").get_subset(asset_selection=keys)
        run = instance.create_run_for_job(
            job,
            execution_plan=create_execution_plan(job, step_keys_to_execute=steps),
            asset_selection=keys,
            status=dg.DagsterRunStatus.NOT_STARTED,
            tags=tags,
            parent_run_id=parent,
            root_run_id=parent,
        )
        return execute_run(InMemoryJob(job), run, instance)

    return make


def materialized(result):
    return sorted(e.asset_key.to_user_string() for e in result.all_events if e.is_step_materialization)


def metadata_of(result, table):
    events = [
        e for e in result.all_events if e.is_step_materialization and e.asset_key.path == table.split(".")
    ]
    return {key: value.value for key, value in events[0].materialization.metadata.items()}


def test_a_click_publishes_what_waits_and_says_what_it_did(run):
    FakeWork.waiting = {"shop.orders": 4}
    result = run("shop.orders")
    assert result.success
    found = metadata_of(result, "shop.orders")
    assert (found["rows_read"], found["rows_written"], found["rows_quarantined"]) == (4, 3, 1)
    assert found["snapshot_id"] == str(2**60)
    assert (found["tidemark/outcome"]["from"], found["tidemark/outcome"]["next"]) == ({"0": 6}, {"0": 10})
    assert (found["seconds_stage"], found["seconds_publish"], found["bytes"], found["files"]) == (
        0.25,
        0.5,
        4096,
        3,
    )
    assert found["stream_clock"] == found["table_clock"] == NOON.timestamp()
    assert found["dagster/row_count"] == 10
    assert found["tidemark/outcome"]["rows"]["written"] == 3
    assert found["tidemark/outcome"]["table"] == "shop.orders"


def test_a_run_writes_down_which_topic_a_table_is_loaded_from(run, lake, where):
    """Rule: the topic is what the ledger says; a pattern that more topics match keeps the table for it."""
    lake.tables["shop.orders"]["columns"] = Struct((Field("id", LONG),))
    FakeWork.waiting = {"shop.orders": 4}
    assert run("shop.orders").success
    assert discovery.read(where.home).loaded() == {"shop.orders": ["main", "orders"]}


def test_quarantined_rows_are_reported_on_the_quarantine_asset_and_only_when_some_landed(run):
    FakeWork.waiting = {"shop.orders": 4}
    result = run("shop.orders", "web.clicks")
    assert materialized(result) == ["shop/orders", "shop/orders_quarantine", "web/clicks"]


def test_what_a_table_had_quarantined_before_it_stopped_is_on_the_quarantine_asset(
    run, instance, monkeypatch
):
    """Given a table that publishes a batch with a bad record and then stops, when the run fails, then the quarantine has its event."""
    summarise = FakeWork.summarise

    def stops(work, contract, done):
        error = Stopped("topic_recreated", contract.table, "")
        return summarise(work, contract, replace(done, error=error.as_json()))

    monkeypatch.setattr(FakeWork, "summarise", stops)
    FakeWork.waiting = {"shop.orders": 4}
    assert not run("shop.orders").success
    told = instance.get_latest_materialization_event(AssetKey(["shop", "orders_quarantine"]))
    assert told.asset_materialization.metadata["rows_quarantined"].value == 1
    assert instance.get_latest_materialization_event(ORDERS) is None


def test_a_click_on_a_level_table_is_a_success(run):
    assert materialized(run("shop.orders")) == ["shop/orders"]


def test_what_stopped_fails_the_run_after_the_others_were_published(run, instance):
    FakeWork.waiting = {"web.clicks": 4}
    FakeWork.trouble = {
        "shop.orders": Stopped("topic_recreated", "shop.orders", "It has id x.", topic="orders")
    }
    result = run("shop.orders", "web.clicks", tags=SENSOR)
    assert not result.success
    assert materialized(result) == ["web/clicks", "web/clicks_quarantine"]
    (failed,) = [e for e in result.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    failure = failed.step_failure_data.user_failure_data
    assert "shop.orders is topic_recreated" in failure.description
    assert "tidemark accept shop.orders --new-epoch" in failure.description
    assert failure.metadata["shop.orders"].value["state"] == "topic_recreated"
    tags = instance.get_run_by_id(result.run_id).tags
    assert json.loads(tags[STOPPED_TAG]) == {"shop.orders": "topic_recreated"}


def test_a_catalog_that_goes_down_after_a_commit_takes_no_result_and_no_failure_from_the_run(
    run, lake, instance, monkeypatch
):
    """Given a run that has published, when it ends with the catalog down, then that table has its result and the one that stopped is named with its state."""
    summarise = FakeWork.summarise

    def down(*given, **more):
        lake.down["catalog"] = True
        return summarise(*given, **more)

    monkeypatch.setattr(FakeWork, "summarise", down)
    FakeWork.waiting = {"shop.orders": 4}
    FakeWork.trouble = {"web.clicks": Stopped("topic_missing", "web.clicks", "")}
    result = run("shop.orders", "web.clicks")
    assert materialized(result) == ["shop/orders", "shop/orders_quarantine"]
    assert metadata_of(result, "shop.orders")["rows_written"] == 3
    tags = instance.get_run_by_id(result.run_id).tags
    assert json.loads(tags[STOPPED_TAG]) == {"web.clicks": "topic_missing"}


def test_a_table_that_had_nothing_to_do_does_not_turn_red_beside_one_that_stopped(run):
    FakeWork.trouble = {"shop.orders": Stopped("topic_missing", "shop.orders", "")}
    assert materialized(run("shop.orders", "web.clicks", tags=SENSOR)) == ["web/clicks"]


def test_a_click_that_fails_hides_no_check_of_its_tables(run, instance, defs):
    """Given checks that were evaluated, when one click on two tables fails as one of them stops, then none is shown as skipped, and the failure says what becomes of the other."""
    both = [ORDERS, AssetKey(["web", "clicks"])]
    names = ("freshness", "kafka_reconciliation")
    keys = [dg.AssetCheckKey(key, name) for key in both for name in names]
    for key in keys:
        found = dg.AssetCheckEvaluation(
            asset_key=key.asset_key, check_name=key.name, passed=key.name != "freshness"
        )
        instance.report_runless_asset_event(found)
    FakeWork.waiting = {"web.clicks": 4}
    FakeWork.trouble = {"shop.orders": Stopped("topic_missing", "shop.orders", "")}
    job = defs.resolve_implicit_global_asset_job_def()
    another = maintenance_key("web.clicks", "compaction")
    result = job.execute_in_process(instance=instance, asset_selection=[*both, another], raise_on_error=False)
    shown = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    states = {(*key.asset_key.path[1:], key.name): each.status.value for key, each in shown.items()}
    assert states == {
        ("orders", "freshness"): "FAILED",
        ("orders", "kafka_reconciliation"): "SUCCEEDED",
        ("clicks", "freshness"): "SUCCEEDED",  # it has caught up in this run
        ("clicks", "kafka_reconciliation"): "SUCCEEDED",
    }
    failed, _ = [e for e in result.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    assert run_module.OTHERS_FOLLOW in failed.step_failure_data.user_failure_data.description


def test_what_a_table_shows_survives_a_result_without_commits(run, instance, checks_of):
    """Given a table with a red check, when a run does nothing to it, be it a click or beside one that stopped, then it is as red and as large as before."""
    FakeWork.waiting = {"shop.orders": 4}
    first = run("shop.orders")
    red = checks_of(first)["quarantine_rate"]
    assert not red.passed
    version = extract_data_version_from_entry(instance.get_latest_materialization_event(ORDERS))
    late = dg.AssetCheckEvaluation(asset_key=ORDERS, check_name="freshness", passed=False)
    instance.report_runless_asset_event(late)  # as the sensor does; what the runs find out is newer
    FakeWork.trouble = {"web.clicks": Stopped("topic_missing", "web.clicks", "")}
    clicked, beside = run("shop.orders"), run("shop.orders", "web.clicks", tags=SENSOR)
    for result in (clicked, beside):
        found = checks_of(result)
        assert (found["quarantine_rate"].passed, found["quarantine_rate"].description) == (
            False,
            red.description,
        )
        assert found["reconciliation"].passed
        assert found["freshness"].passed
        assert metadata_of(result, "shop.orders")["dagster/row_count"] == 10
        entry = instance.get_latest_materialization_event(ORDERS)
        assert extract_data_version_from_entry(entry) == version


def test_a_run_that_leaves_records_behind_does_not_call_their_table_fresh(
    run, instance, checks_of, monkeypatch
):
    """Given a late table, when a run ends with much of it still waiting, then it is as late as the sensor said."""
    late = dg.AssetCheckEvaluation(asset_key=ORDERS, check_name="freshness", passed=False)
    instance.report_runless_asset_event(late)
    summarise = FakeWork.summarise
    monkeypatch.setattr(
        FakeWork, "summarise", lambda *given, **more: replace(summarise(*given, **more), lag_records=40)
    )
    FakeWork.waiting = {"shop.orders": 4, "web.clicks": 4}
    assert not checks_of(run("shop.orders", tags=SENSOR))["freshness"].passed
    assert "freshness" not in checks_of(run("web.clicks", tags=SENSOR))


def test_what_a_run_published_is_told_when_somebody_ends_it(run, instance, monkeypatch):
    """Given a run that has published rows and lingers, when it is ended from outside, then the table has its materialization with the version that the rows made, and what had nothing new has none."""
    summaries = []

    def interrupted(self, contract, done):
        summaries.append((contract.table, done.commits))
        raise DagsterExecutionInterruptedError

    monkeypatch.setattr(FakeWork, "summarise", interrupted)
    FakeWork.waiting = {"shop.orders": 4}
    with suppress(DagsterExecutionInterruptedError):
        run("shop.orders", "web.clicks", tags=SENSOR)
    assert summaries == [("shop.orders", 1)]
    entry = instance.get_latest_materialization_event(ORDERS)
    assert entry is not None
    assert extract_data_version_from_entry(entry).value == "1"
    assert instance.get_latest_materialization_event(AssetKey(["web", "clicks"])) is None


def test_a_batch_does_not_hide_what_it_has_not_mended(run, instance, checks_of):
    """Given a lost row that the nightly reconciliation found, when a record comes, then the check is as red as before; one that was green is not said again, nor that records are about to expire when none waits."""
    known = ("kafka_reconciliation", False), ("files", True), ("retention_headroom", False)
    for name, passed in known:
        found = dg.AssetCheckEvaluation(asset_key=ORDERS, check_name=name, passed=passed, description="found")
        instance.report_runless_asset_event(found)
    FakeWork.waiting = {"shop.orders": 4}
    said = checks_of(run("shop.orders", tags=SENSOR))
    assert not said["kafka_reconciliation"].passed
    assert said["kafka_reconciliation"].description == "found"
    assert not {"files", "retention_headroom"} & said.keys()


def test_a_run_that_stops_for_a_review_says_so_on_the_asset_of_the_schema(run, instance):
    """Given a plan that waits, when runs stop for it, then the check says so, and once for each plan."""
    key = dg.AssetCheckKey(AssetKey(["schema", "shop", "orders"]), "schema_review")
    for plan in ("5b657e801151", "5b657e801151", "0c1f7d2a9e44"):
        waits = Stopped("schema_review", "shop.orders", "channel is new.", plan=plan)
        FakeWork.trouble = {"shop.orders": waits}
        run("shop.orders", tags=SENSOR)
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=9)
    found = [record.event.dagster_event.asset_check_evaluation_data for record in records]
    assert [(each.passed, each.metadata["plan"].value) for each in found] == [
        (False, "0c1f7d2a9e44"),
        (False, "5b657e801151"),
    ]
    assert "channel is new" in found[0].description


def test_a_click_on_a_paused_table_says_that_nothing_was_read(run, instance, monkeypatch):
    monkeypatch.setattr(
        FakeWork, "summarise", lambda _, contract, *__, **___: Outcome(contract.table, "paused", next={0: 4})
    )
    told = [entry.user_message for entry in instance.all_logs(run("shop.orders").run_id)]
    assert "shop.orders is paused: nothing was read. Next: tidemark resume shop.orders" in told


def test_a_check_that_is_run_by_itself_says_that_it_cannot_be(defs, instance, run):
    """Given the button beside a check that ingest evaluates, when it is clicked, then the run says who evaluates it, and the check is as red as before."""
    FakeWork.waiting = {"shop.orders": 4}
    run("shop.orders")
    rate = dg.AssetCheckKey(ORDERS, "quarantine_rate")
    job = defs.resolve_job_def("__ASSET_JOB").get_subset(asset_selection=set(), asset_check_selection={rate})
    result = job.execute_in_process(instance=instance)
    told = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert any("evaluated by the run that ingests" in each for each in told)
    [found] = result.get_asset_check_evaluations()
    assert (found.check_name, found.passed) == ("quarantine_rate", False)


def test_a_topic_without_records_takes_no_merge_from_other_tables(
    run, where, resource, instance, monkeypatch
):
    """Given a topic that is empty, when tables and their upsert tables are launched as one run, then the others are merged, and nothing says that the empty one was loaded."""
    for name in ("orders", "clicks"):
        file = where.contracts_dir / f"{name}.yaml"
        file.write_text(file.read_text() + "upsert: [id]\n")
    configuration_module._configuration.cache_clear()
    summarise = FakeWork.summarise

    def found(self, contract, *given, **more):
        empty = contract.table.startswith("web.clicks")
        return Outcome(contract.table, "fresh") if empty else summarise(self, contract, *given, **more)

    monkeypatch.setattr(FakeWork, "summarise", found)
    monkeypatch.setattr(upsert_work, "UpsertWork", FakeWork)
    FakeWork.waiting = {"shop.orders": 4}
    tables = ["shop.orders", "web.clicks", "shop.orders_current", "web.clicks_current"]
    job = build_defs({"lake": resource}, where).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, asset_selection=[table_key(each) for each in tables])
    assert materialized(result) == ["shop/orders", "shop/orders_current", "shop/orders_quarantine"]
    assert loaded_before(instance, tables) == {"shop.orders", "shop.orders_current"}


def test_a_run_of_the_sensor_reports_only_tables_with_commits(run, monkeypatch):
    FakeWork.waiting = {"shop.orders": 4}
    monkeypatch.setattr(run_module, "Handover", lambda *_: lambda: "run x is queued")
    result = run("shop.orders", "web.clicks", tags=SENSOR)
    assert result.success
    assert materialized(result) == ["shop/orders", "shop/orders_quarantine"]


def test_a_scheduled_look_at_tables_that_are_level_says_nothing_of_them(run, executed_again):
    """Given a schedule that looks every hour, when nothing waits, then no result of it has marts built anew."""
    FakeWork.waiting = {"shop.orders": 4}
    result = run("shop.orders", "web.clicks", tags={SCHEDULE_NAME_TAG: "merge"})
    assert result.success
    assert materialized(result) == ["shop/orders", "shop/orders_quarantine"]
    again = executed_again(result.run_id, ["web.clicks"], tags={SCHEDULE_NAME_TAG: "merge"})
    assert materialized(again) == ["web/clicks"], "the person who executes it again is answered"


def test_a_run_of_the_sensor_leaves_a_table_alone_that_is_not_due(run, monkeypatch):
    """Given a table whose records were first seen just now, when a run has taken it along and is called away, then it made no batch of it."""
    FakeWork.waiting = {"shop.orders": 4, "web.clicks": 4}
    monkeypatch.setattr(run_module, "Handover", lambda *_: lambda: "run x is queued")
    seen = {"web.clicks": int(datetime.now(UTC).timestamp())}
    result = run("shop.orders", "web.clicks", tags=SENSOR, first_seen=seen)
    assert result.success
    assert materialized(result) == ["shop/orders", "shop/orders_quarantine"]
    assert FakeWork.waiting == {"web.clicks": 4}


def test_a_table_that_is_not_of_the_lane_is_refused_by_name(run, instance):
    """Given `first_seen` with a name that no table of the lane has, when the run is launched, then it says which was meant and reads nothing."""
    FakeWork.waiting = {"shop.orders": 4}
    result = run("shop.orders", first_seen={"shop.ordres": 5})
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    said = failed.step_failure_data.user_failure_data.description
    assert (
        said
        == "first_seen: no contract of lane default makes a table shop.ordres (did you mean shop.orders?)"
    )
    assert FakeWork.waiting == {"shop.orders": 4}


def test_the_engine_is_told_which_tables_were_loaded_before(run, lake):
    run("shop.orders")
    assert FakeWork.loaded_before == set()
    run("shop.orders", "web.clicks")
    assert FakeWork.loaded_before == {"shop.orders"}
    assert [lake.loaded(each) for each in ("shop.orders", "old.orders")] == [True, False]


@pytest.mark.parametrize("by", ["a run", "who tells of a killed run"])
def test_only_a_result_of_ours_says_that_a_table_was_loaded(run, lake, instance, by):
    """Given an asset of a team that wrote the table before there was a contract, then no run has loaded it yet; one that has stays known, whatever anybody reports of the asset later."""
    theirs = dg.AssetMaterialization(ORDERS, metadata={"snapshot_id": "7", "dagster/row_count": 9})
    instance.report_runless_asset_event(theirs)
    assert loaded_before(instance, ["shop.orders"]) == set()
    if by == "a run":
        run("shop.orders")
        assert FakeWork.loaded_before == set()
    else:
        lake.tables["shop.orders"] = {"next": {0: 10}}
        contract = lake.configuration.contract("shop.orders")
        for each in published(instance, contract, lake.state("shop.orders")):
            instance.report_runless_asset_event(each)
    instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS))
    assert loaded_before(instance, ["shop.orders"]) == {"shop.orders"}


def test_a_run_begins_with_the_table_whose_last_result_is_the_oldest(run):
    FakeWork.waiting = {"shop.orders": 4}
    run("shop.orders")
    FakeWork.waiting = {"shop.orders": 4, "web.clicks": 4}
    result = run("shop.orders", "web.clicks", tags=SENSOR)
    found = [e.asset_key.to_user_string() for e in result.all_events if e.is_step_materialization]
    assert [each for each in found if "quarantine" not in each] == ["web/clicks", "shop/orders"]


def test_a_lingering_run_makes_room_for_a_younger_run_of_its_lane_alone(defs, instance):
    job = defs.resolve_job_def("ingest")

    def begun(*tables):
        keys = frozenset(AssetKey(t.split(".")) for t in tables)
        started = dg.DagsterRunStatus.STARTED
        subset = job.get_subset(asset_selection=keys)
        return instance.create_run_for_job(subset, status=started, asset_selection=keys).run_id

    mine = begun("shop.orders")
    called_away = Handover(instance, mine, pool_of("default"))
    assert called_away() is None
    begun("shop.audit")
    assert called_away() is None
    younger = begun("web.clicks")
    assert called_away() == f"run {younger[:8]} is started"
    assert Handover(instance, younger, pool_of("default"))() is None


def test_a_lingering_run_ends_for_an_edit_of_what_it_goes_by_alone(where):
    """Given a run that serves one table, when contracts of others, and comments of its own, are edited, or its file breaks, then it stays; when its own or the platform file is edited, or its own gone, then it goes."""
    orders, clicks = (where.contracts_dir / f"{name}.yaml" for name in ("orders", "clicks"))

    def edits():
        found = Followed(where).now()
        [contract] = [each for each in found.contracts if each.table == "shop.orders"]
        followed = Followed(where)
        followed.begin_with(found, time.time() + 1)
        return Edits(followed, {contract.table: contract.digest}, found)

    first, meanwhile = Followed(where).now(), edits()
    assert meanwhile() is None
    clicks.write_text(f"{clicks.read_text()}description: Clicks\n")
    was = orders.read_text()
    orders.write_text(f"# the shop's\n{was}")
    assert meanwhile() is None
    orders.write_text(f"{was}\ntagret_lag: 7s\n")
    assert meanwhile() is None, "no other run could begin"
    orders.write_text(f"{was}\ntarget_lag: 7s\n")
    assert meanwhile() == "the contract of shop.orders was edited"
    behind = Followed(where)
    behind.begin_with(first, 0.0)  # as where a file was written while the run began
    served = {each.table: each.digest for each in first.contracts if each.table == "shop.orders"}
    assert Edits(behind, served, first)() == "the contract of shop.orders was edited"
    again, moved = edits(), edits()
    orders.unlink()
    assert again() == "the contract of shop.orders was edited"
    orders.write_text(was)
    where.platform_file.write_text(where.platform_file.read_text().replace("127.0.0.1:4", "127.0.0.1:5"))
    assert moved() == "the platform file was edited"


def test_a_lingering_run_makes_room_for_a_run_that_it_has_overtaken(defs, instance, queued):
    """Given a run in the queue that needs the pool of another lane too, when a younger one lingers in this lane, then it goes."""
    job, keys = defs.resolve_job_def("ingest"), frozenset({ORDERS})
    waits = queued(job.get_subset(asset_selection=keys), selected=keys)
    subset = job.get_subset(asset_selection=keys)
    mine = instance.create_run_for_job(subset, status=dg.DagsterRunStatus.STARTED, asset_selection=keys)
    assert Handover(instance, mine.run_id, pool_of("default"))() == f"run {waits.run_id[:8]} is queued"
    assert Handover(instance, mine.run_id, pool_of("slow"))() is None


def test_a_lingering_run_stays_while_who_waits_could_not_begin_without_it(defs, instance, queued):
    """Given a run in the queue that needs the pool of another lane too, while a person's run or a schedule's holds that, then who lingers in this lane stays; not where that makes room too, or has ended, but where the limit of that pool is 0."""
    job, audit = defs.resolve_job_def("ingest"), AssetKey(["shop", "audit"])

    def begun(key, **tags):
        keys = frozenset({key})
        subset = job.get_subset(asset_selection=keys)
        return instance.create_run_for_job(
            subset, status=dg.DagsterRunStatus.STARTED, asset_selection=keys, tags=tags
        )

    both = frozenset({ORDERS, audit})
    waits = queued(job.get_subset(asset_selection=both), selected=both)
    called_away = Handover(instance, begun(ORDERS).run_id, pool_of("default"))
    goes = f"run {waits.run_id[:8]} is queued"
    assert called_away() == goes
    begun(audit, **SENSOR)
    assert called_away() == goes
    rebuild = begun(audit)
    assert called_away() is None
    alone = queued(job.get_subset(asset_selection=both - {audit}), selected=both - {audit})
    assert called_away() == f"run {alone.run_id[:8]} is queued"
    instance.report_run_canceled(alone)
    assert called_away() is None
    instance.report_run_canceled(rebuild)
    assert called_away() == goes
    instance.event_log_storage.set_concurrency_slots(pool_of("slow"), 0)
    assert called_away() is None


def test_a_check_of_a_table_that_cannot_be_judged_fails_by_name_and_not_the_run(run, lake):
    del lake.ends["orders"]
    result = run("shop.orders")
    assert result.success
    *_, evaluated = [e for e in result.get_asset_check_evaluations() if e.check_name == "freshness"]
    assert not evaluated.passed
    assert evaluated.metadata["state"].value == "topic_missing"


@pytest.fixture
def checks_of(instance):
    """The evaluations that the ingest step of a run has stored, by name."""

    def read(result):
        logged = instance.all_logs(result.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
        events = [entry.dagster_event for entry in logged]
        found = [e.asset_check_evaluation_data for e in events if e.step_key.startswith("ingest_")]
        return {each.check_name: each for each in found}

    return read


def test_rules_of_the_contract_are_checks_with_counts_and_samples(run, checks_of):
    FakeWork.waiting = {"shop.audit": 4}
    broken = RuleResult("amount_is_small", "warn", "", 3, (Sample(0, 7, (("amount", "12"),)),))
    FakeWork.quality = {"amount_is_small": broken}
    found = checks_of(run("shop.audit"))
    assert {name: each.passed for name, each in found.items()} == {
        "not_null_id": True,
        "amount_is_small": False,
        "min_rows": True,
        "quarantine_rate": False,
        "reconciliation": True,
        "freshness": True,
    }
    warned = found["amount_is_small"]
    assert (warned.severity, warned.metadata["rows_failed"].value) == (dg.AssetCheckSeverity.WARN, 3)
    assert warned.metadata["samples"].value == [{"partition": 0, "offset": 7, "values": {"amount": "12"}}]
    assert found["quarantine_rate"].metadata["share"].value == 0.25
    assert found["reconciliation"].metadata["unaccounted"].value == 0


def test_a_batch_that_was_blocked_or_flooded_fails_its_check_by_name(run, checks_of):
    rules = [
        {"rule": "min_rows", "on_failure": "block", "expectation": "", "failed": 2, "samples": []},
        {"rule": "not_null_id", "on_failure": "quarantine", "expectation": "", "failed": 0, "samples": []},
    ]
    FakeWork.trouble = {"shop.audit": Stopped("quality_blocked", "shop.audit", "", rules=rules, read=8)}
    blocked = checks_of(run("shop.audit"))
    assert {name: each.passed for name, each in blocked.items()} == {"min_rows": False, "not_null_id": True}
    assert blocked["min_rows"].severity == dg.AssetCheckSeverity.ERROR
    assert blocked["min_rows"].metadata["rows_read"].value == 8
    causes = {"quality:not_null_id": 7, "undecodable": 3}
    flood = Stopped("quarantine_flood", "shop.audit", "", causes=causes, read=20)
    FakeWork.trouble = {"shop.audit": flood}
    flooded = checks_of(run("shop.audit"))
    rate = flooded.pop("quarantine_rate")
    assert {name: each.passed for name, each in flooded.items()} == {"min_rows": False, "not_null_id": True}
    assert (rate.passed, rate.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert rate.metadata["causes"].value == causes
    assert "accept shop.audit --quarantine-batch" in rate.metadata["next"].value, (
        "quarantine has nothing of it"
    )


def test_a_rule_that_someone_let_pass_says_what_became_of_its_rows(run, checks_of):
    """Given a batch that was accepted although rules block it, when it is published, then no check says that it is not."""
    FakeWork.waiting = {"shop.audit": 4}
    FakeWork.quality = {"min_rows": RuleResult("min_rows", "warn", "", 2)}
    checks = checks_of(run("shop.audit"))
    found = checks["min_rows"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.description.endswith("2 are missing; it is published")
    assert "--quarantine-batch" not in found.metadata["next"].value
    assert "nothing of the batch" not in checks["quarantine_rate"].description


def test_the_freshness_check_passes_when_nothing_waits(run):
    evaluated = {e.check_name: e for e in run("shop.orders").get_asset_check_evaluations()}["freshness"]
    assert evaluated.passed
    assert evaluated.metadata["lag_records"].value == 0


def test_three_hundred_busy_tables_write_less_than_a_gigabyte_a_day(run, instance, defs):
    FakeWork.waiting = {"shop.orders": 4}
    result = run("shop.orders")
    size = defaultdict(int)
    evaluations = []
    for entry in instance.all_logs(result.run_id):
        if entry.dagster_event and entry.dagster_event.step_key in {None, "ingest_default"}:
            event = entry.dagster_event
            if event.event_type == DagsterEventType.ASSET_CHECK_EVALUATION:
                evaluations.append(len(serialize_value(entry)))
            own = event.asset_key and event.asset_key.path != ["shop", "orders"]
            if event.is_successful_output:  # a run of the sensor selects no checks: they are no outputs there
                own = event.step_output_data.output_name != "shop__orders"
            size[entry.dagster_event_type.value] += 0 if own else len(serialize_value(entry))
    wide = 12 * len('"11": 1000000000, ') * 2  # offsets of 12 partitions in the outcome
    row = 250  # of the tables and indexes around an event
    result_bytes = 2 * (size["ASSET_MATERIALIZATION"] + wide + row) + size["STEP_OUTPUT"] + wide + row
    result_bytes += 2 * (size["ASSET_MATERIALIZATION_PLANNED"] + row)  # SQLite keeps asset events twice
    contract = defs.resources["lake"].configuration.contract("shop.orders")
    outcome = Outcome(
        "shop.orders", "fresh", from_=dict.fromkeys(range(12), 10**9), next=dict.fromkeys(range(12), 10**9)
    )
    observed = 2 * (
        len(serialize_value(observation(contract, outcome))) + 800 + row
    )  # 800: the entry around it
    tables = 300
    assert len(evaluations) == 3
    evaluated = 2 * (max(evaluations) + row)
    reports = timedelta(days=1) / report_period(timedelta(minutes=1), tables)
    ticks = 86_400 / 5 * 29_000  # tests/dagster/test_cursor.py
    for checks in (3, 8):
        runs = timedelta(days=1) / run_length(timedelta(minutes=5), tables, tables * checks)
        results = tables * runs * (result_bytes + checks * evaluated)
        assert results + 2 * tables * reports * observed + ticks < 1e9


def test_status_knows_a_stop_state_however_many_runs_came_after_it(run, instance, monkeypatch):
    """Given a table that stopped, when more runs of other tables have ended than are looked back at, then its state is still known."""
    monkeypatch.setattr(last_runs, "LOOK_BACK", 1)
    FakeWork.trouble["shop.orders"] = Stopped("schema_review", "shop.orders", "a plan waits")
    run("shop.orders")
    FakeWork.trouble.clear()
    for _ in range(2):
        run("web.clicks")
    last = last_runs.last_runs(instance, ["shop.orders", "web.clicks"])
    assert {table: each.stopped for table, each in last.items()} == {
        "shop.orders": "schema_review",
        "web.clicks": None,
    }
    assert last["shop.orders"].why.endswith("a plan waits")
    assert last["shop.orders"].remedy.startswith("tidemark plan shop.orders, then")


def test_status_knows_a_stop_state_when_a_sensor_has_told_of_the_table_since(run, instance):
    FakeWork.trouble["shop.orders"] = Stopped("quarantine_flood", "shop.orders", "a flood")
    run("shop.orders")
    instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS))
    [found] = last_runs.last_runs(instance, ["shop.orders"]).values()
    assert found.stopped == "quarantine_flood"


def test_status_knows_a_stop_state_of_a_job_that_was_launched_as_a_whole(run, instance, defs):
    """Given a stopped table, when the job is launched without a selection, as schedules do, then its state is still known."""
    FakeWork.trouble["shop.orders"] = Stopped("schema_review", "shop.orders", "a plan waits")
    defs.resolve_job_def("ingest").execute_in_process(instance=instance, raise_on_error=False)
    last = last_runs.last_runs(instance, ["shop.orders", "web.clicks"])
    assert {table: each.stopped for table, each in last.items()} == {
        "shop.orders": "schema_review",
        "web.clicks": None,
    }


def test_a_run_that_is_executed_again_does_not_answer_for_the_first(run, instance, monkeypatch):
    """Given tags of a run that stopped, when it is executed again after the mend, then the table is as the second run left it."""
    inherited = {**SENSOR, STOPPED_TAG: json.dumps({"shop.orders": "schema_review"})}
    left = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE
    for status, state in zip(left, (None, "failed"), strict=True):
        if state:
            monkeypatch.setattr(FakeWork, "look", lambda *_: 1 // 0)  # a bug, that of no table
        done = run("shop.orders", tags={**inherited, PARENT_RUN_ID_TAG: "the first"})
        found = instance.get_run_by_id(done.run_id)
        assert (found.status, json.loads(found.tags[STOPPED_TAG])) == (status, {})
        [told] = [each.stopped for each in last_runs.last_runs(instance, ["shop.orders"]).values()]
        newest = lane_runs.ended(instance, pool_of("default"), ["shop.orders"], None)[0][-1]
        assert (told, newest.stopped.get("shop.orders")) == (state, state)


def test_each_lane_of_a_run_speaks_for_its_own_tables(run, instance):
    """Given tables that stop in two lanes, when one run has both, then both states are known; when it is executed again after the mend of one, then the other's alone."""

    def told(run_id):
        last = last_runs.last_runs(instance, stopped)
        tag = json.loads(instance.get_run_by_id(run_id).tags[STOPPED_TAG])
        return {table: each.stopped for table, each in last.items()}, tag

    stopped = ["shop.orders", "shop.audit"]
    both = dict.fromkeys(stopped, "schema_review")
    FakeWork.trouble = {table: Stopped("schema_review", table, "a plan waits") for table in stopped}
    first = run(*stopped)
    assert told(first.run_id) == (both, both)
    del FakeWork.trouble["shop.audit"]
    again = run(*stopped, tags={STOPPED_TAG: json.dumps(both), PARENT_RUN_ID_TAG: first.run_id})
    assert told(again.run_id) == (
        {"shop.orders": "schema_review", "shop.audit": None},
        {"shop.orders": "schema_review"},
    )


def test_a_thousand_tables_that_stop_fit_into_tags_that_postgresql_takes(instance):
    """Given an outage of a lane with very many tables, then each tag fits into an index entry, the state of each table is known, and a second run's few tables are all that is left."""
    many = {f"shop.{uuid4().hex}": "registry_down" for _ in range(1000)}
    tags = stopped_tags(many, {})
    assert max(len(tag) + len(text) for tag, text in tags.items()) < 2704 - 100
    assert stopped_of(tags) == many
    run_id = instance.create_run_for_job(dg.GraphDefinition("any").to_job(), tags=tags).run_id
    instance.add_run_tags(run_id, stopped_tags({"shop.orders": "failed"}, tags))
    assert stopped_of(instance.get_run_by_id(run_id).tags) == {"shop.orders": "failed"}


def test_a_run_whose_tags_cannot_be_written_names_what_stopped_all_the_same(run, instance, monkeypatch):
    def refused(*_):
        raise RuntimeError("index row size 2816 exceeds btree version 4 maximum 2704")

    monkeypatch.setattr(type(instance), "add_run_tags", refused)
    FakeWork.trouble["shop.orders"] = Stopped("schema_review", "shop.orders", "a plan waits")
    result = run("shop.orders", tags=SENSOR)
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert last_runs.errors_of(failed)["shop.orders"]["state"] == "schema_review"


def test_a_run_that_was_asked_to_end_is_no_fault_of_its_tables(run, instance):
    """Given Dagster that stops while a run is at work, when status looks at the run, then the table has not failed."""
    for error, state in ((DagsterExecutionInterruptedError(), None), (RuntimeError("a bug"), "failed")):
        FakeWork.trouble["shop.orders"] = error
        with suppress(DagsterExecutionInterruptedError):
            run("shop.orders")
        [found] = last_runs.last_runs(instance, ["shop.orders"]).values()
        assert found.stopped == state


def test_a_run_that_failed_in_another_step_is_no_fault_of_its_tables(run, defs, instance, monkeypatch):
    """Given one run of two lanes, of which one has a bug, then only that one's table has failed: neither status nor the sensor says so of the others."""
    look = FakeWork.look
    monkeypatch.setattr(FakeWork, "look", lambda *of: 1 // 0 if "audit" in of[-1] else look(*of))
    FakeWork.waiting = {"shop.orders": 4}
    tables = ["shop.orders", "shop.audit", "web.clicks"]
    assert not run(*tables, tags=SENSOR).success
    told = last_runs.last_runs(instance, tables)
    failed = {"shop.audit": "failed"}
    assert {table: each.stopped for table, each in told.items() if each.stopped} == failed
    for lane in ("default", "slow"):
        [end], _ = lane_runs.ended(instance, pool_of(lane), tables, None)
        assert end.stopped == failed


def test_a_run_from_a_failure_speaks_for_its_own_steps_alone(run, executed_again, defs, instance):
    """Given one run of two lanes, of which one failed, when that step alone is executed again and fails again, then the other's table has not failed, also while its newest run goes on."""
    FakeWork.trouble["shop.audit"] = RuntimeError("a bug")
    FakeWork.waiting = {"shop.orders": 4}
    tables = ["shop.orders", "shop.audit"]
    first = run(*tables)
    again = executed_again(first.run_id, tables, steps=["ingest_slow"])
    assert not again.success
    lingers = defs.resolve_job_def("ingest").get_subset(asset_selection={ORDERS})
    started = dg.DagsterRunStatus.STARTED
    instance.create_run_for_job(lingers, status=started, asset_selection=frozenset({ORDERS}))
    told = last_runs.last_runs(instance, tables)
    assert {table: each.stopped for table, each in told.items()} == {
        "shop.orders": None,
        "shop.audit": "failed",
    }
    assert last_runs.unfinished(instance, again.run_id, tables) == {"shop.audit"}


def test_a_run_without_a_selection_tells_how_its_tables_ended_too(run, defs, instance):
    """Given a whole job that somebody has launched, when a table of it stops, then its state is known; a run that was executed again and went well has stopped nothing, whatever its parent's tags say."""
    FakeWork.trouble["shop.orders"] = Stopped("schema_review", "shop.orders", "a plan waits")
    defs.resolve_job_def("ingest").execute_in_process(instance=instance, raise_on_error=False)
    both = ["shop.orders", "web.clicks"]
    assert {table: each.stopped for table, each in last_runs.last_runs(instance, both).items()} == {
        "shop.orders": "schema_review",
        "web.clicks": None,
    }
    FakeWork.trouble.clear()
    [failed] = instance.get_runs()
    tags = {STOPPED_TAG: failed.tags[STOPPED_TAG]}
    defs.resolve_job_def("ingest").execute_in_process(instance=instance, tags=tags)
    assert {each.stopped for each in last_runs.last_runs(instance, both).values()} == {None}
    ends, _ = lane_runs.ended(instance, pool_of("default"), both, None)
    assert sorted(each.stopped != {} for each in ends) == [False, True]
