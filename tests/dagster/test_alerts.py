"""Alerts as a webhook receives them: each failure once, with the next step; nothing lost while it is down."""

import json
import logging
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

import assets.runs.lane
import assets.runs.maintenance
import resources.lake as configuration_module
import sensors.alerts_answer
from assets.names import REVIEW, schema_key, table_key
from assets.runs.last_runs import DIED
from assets.runs.report import published
from orchestration.definitions import build_defs
from tidemark.domain.alerts import WEBHOOK
from tidemark.engine.access.table_state import TableState

STOPPED = {"state": "topic_missing", "message": "there is no topic clicks", "next_step": "create the topic"}


class Webhook:
    """A real HTTP endpoint; refuses while `down`."""

    def __init__(self):
        self.bodies, self.down = [], False
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(503 if hook.down else 200)
                self.end_headers()
                if not hook.down:
                    hook.bodies.append(body)

            def log_message(self, *_args):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret"


@pytest.fixture
def webhook(monkeypatch):
    made = Webhook()
    monkeypatch.setenv(WEBHOOK, made.url)
    yield made
    made.server.shutdown()
    made.server.server_close()


def stops_with(error):
    """What a lane does whose one table stops with these fields."""

    def stop(*_args, **_how):
        yield from ()
        metadata = {"web.clicks": dg.MetadataValue.json(error)}
        raise dg.Failure("web.clicks", metadata=metadata, allow_retries=False)

    return stop


def tick(defs, instance, cursor):
    repository = defs.get_repository_def()
    with dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=repository) as context:
        said = repository.get_sensor_def("alerts").evaluate_tick(context)
        return context.cursor, said.skip_message


def test_a_verb_that_failed_is_told_under_its_table_or_its_name(where, webhook, instance):
    """Given acts of operators that failed, when alerts are posted, then each names what it was about."""
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    for verb, op, config in (
        ("pause", "pause_table", {"table": "shop.ordres"}),
        ("drill", "drill_platform", {"cluster": "nowhere"}),
    ):
        defs.resolve_job_def(verb).execute_in_process(
            run_config={"ops": {op: {"config": config}}}, instance=instance, raise_on_error=False
        )
    tick(defs, instance, cursor)
    (body,) = webhook.bodies
    assert [each["subject"] for each in body["alerts"]] == ["shop.ordres", "drill"]


@pytest.mark.parametrize("cursor", ["{", "[]", '{"since": "x"}', '{"since": 1e300, "checked": 1.0}'])
def test_a_cursor_that_cannot_be_read_begins_anew(where, webhook, instance, cursor):
    found, said = tick(build_defs(where=where), instance, cursor)
    assert said == "0 alerts posted"
    assert tick(build_defs(where=where), instance, found) == (found, said)


def test_a_stop_and_a_red_check_are_told_once_and_not_before_the_webhook_takes_them(
    where, webhook, instance, monkeypatch
):
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    monkeypatch.setattr(assets.runs.lane, "run_tables", stops_with(STOPPED))
    job = defs.resolve_job_def("ingest")
    job.execute_in_process(instance=instance, asset_selection=[table_key("web.clicks")], raise_on_error=False)
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=table_key("shop.orders"),
            check_name="freshness",
            passed=False,
            metadata={"lag_seconds": 99.0},
        )
    )
    webhook.down = True
    cursor, said = tick(defs, instance, cursor)
    assert "HTTPStatusError" in said
    assert "secret" not in said
    webhook.down = False
    cursor, _ = tick(defs, instance, cursor)
    cursor, _ = tick(defs, instance, cursor)
    (body,) = webhook.bodies
    told = {each["subject"]: each for each in body["alerts"]}
    assert told["web.clicks"]["state"] == "topic_missing"
    assert told["web.clicks"]["next"] == "create the topic"
    assert told["shop.orders"]["what"] == "check freshness failed: lag_seconds 99.0"
    assert body["text"].startswith("Tidemark: 2 alerts")


def test_a_table_that_is_tried_again_and_stops_again_is_told_once_a_day(
    where, webhook, instance, monkeypatch
):
    """Given a table that stops every few minutes, then it is told when it stops otherwise, when it had got on or was at rest in between, and after a day."""
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    job, clicks = defs.resolve_job_def("ingest"), table_key("web.clicks")

    def told(**error):
        nonlocal cursor
        before = len(webhook.bodies)
        monkeypatch.setattr(assets.runs.lane, "run_tables", stops_with({**STOPPED, **error}))
        job.execute_in_process(instance=instance, asset_selection=[clicks], raise_on_error=False)
        cursor, _ = tick(defs, instance, cursor)
        return [each["state"] for body in webhook.bodies[before:] for each in body["alerts"]]

    assert told() == ["topic_missing"]
    assert told() == []
    assert told(state="permission_denied", message="not allowed, 3 times") == ["permission_denied"]
    assert told(state="permission_denied", message="not allowed, 4 times") == []
    assert told(state="store_down", message="SlowDown") == ["store_down"]
    assert told(state="store_down", message="no route to host") == []
    assert told(state="permission_denied", message="not allowed, 4 times") == ["permission_denied"]
    instance.report_runless_asset_event(dg.AssetMaterialization(clicks, metadata={"dagster/row_count": 0}))
    assert told(state="permission_denied", message="not allowed, 5 times") == [], "made, and still empty"
    instance.report_runless_asset_event(dg.AssetMaterialization(clicks))
    assert told(state="permission_denied", message="not allowed, 5 times") == ["permission_denied"]
    for place, hours in ((1, 25), (2, 2)):
        kept = json.loads(cursor)
        kept["stopped"]["web.clicks ingest_default"][place] -= hours * 3600
        cursor = json.dumps(kept)
        assert told(state="permission_denied", message="not allowed, 6 times") == ["permission_denied"]


@pytest.fixture
def ended(where, webhook, instance, monkeypatch):
    """Who is alerted of when a run has ended: well, or as `error` says, which is a step's, or that its process died."""
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)

    def end(job, tables=(), error=None):
        nonlocal cursor
        before, made = len(webhook.bodies), defs.resolve_job_def(job)
        keys = [table_key(table) for table in tables] or None

        def step(*_args, **_how):
            yield from ()
            raise error

        if isinstance(error, Exception):
            monkeypatch.setattr(assets.runs.lane, "run_tables", step)
            monkeypatch.setattr(assets.runs.maintenance, "maintain_tables", step)
            made.execute_in_process(instance=instance, asset_selection=keys, raise_on_error=False)
        else:
            chosen = keys and frozenset(keys)
            subset = made.get_subset(asset_selection=chosen) if chosen else made
            run = instance.create_run_for_job(
                subset, status=dg.DagsterRunStatus.STARTED, asset_selection=chosen
            )
            how = dg.DagsterEventType.RUN_FAILURE if error else dg.DagsterEventType.RUN_SUCCESS
            instance.report_dagster_event(dg.DagsterEvent(how.value, job, message=error), run.run_id)
        cursor, _ = tick(defs, instance, cursor)
        return [each["subject"] for body in webhook.bodies[before:] for each in body["alerts"]]

    return end


@pytest.mark.parametrize(
    ("job", "tables", "error"),
    [
        ("ingest", ["web.clicks", "shop.orders"], OSError("no space left")),
        ("compaction", [], DIED),
    ],
)
def test_a_job_that_went_well_in_between_is_told_again(ended, job, tables, error):
    """Given a job that fails, goes well and fails as before, then it is told again; not where other work went well, or a part."""
    assert ended(job, tables, error) == [job]
    assert ended(job, tables, error) == []
    assert ended("orphan_files") == []
    assert ended("ingest", ["shop.orders"]) == []
    assert ended(job, tables, error) == []
    for each in ("ingest", ["shop.orders"]), ("ingest", ["web.clicks"]), ("compaction",):
        assert ended(*each) == []
    assert ended(job, tables, error) == [job]
    assert ended(job, tables, error) == []


def test_a_stop_of_a_job_that_was_launched_whole_is_told_once_while_others_do_their_part(ended):
    """Given a job that a person launches whole and that stops at a table, when runs of other tables go well in between, then it is not told again."""
    named = {"web.clicks": dg.MetadataValue.json({"state": "failed", "message": "broken"})}
    stops = dg.Failure("web.clicks", metadata=named, allow_retries=False)
    by_lane = ["web.clicks", "web.clicks"]
    assert ended("ingest", [], stops) == by_lane
    assert ended("ingest", ["shop.orders"]) == []
    assert ended("ingest", [], stops) == []
    assert ended("ingest") == []
    assert ended("ingest", [], stops) == by_lane


def test_a_result_that_is_told_for_a_run_that_stopped_is_no_progress(ended, where, instance):
    """Given a run that publishes of a table and then stops at it, when its result is told with the next try and that stops as before, then it is told once; of what was published after the stop it is told again."""
    named = {"web.clicks": dg.MetadataValue.json({"state": "schema_review", "message": "a change waits"})}
    stops = dg.Failure("web.clicks", metadata=named, allow_retries=False)
    contract = configuration_module.configuration_of(where).contract("web.clicks")

    def tells_of(committed, receipt):
        state = TableState("web.clicks", True, receipt=receipt, rows=5, committed_at=committed)
        for each in published(instance, contract, state):
            instance.report_runless_asset_event(each)

    first = datetime.now(UTC)
    assert ended("ingest", ["web.clicks"], stops) == ["web.clicks"]
    tells_of(first, 1)
    assert ended("ingest", ["web.clicks"], stops) == []
    tells_of(datetime.now(UTC), 2)
    assert ended("ingest", ["web.clicks"], stops) == ["web.clicks"]
    tells_of(None, 3)
    assert ended("ingest", ["web.clicks"], stops) == []


def test_maintenance_that_fails_is_told_apart_from_ingest(ended, instance):
    """Given a table that runs stop at and maintenance fails at, then each is told once, until that very work has got on."""
    named = {"web.clicks": dg.MetadataValue.json({"state": "failed", "message": "broken"})}
    stops = dg.Failure("web.clicks", metadata=named, allow_retries=False)
    ingest, compaction = ("ingest", ["web.clicks"]), ("compaction", [])
    assert ended(*ingest, stops) == ended(*compaction, stops) == ["web.clicks"]
    assert ended(*ingest, stops) == ended(*compaction, stops) == []
    instance.report_runless_asset_event(dg.AssetMaterialization(table_key("web.clicks")))
    assert ended(*compaction, stops) == []
    assert ended(*ingest, stops) == ["web.clicks"]
    assert ended(*compaction) == ended(*ingest, stops) == []
    assert ended(*compaction, stops) == ["web.clicks"]


def test_a_run_that_was_asked_to_end_is_no_alert_and_one_that_was_killed_is(ended):
    """Given runs that end because Dagster is stopped, then nobody is alerted; of one whose process died somebody is."""
    interrupted = type(
        "DagsterExecutionInterruptedError", (Exception,), {}
    )  # Dagster's own ends this process's step too
    assert ended("compaction", [], interrupted("asked to end")) == []
    assert ended("compaction", [], DIED) == ["compaction"]


def test_a_failure_of_no_table_is_told_once_with_its_cause(where, webhook, instance, monkeypatch):
    """Given jobs that fail again and again of what is no stop of a table, or whose process dies, then each is told once, in the words of what happened, and a tag that a run is given later is no failure."""
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    ingest, reason = defs.resolve_job_def("ingest"), "no space left on device {}"

    def told():
        nonlocal cursor
        before = len(webhook.bodies)
        cursor, _ = tick(defs, instance, cursor)
        return [
            (each["subject"], each["what"]) for body in webhook.bodies[before:] for each in body["alerts"]
        ]

    def broken(*_args, **_how):
        raise OSError(reason.format(uuid4()))
        yield

    def fails():
        found = ingest.execute_in_process(
            instance=instance, asset_selection=[table_key("web.clicks")], raise_on_error=False
        )
        return found.run_id

    def dies():
        run = instance.create_run_for_job(ingest, status=dg.DagsterRunStatus.STARTED)
        instance.report_run_failed(run, DIED)
        return run.run_id

    monkeypatch.setattr(assets.runs.lane, "run_tables", broken)
    first = fails()
    ((subject, what),) = told()
    assert (subject, what.split(" device ")[0]) == ("ingest", "OSError: no space left on")
    fails()
    assert told() == []
    dead = dies()
    assert told() == [("ingest", DIED)]
    dies()
    assert told() == []
    reason = "another reason {}"
    fails()
    assert len(told()) == 1
    for run_id in (first, dead):
        instance.add_run_tags(run_id, {"seen": "by me"})
    assert told() == []
    cursor = json.dumps(json.loads(cursor) | {"stopped": {}})
    monkeypatch.setattr(sensors.alerts_answer, "APART", 0.0)
    instance.add_run_tags(first, {"seen": "again"})
    assert told() == []


def test_an_act_that_failed_is_told_each_time_but_a_tag_is_no_act(where, webhook, instance):
    """Given the same act that fails twice, or whose process dies, then each is told, for a person waits for it; that the run is changed later is not."""
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    config = {"ops": {"pause_table": {"config": {"table": "shop.ordres"}}}}
    pause = defs.resolve_job_def("pause")
    for _ in range(2):
        done = pause.execute_in_process(run_config=config, instance=instance, raise_on_error=False)
        cursor, _ = tick(defs, instance, cursor)
    for _ in range(2):
        dead = instance.create_run_for_job(
            pause, run_config=config, tags=pause.tags, status=dg.DagsterRunStatus.STARTED
        )
        instance.report_run_failed(dead, DIED)
        cursor, _ = tick(defs, instance, cursor)
    instance.add_run_tags(done.run_id, {"seen": "by me"})
    tick(defs, instance, cursor)
    assert [len(each["alerts"]) for each in webhook.bodies] == [1, 1, 1, 1]


def test_a_run_of_another_project_is_not_told_and_odd_metadata_of_ours_stops_no_alert(
    where, webhook, instance, monkeypatch
):
    """Given an instance that others use too, then their failures are none of ours; ours is told whatever `table` it names."""

    @dg.op
    def foreign():
        raise dg.Failure("broken", metadata={"what": dg.MetadataValue.json(odd)}, allow_retries=False)

    @dg.job
    def nightly_of_somebody_else():
        foreign()

    odd = {**STOPPED, "table": {"id": 7}}
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    nightly_of_somebody_else.execute_in_process(instance=instance, raise_on_error=False)
    cursor, said = tick(defs, instance, cursor)
    assert said == "0 alerts posted"
    monkeypatch.setattr(assets.runs.lane, "run_tables", stops_with(odd))
    defs.resolve_job_def("ingest").execute_in_process(
        instance=instance, asset_selection=[table_key("web.clicks")], raise_on_error=False
    )
    tick(defs, instance, cursor)
    assert [each["subject"] for body in webhook.bodies for each in body["alerts"]] == ["{'id': 7}"]


def test_a_newline_behind_the_address_is_none_of_it_and_one_within_is_a_reason(
    where, webhook, instance, monkeypatch
):
    """Given an address from a mounted secret, which ends in a newline, then alerts arrive; one that can be none stops nothing."""
    monkeypatch.setattr(assets.runs.lane, "run_tables", stops_with(STOPPED))
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    defs.resolve_job_def("ingest").execute_in_process(
        instance=instance, asset_selection=[table_key("web.clicks")], raise_on_error=False
    )
    monkeypatch.setenv(WEBHOOK, "http://127.0.0.1:1/sec\nret")
    cursor, said = tick(build_defs(where=where), instance, cursor)
    assert said == "the webhook did not take 1 alert: InvalidURL; tried again"
    monkeypatch.setenv(WEBHOOK, f"{webhook.url}\n")
    tick(build_defs(where=where), instance, cursor)
    assert [each["subject"] for body in webhook.bodies for each in body["alerts"]] == ["web.clicks"]


def test_the_address_of_the_webhook_is_in_no_log(where, webhook, instance, monkeypatch, caplog):
    """Given a host that keeps what every library logs, when an alert is posted, then its address is not there."""
    monkeypatch.setattr(assets.runs.lane, "run_tables", stops_with(STOPPED))
    logging.getLogger("httpx").setLevel(logging.NOTSET)
    caplog.set_level(logging.INFO)
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)
    defs.resolve_job_def("ingest").execute_in_process(
        instance=instance, asset_selection=[table_key("web.clicks")], raise_on_error=False
    )
    tick(defs, instance, cursor)
    assert len(webhook.bodies) == 1
    assert webhook.url not in caplog.text


def test_a_check_is_told_when_it_turns_red_or_says_something_else(where, webhook, instance):
    """Given checks that are evaluated again and again, then only what is new about them is told, with its next step."""
    defs = build_defs(where=where)
    cursor, _ = tick(defs, instance, None)

    def evaluated(key, name, says, *, passed=False, **metadata):
        nonlocal cursor
        before = len(webhook.bodies)
        found = dg.AssetCheckEvaluation(
            asset_key=key, check_name=name, passed=passed, description=says, metadata=metadata
        )
        instance.report_runless_asset_event(found)
        cursor, _ = tick(defs, instance, cursor)
        return [each for body in webhook.bodies[before:] for each in body["alerts"]]

    def parked(plan):
        return evaluated(
            schema_key("shop.orders"), REVIEW, "id: widen", plan=plan, next=f"tidemark approve … {plan}"
        )

    (first,) = parked("p1")
    assert (first["subject"], first["next"]) == ("shop.orders", "tidemark approve … p1")
    assert first["what"] == "check schema_review failed: id: widen"
    assert parked("p1") == []
    assert [each["next"] for each in parked("p2")] == ["tidemark approve … p2"]

    orders = table_key("shop.orders")
    (rate,) = evaluated(orders, "quarantine_rate", "12 of 20 records could not enter: undecodable 12")
    assert "undecodable 12" in rate["what"]
    assert evaluated(orders, "quarantine_rate", "3 of 9 records could not enter: undecodable 3") == []
    assert evaluated(orders, "quarantine_rate", "4 of 9 records could not enter: null_key 4")
    assert evaluated(orders, "quarantine_rate", "all of 9 records could enter", passed=True) == []
    assert evaluated(orders, "quarantine_rate", "4 of 9 records could not enter: null_key 4")

    left = "Kafka may delete the oldest unread record in {} h"
    (headroom,) = evaluated(
        orders, "retention_headroom", left.format(5.3), next="tidemark status shop.orders"
    )
    assert headroom["next"] == "tidemark status shop.orders"
    assert evaluated(orders, "retention_headroom", left.format(5.2), next="tidemark status shop.orders") == []


def test_what_dagster_writes_after_something_later_is_told_once(where, webhook, instance, monkeypatch):
    """Given runs that failed and checks that turned red a moment before what was told, when Dagster has written of them too, then each is told once; more than a tick takes do not hold up what follows, nor does what a machine has written whose clock is ahead."""
    monkeypatch.setattr(sensors.alerts_answer, "AT_ONCE", 1)
    defs = build_defs(where=where)
    begun, _ = tick(defs, instance, None)
    cursor = json.dumps({name: at - 60 if at else at for name, at in json.loads(begun).items()})
    pause, began = defs.resolve_job_def("pause"), time.time() - 30
    config = {"ops": {"pause_table": {"config": {"table": "shop.ordres"}}}}

    def fails(after):
        run = instance.create_run_for_job(
            pause, run_config=config, tags=pause.tags, status=dg.DagsterRunStatus.STARTED
        )
        failed = dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, "pause", message=DIED)
        instance.report_dagster_event(failed, run.run_id, timestamp=began + after)

    def turns_red(table, after, check="freshness"):
        found = dg.AssetCheckEvaluation(asset_key=table_key(table), check_name=check, passed=False)
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
        event = dg.DagsterEvent(kind, RUNLESS_JOB_NAME, event_specific_data=found)
        instance.report_dagster_event(event, RUNLESS_RUN_ID, timestamp=began + after)

    def told():
        nonlocal cursor
        before = len(webhook.bodies)
        cursor, _ = tick(defs, instance, cursor)
        return [each["subject"] for body in webhook.bodies[before:] for each in body["alerts"]]

    fails(1.0)
    turns_red("shop.orders", 1.0)
    assert told() == ["pause", "shop.orders"]
    fails(0.9)
    turns_red("web.clicks", 0.9)
    assert told() == ["pause", "web.clicks"]
    assert told() == []
    fails(2.0)
    fails(2.1)
    assert [told(), told(), told()] == [["pause"], ["pause"], []]
    fails(400.0)
    turns_red("shop.orders", 400.0, "quarantine_rate")
    assert [told(), told()] == [["pause", "shop.orders"], []]
    soon = time.time() - began - 20
    fails(soon)
    fails(401.0)
    turns_red("web.clicks", soon, "quarantine_rate")
    assert [told(), told(), told()] == [["pause", "pause", "web.clicks"], [], []]


def test_a_check_that_is_gone_leaves_no_mark(where, webhook, instance):
    """Given red checks, when the table of one of them is taken out of the contracts, then the cursor forgets that one alone."""
    cursor, _ = tick(build_defs(where=where), instance, None)
    for table in ("shop.orders", "web.clicks"):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(asset_key=table_key(table), check_name="freshness", passed=False)
        )
    cursor, _ = tick(build_defs(where=where), instance, cursor)
    assert set(json.loads(cursor)["red"]) == {"shop/orders:freshness", "web/clicks:freshness"}
    (where.contracts_dir / "clicks.yaml").unlink()
    configuration_module._configuration.cache_clear()
    cursor, _ = tick(build_defs(where=where), instance, cursor)
    assert set(json.loads(cursor)["red"]) == {"shop/orders:freshness"}


def test_without_a_webhook_there_is_no_sensor(where, monkeypatch):
    monkeypatch.delenv(WEBHOOK, raising=False)
    assert "alerts" not in {each.name for each in build_defs(where=where).get_repository_def().sensor_defs}
